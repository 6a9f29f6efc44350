"""JPEG XL frames (ISO/IEC 18181-2): only code stream boxes stay, Exif, XML and JUMBF boxes go."""

from __future__ import annotations

from medsanitize.sanitize.quarantine import Quarantined

_SIGNATURE = b"\0\0\0\x0cJXL \x0d\x0a\x87\x0a"
_KEPT = frozenset([b"JXL ", b"jxlc", b"jxlp"])
_TYPE = b"\0\0\0\x14ftypjxl \0\0\0\0jxl "


def strip_jpegxl_metadata(frame: bytes) -> bytes:
    """One frame without metadata boxes; a naked code stream has none.

    Raises
    ------
    Refused
        ``jpegxl-structure``, also for a frame that carries JPEG reconstruction data, which holds
        the original file's application segments.
    """
    if frame[:2] == b"\xff\x0a":
        return frame
    if frame[:12] != _SIGNATURE:
        raise Quarantined("jpegxl-structure", "pixels")
    pieces: list[bytes] = []
    pos, end = 0, len(frame)
    while end - pos >= 8:
        length, kind = int.from_bytes(frame[pos : pos + 4], "big"), frame[pos + 4 : pos + 8]
        if length == 1:
            length = int.from_bytes(frame[pos + 8 : pos + 16], "big")
        elif length == 0:
            length = end - pos
        if length < 8 or pos + length > end or kind == b"jbrd":
            raise Quarantined("jpegxl-structure", "pixels")
        if kind == b"ftyp":
            pieces.append(_TYPE)
        elif kind in _KEPT or (kind == b"jxll" and length == 9):
            pieces.append(frame[pos : pos + length])
        pos += length
    out = b"".join(pieces)
    return frame if out == frame else out
