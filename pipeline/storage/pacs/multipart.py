"""Extraction of the single part of a multipart response that contains a DICOM object."""

from __future__ import annotations

from email.message import Message

from medsanitize.pipeline.storage.pacs.pacs_retry import ObjectRefused, TransientFailure


def single_part(content_type: str, body: bytes) -> bytes:
    """Return the object of a WADO-RS response (PS3.18 8.6.1) unchanged.

    Raises
    ------
    ObjectRefused
        The response contains no DICOM object, or several.
    TransientFailure
        The response is truncated.
    """
    header = Message()
    header["Content-Type"] = content_type
    if header.get_content_type() == "application/dicom":
        return body
    boundary = header.get_boundary()
    if header.get_content_type() != "multipart/related" or not boundary:
        raise ObjectRefused("a response of another media type")
    # Searched, not parsed as MIME: a parser would copy and may change line ends.
    delimiter = b"--" + boundary.encode("latin-1", "replace")
    start = body.find(delimiter)
    begin = body.find(b"\r\n\r\n", start)
    end = body.find(b"\r\n" + delimiter, begin + 4)
    if start < 0 or begin < 0 or end < 0:
        raise TransientFailure("a truncated response")
    if not body.startswith(b"--", end + 2 + len(delimiter)):
        raise ObjectRefused("a response with several objects")
    return body[begin + 4 : end]
