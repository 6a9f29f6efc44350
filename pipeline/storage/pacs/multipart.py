"""The one part of a multipart answer that holds a DICOM object, byte for byte."""

from __future__ import annotations

from email.message import Message

from medsanitize.pipeline.storage.pacs.retry import ObjectRefused, TransientFailure


def single_part(content_type: str, body: bytes) -> bytes:
    """Take the object out of an answer to WADO-RS (PS3.18 8.6.1); nothing in it is decoded.

    Raises
    ------
    ObjectRefused
        The answer is no DICOM object, or several.
    TransientFailure
        The answer was cut short.
    """
    header = Message()
    header["Content-Type"] = content_type
    if header.get_content_type() == "application/dicom":
        return body
    boundary = header.get_boundary()
    if header.get_content_type() != "multipart/related" or not boundary:
        raise ObjectRefused("an answer of another media type")
    delimiter = b"--" + boundary.encode("latin-1", "replace")
    start = body.find(delimiter)
    begin = body.find(b"\r\n\r\n", start)
    end = body.find(b"\r\n" + delimiter, begin + 4)
    if start < 0 or begin < 0 or end < 0:
        raise TransientFailure("an answer was cut short")
    if not body.startswith(b"--", end + 2 + len(delimiter)):
        raise ObjectRefused("an answer of several objects")
    return body[begin + 4 : end]
