"""JPEG and JPEG-LS code streams (ITU-T T.81, T.87): metadata segments cut, image data untouched."""

from __future__ import annotations

import re

from medsanitize.sanitize.dicom.refusal import Refused

_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
_MARKER_LS = re.compile(rb"\xff[\x80-\xfe]", re.DOTALL)
_SOI, _EOI, _SOS, _COM = 0xD8, 0xD9, 0xDA, 0xFE
_STANDALONE = frozenset([0x01, *range(0xD0, 0xD8)])
_KNOWN = frozenset([*range(0xC0, 0xC8), *range(0xC9, 0xD0), *range(0xDA, 0xF0), 0xF7, 0xF8, _COM])
"""Markers with a segment that T.81 and T.87 give a meaning; the reserved ones could hold anything."""


def strip_metadata(frame: bytes, *, lossless_ls: bool = False) -> bytes:
    """One frame without COM and APPn segments (a plain JFIF, Adobe or SPIFF colour marker stays)
    and without anything after End Of Image.

    Returns the same object when there was nothing to cut.

    Raises
    ------
    Refused
        ``jpeg-structure`` when the markers do not hold together.
    """
    if frame[:2] != b"\xff\xd8":
        raise Refused("jpeg-structure", "pixels")
    pattern = _MARKER_LS if lossless_ls else _MARKER
    pieces: list[bytes] = []
    keep_from, pos, end = 0, 2, len(frame)
    while True:
        marker, pos, begun = _next_marker(frame, pos, end)
        if marker == _EOI:
            if frame[pos:].strip(b"\0") == b"" and end - pos <= 1 and not pieces:
                return frame
            pieces.append(frame[keep_from:pos])
            return b"".join(pieces)
        if marker in _STANDALONE:
            continue
        if marker not in _KNOWN or pos + 2 > end:
            raise Refused("jpeg-structure", "pixels")
        stop = pos + int.from_bytes(frame[pos : pos + 2], "big")
        if stop > end or stop < pos + 2:
            raise Refused("jpeg-structure", "pixels")
        if marker == _COM or (0xE0 <= marker <= 0xEF and not _needed(marker, frame[pos + 2 : stop])):
            pieces.append(frame[keep_from:begun])
            keep_from = stop
        pos = stop
        if marker == _SOS:
            found = pattern.search(frame, pos)
            if found is None:
                raise Refused("jpeg-structure", "pixels")
            pos = found.start()
            while frame[pos - 1] == 0xFF and pos > stop:
                pos -= 1  # fill bytes before a marker


def _next_marker(frame: bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Marker code at ``pos``, the byte after it, and where its (fill-padded) prefix began."""
    begun = pos
    if pos + 2 > end or frame[pos] != 0xFF:
        raise Refused("jpeg-structure", "pixels")
    while pos < end and frame[pos] == 0xFF:
        pos += 1
    if pos >= end:
        raise Refused("jpeg-structure", "pixels")
    return frame[pos], pos + 1, begun


def _needed(marker: int, body: bytes) -> bool:
    """Segments that decoding may need: JFIF without a thumbnail, Adobe's and HP's colour transforms."""
    if marker == 0xE0:
        return len(body) == 14 and body[:5] == b"JFIF\0" and body[12:14] == b"\0\0"
    if marker == 0xEE:
        return len(body) == 12 and body[:5] == b"Adobe"
    return marker == 0xE8 and len(body) == 5 and body[:4] == b"mrfx"
