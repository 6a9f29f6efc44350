"""JPEG XL frames (ISO/IEC 18181-2), reduced to code stream boxes; Exif, XML and JUMBF boxes are removed."""

from __future__ import annotations

from medsanitize.sanitize.quarantine import Quarantined

_SIGNATURE = b"\0\0\0\x0cJXL \x0d\x0a\x87\x0a"
_KEPT_BOXES = frozenset([b"JXL ", b"jxlc", b"jxlp"])
# The file type box is replaced by this one: brands could be added to the original.
_TYPE = b"\0\0\0\x14ftypjxl \0\0\0\0jxl "


def strip_jpegxl_metadata(frame: bytes) -> bytes:
    """Remove the metadata boxes of one frame; a bare code stream has none and is returned unchanged.

    Raises
    ------
    Quarantined
        ``jpegxl-structure``, also for a frame with JPEG reconstruction data (box ``jbrd``), which
        contains the application segments of the original JPEG file.
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
        # jxll, the level, is one byte; a longer one could contain anything.
        elif kind in _KEPT_BOXES or (kind == b"jxll" and length == 9):
            pieces.append(frame[pos : pos + length])
        pos += length
    out = b"".join(pieces)
    return frame if out == frame else out
