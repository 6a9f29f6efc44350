"""ZISRAW, the container format of CZI: segments, directory entries and sub-blocks.

Source: ZEISS, *CZI file format* 1.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

SEGMENT, FIXED, ENTRY, DIMENSION = 32, 256, 32, 20
"""Sizes in bytes: segment header, fixed part of a segment's body, directory entry, dimension of an entry."""
_FILE = struct.Struct("<4i16s16siqqiq")
_ENTRY = struct.Struct("<2siqiiB5xi")
_DIMENSION = struct.Struct("<4siifi")
_HEADER_BYTES = 512
# Bounds memory for crafted files.
_MOST_BLOCKS = 1 << 21
_NAMES = frozenset(b"XYCZTRSIHMBV")


@dataclass(frozen=True, slots=True)
class DimensionEntry:
    """One dimension of a sub-block: start, size, and stored size (for X and Y in pixels)."""

    name: bytes
    start: int
    size: int
    coordinate: float
    stored: int


@dataclass(frozen=True, slots=True)
class SubBlock:
    """One sub-block: file position, pixel type, compression, pyramid type and extents."""

    position: int
    pixel_type: int
    compression: int
    pyramid: int
    extents: tuple[DimensionEntry, ...]

    def extent(self, name: bytes) -> DimensionEntry | None:
        """Return the extent of the dimension ``name``, or None if there is none."""
        return next((one for one in self.extents if one.name == name), None)


@dataclass(frozen=True, slots=True)
class CziFile:
    """Contents of a CZI: sub-blocks in directory order, metadata XML, number of attachment directories."""

    blocks: tuple[SubBlock, ...]
    xml: bytes
    attachments: int


def looks_like_czi(data: Buffer) -> bool:
    """Return whether the file starts with a CZI file header."""
    return bytes(data[:10]) == b"ZISRAWFILE"


def read_czi(data: Buffer) -> CziFile:
    """Read file header, directory and metadata.

    Raises
    ------
    Quarantined
        ``czi-structure``; ``slide-several-files`` if the image continues in another file.
    """
    start, size = _segment(data, 0, b"ZISRAWFILE")
    if size < _FILE.size:
        raise _refused()
    *_, part, directory, metadata, pending, attachments = _FILE.unpack_from(data, start)
    if part:
        raise Quarantined("slide-several-files", "structure")
    # A pending update means that writing was interrupted: the directory may not match the sub-blocks.
    if pending or not directory:
        raise _refused()
    return CziFile(_blocks(data, directory), _xml(data, metadata), int(bool(attachments)))


def pixel_range(data: Buffer, block: SubBlock) -> tuple[int, int]:
    """Return offset and length of a sub-block's encoded pixels.

    Raises
    ------
    Quarantined
        ``czi-structure`` if the sub-block's own entry contradicts the directory.
    """
    start, size = _segment(data, block.position, b"ZISRAWSUBBLOCK")
    if size < 16 + ENTRY:
        raise _refused()
    metadata, attachment, length = struct.unpack_from("<iiq", data, start)
    own, end = _entry(data, start + 16, start + size)
    # An entry of more than ten dimensions is longer than the fixed part and moves what follows.
    at = start + max(FIXED, end - start) + metadata
    if own.extents != block.extents or (own.pixel_type, own.compression) != (
        block.pixel_type,
        block.compression,
    ):
        raise _refused()
    if min(metadata, attachment, length) < 0 or at + length + attachment > len(data):
        raise _refused()
    return at, length


def file_segment(guid: bytes, directory: int, metadata: int) -> bytes:
    """Build the first segment of a new file; ``directory`` and ``metadata`` are file positions."""
    body = _FILE.pack(1, 0, 0, 0, guid, guid, 0, directory, metadata, 0, 0)
    return write_segment(b"ZISRAWFILE", body.ljust(_HEADER_BYTES, b"\0"))


def subblock_header(block: SubBlock, position: int, length: int) -> bytes:
    """Build a sub-block's segment up to its ``length`` bytes of pixels, without metadata and attachment."""
    entry = entry_bytes(block, position)
    fixed = (struct.pack("<iiq", 0, 0, length) + entry).ljust(FIXED, b"\0")
    return _head(b"ZISRAWSUBBLOCK", len(fixed) + length) + fixed


def entry_bytes(block: SubBlock, position: int) -> bytes:
    """Build a directory entry of schema DV."""
    head = _ENTRY.pack(
        b"DV", block.pixel_type, position, 0, block.compression, block.pyramid, len(block.extents)
    )
    return head + b"".join(
        _DIMENSION.pack(one.name, one.start, one.size, one.coordinate, one.stored) for one in block.extents
    )


def directory_segment(blocks: list[tuple[SubBlock, int]]) -> bytes:
    """Build the directory of a new file from sub-blocks and their positions."""
    body = struct.pack("<i", len(blocks)).ljust(128, b"\0")
    return write_segment(b"ZISRAWDIRECTORY", body + b"".join(entry_bytes(block, at) for block, at in blocks))


def metadata_segment(xml: bytes) -> bytes:
    """Build the metadata segment of a new file."""
    return write_segment(b"ZISRAWMETADATA", struct.pack("<ii", len(xml), 0).ljust(FIXED, b"\0") + xml)


def write_segment(name: bytes, body: bytes) -> bytes:
    """Build a segment, padded to a multiple of 32 bytes."""
    return (_head(name, len(body)) + body).ljust(SEGMENT + -(-len(body) // 32) * 32, b"\0")


def padding(length: int) -> bytes:
    """Return the padding after ``length`` bytes of a body; segments start at multiples of 32."""
    return bytes(-length % 32)


def _head(name: bytes, used: int) -> bytes:
    return struct.pack("<16sqq", name, -(-used // 32) * 32, used)


def _segment(data: Buffer, at: int, name: bytes) -> tuple[int, int]:
    """Return the offset of a segment's body and the number of bytes in use."""
    if at < 0 or at + SEGMENT > len(data):
        raise _refused()
    found, allocated, used = struct.unpack_from("<16sqq", data, at)
    used = used or allocated
    if found.rstrip(b"\0") != name or used < 0 or at + SEGMENT + used > len(data):
        raise _refused()
    return at + SEGMENT, used


def _blocks(data: Buffer, position: int) -> tuple[SubBlock, ...]:
    start, size = _segment(data, position, b"ZISRAWDIRECTORY")
    if size < 128:
        raise _refused()
    count = struct.unpack_from("<i", data, start)[0]
    if not 0 < count <= _MOST_BLOCKS:
        raise _refused()
    at, blocks = start + 128, []
    for _ in range(count):
        block, at = _entry(data, at, start + size)
        blocks.append(block)
    # Each entry has its own sub-block; two entries that share one contradict each other or repeat pixels.
    if len({block.position for block in blocks}) != count:
        raise _refused()
    return tuple(blocks)


def _entry(data: Buffer, at: int, end: int) -> tuple[SubBlock, int]:
    if at + ENTRY > end:
        raise _refused()
    # Schema DV only: the older DE entry has another layout and is rejected below.
    schema, pixel, position, part, compression, pyramid, count = _ENTRY.unpack_from(data, at)
    stop = at + ENTRY + DIMENSION * count
    if schema != b"DV" or part or not 0 < count <= 16 or stop > end:
        raise _refused()
    extents = []
    for number in range(count):
        name, start, size, coordinate, stored = _DIMENSION.unpack_from(data, at + ENTRY + DIMENSION * number)
        if name[0] not in _NAMES or name[1:].strip(b"\0") or size < 0 or stored < 0:
            raise _refused()
        extents.append(DimensionEntry(name[:1], start, size, coordinate, stored))
    return SubBlock(position, pixel, compression, pyramid, tuple(extents)), stop


def _xml(data: Buffer, position: int) -> bytes:
    if not position:
        return b""
    start, size = _segment(data, position, b"ZISRAWMETADATA")
    length = struct.unpack_from("<i", data, start)[0] if size >= FIXED else -1
    if length < 0 or FIXED + length > size:
        raise _refused()
    return bytes(data[start + FIXED : start + FIXED + length])


def _refused() -> Quarantined:
    return Quarantined("czi-structure", "structure")
