"""JPEG 2000 and HTJ2K code streams (ITU-T T.800 Annex A): comments cut, boxes opened, packets untouched."""

from __future__ import annotations

from medsanitize.sanitize.dicom.refusal import Refused

_SOC, _SOT, _SOD, _EOC, _COM, _TLM, _PLM, _PLT, _PPM = (
    b"\xff\x4f",
    b"\xff\x90",
    b"\xff\x93",
    b"\xff\xd9",
    b"\xff\x64",
    b"\xff\x55",
    b"\xff\x57",
    b"\xff\x58",
    b"\xff\x60",
)
_BOX_SIGNATURE = b"\0\0\0\x0cjP  "


def strip_metadata(frame: bytes) -> bytes:
    """One frame as a bare code stream without COM segments and without bytes after its end.

    Raises
    ------
    Refused
        ``jpeg2000-structure`` when markers or tile lengths do not hold together.
    """
    stream = _code_stream(frame) if frame[:8] == _BOX_SIGNATURE else frame
    if stream[:2] != _SOC:
        raise Refused("jpeg2000-structure", "pixels")
    main, pos = _segments(stream, 2, _SOT)
    pieces = [_SOC, *main]
    cut = any(piece[:2] == _COM for piece in main)
    pieces = [piece for piece in pieces if piece[:2] != _COM]
    tiles: list[bytes] = []
    while stream[pos : pos + 2] == _SOT:
        tile, pos, shortened = _tile_part(stream, pos)
        tiles.append(tile)
        cut = cut or shortened
        if shortened:
            pieces = [piece for piece in pieces if piece[:2] != _TLM]
    if not tiles:
        raise Refused("jpeg2000-structure", "pixels")
    tail = stream[pos:]
    ends = tail[:2] == _EOC
    if not cut and stream is frame and (tail in (_EOC, _EOC + b"\0", b"")):
        return frame
    return b"".join([*pieces, *tiles, _EOC if ends or not tail else b""])


def _code_stream(boxes: bytes) -> bytes:
    """The contiguous code stream box of a JP2 file; every other box is left behind."""
    pos, end = 0, len(boxes)
    while end - pos >= 8:
        length, kind, head = int.from_bytes(boxes[pos : pos + 4], "big"), boxes[pos + 4 : pos + 8], 8
        if length == 1:
            length, head = int.from_bytes(boxes[pos + 8 : pos + 16], "big"), 16
        elif length == 0:
            length = end - pos
        if length < head or pos + length > end:
            break
        if kind == b"jp2c":
            return boxes[pos + head : pos + length]
        pos += length
    raise Refused("jpeg2000-structure", "pixels")


def _segments(stream: bytes, pos: int, until: bytes) -> tuple[list[bytes], int]:
    """Marker segments from ``pos`` up to the marker ``until``."""
    found: list[bytes] = []
    end = len(stream)
    while stream[pos : pos + 2] != until:
        if end - pos < 4 or stream[pos] != 0xFF:
            raise Refused("jpeg2000-structure", "pixels")
        stop = pos + 2 + int.from_bytes(stream[pos + 2 : pos + 4], "big")
        if stop > end:
            raise Refused("jpeg2000-structure", "pixels")
        found.append(stream[pos:stop])
        pos = stop
    return found, pos


def _tile_part(stream: bytes, pos: int) -> tuple[bytes, int, bool]:
    """One tile part without its comments, where the next begins, and whether it became shorter."""
    if len(stream) - pos < 12:
        raise Refused("jpeg2000-structure", "pixels")
    length = int.from_bytes(stream[pos + 6 : pos + 10], "big")
    if length:
        stop = pos + length
    else:
        stop = len(stream.rstrip(b"\0")) if stream.rstrip(b"\0").endswith(_EOC) else len(stream)
        stop -= 2 if stream[stop - 2 : stop] == _EOC else 0
    stop = min(stop, len(stream))
    if stop < pos + 14:
        raise Refused("jpeg2000-structure", "pixels")
    headers, body = _segments(stream, pos + 12, _SOD)
    kept = [segment for segment in headers if segment[:2] != _COM]
    if len(kept) == len(headers):
        return stream[pos:stop], stop, False
    rest = b"".join(kept) + stream[body:stop]
    new_length = (12 + len(rest)).to_bytes(4, "big") if length else b"\0\0\0\0"
    return stream[pos : pos + 6] + new_length + stream[pos + 10 : pos + 12] + rest, stop, True
