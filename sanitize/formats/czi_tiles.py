"""Tiles of CZI, JPEG XR containers and Zstandard frames, checked to contain an image and nothing else."""

from __future__ import annotations

import struct

from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined

# Tags of the container that decoding needs (ITU-T T.832 Annex A) and the largest count of each: pixel
# format, size, resolution, position. All other tags are dropped, among them descriptions and dates.
_XR_TAGS = {
    0xBC01: 16,
    0xBC02: 1,
    0xBC04: 1,
    0xBC80: 1,
    0xBC81: 1,
    0xBC82: 1,
    0xBC83: 1,
    0xBCC0: 1,
    0xBCC1: 1,
    0xBCC2: 1,
    0xBCC3: 1,
}
_XR_OFFSET, _XR_COUNT, _XR_ALPHA = 0xBCC0, 0xBCC1, 0xBCC2
_XR_SIZES = {1: 1, 3: 2, 4: 4, 11: 4}
_UINT32 = struct.Struct("<I")


def clean_jpegxr(data: Buffer, offset: int, length: int) -> tuple[Piece, ...]:
    """Rebuild a JPEG XR file from the tags that decoding needs and its code stream.

    Parameters
    ----------
    data : bytes or mmap
        The slide file.
    offset, length : int
        Position of the tile in ``data``.

    Returns
    -------
    tuple of Piece
        New header and directory, and a copy of the code stream.

    Raises
    ------
    Quarantined
        ``slide-tile-structure``; ``slide-compression`` for a separate alpha plane.
    """
    head = bytes(data[offset : offset + 8])
    if length < 32 or head[:4] not in (b"II\xbc\x01", b"II\xbc\x00"):
        raise _refused()
    at = offset + _UINT32.unpack_from(head, 4)[0]
    if at + 2 > offset + length:
        raise _refused()
    count = struct.unpack_from("<H", data, at)[0]
    if not 0 < count < 64 or at + 6 + 12 * count > offset + length:
        raise _refused()
    values: dict[int, tuple[int, int, bytes]] = {}
    for number in range(count):
        tag, kind, many, value = struct.unpack_from("<HHI4s", data, at + 2 + 12 * number)
        if tag not in _XR_TAGS or kind not in _XR_SIZES or many > _XR_TAGS[tag]:
            continue
        size = _XR_SIZES[kind] * many
        where = offset + _UINT32.unpack(value)[0]
        if size > 4 and where + size > offset + length:
            raise _refused()
        values[tag] = (kind, many, bytes(data[where : where + size]) if size > 4 else value)
    if _XR_OFFSET not in values or _XR_COUNT not in values:
        raise _refused()
    if _XR_ALPHA in values:
        # A second code stream that would have to be checked and moved too.
        raise Quarantined("slide-compression", "structure")
    begin = offset + _UINT32.unpack(values[_XR_OFFSET][2])[0]
    size = _UINT32.unpack(values[_XR_COUNT][2])[0]
    if begin + size > offset + length or bytes(data[begin : begin + 8]) != b"WMPHOTO\0":
        raise _refused()
    return (_container(head[:4], values, size), Copy(begin, size))


def _container(mark: bytes, values: dict[int, tuple[int, int, bytes]], size: int) -> bytes:
    """Build header, directory and long values; the code stream follows directly."""
    # Files with an alpha plane are quarantined, so the byte count of one (0xBCC3) has nothing to count.
    ordered = sorted(tag for tag in values if tag != _XR_ALPHA + 1)
    after = 8 + 2 + 12 * len(ordered) + 4
    long_values = b"".join(values[tag][2] for tag in ordered if len(values[tag][2]) > 4)
    begin = after + len(long_values)
    entries, place = b"", after
    for tag in ordered:
        kind, many, value = values[tag]
        if tag == _XR_OFFSET:
            value = _UINT32.pack(begin)
        elif tag == _XR_COUNT:
            value = _UINT32.pack(size)
        elif len(value) > 4:
            value, place = _UINT32.pack(place), place + len(value)
        else:
            used = _XR_SIZES[kind] * many
            value = value[:used].ljust(4, b"\0")
        entries += struct.pack("<HHI4s", tag, kind, many, value)
    return mark + _UINT32.pack(8) + struct.pack("<H", len(ordered)) + entries + bytes(4) + long_values


def zstd_length(data: Buffer, offset: int, length: int, *, headed: bool) -> int:
    """Return the number of bytes that one Zstandard frame uses (RFC 8878 section 3.1.1).

    Parameters
    ----------
    data : bytes or mmap
        The slide file.
    offset, length : int
        Position of the tile in ``data``.
    headed : bool
        Whether CZI's own header precedes the frame (compression "Zstd1").

    Raises
    ------
    Quarantined
        ``slide-tile-structure``.
    """
    frame = bytes(data[offset : offset + length])
    at = 0
    if headed:
        at = frame[0] if frame else 0
        if frame[:1] not in (b"\x01", b"\x03") or (at == 3 and (frame[1] != 1 or frame[2] > 1)):
            raise _refused()
    if frame[at : at + 4] != b"\x28\xb5\x2f\xfd" or len(frame) < at + 6:
        raise _refused()
    descriptor = frame[at + 4]
    single = descriptor >> 5 & 1
    content = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    at += 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3] + content
    while True:
        if at + 3 > len(frame):
            raise _refused()
        block = int.from_bytes(frame[at : at + 3], "little")
        last, kind, size = block & 1, block >> 1 & 3, block >> 3
        # Block type 3 is reserved (RFC 8878 section 3.1.1.2.2).
        if kind == 3:
            raise _refused()
        at += 3 + (1 if kind == 1 else size)
        if last:
            at += 4 if descriptor & 4 else 0
            if at > len(frame):
                raise _refused()
            return at


def _refused() -> Quarantined:
    return Quarantined("slide-tile-structure", "tiles")
