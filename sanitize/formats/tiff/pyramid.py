"""TIFF structure of slides: classic, BigTIFF and Hamamatsu's NDPI, read strictly.

Pixels are not read. Every offset and count is checked against the file before it is used, and a file that
contradicts itself is rejected.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.tiff_directory import (
    MOST_ENTRIES,
    SIZES,
    Dialect,
    Directory,
    Field,
    ValueRanges,
    read_directory_at,
    value_ranges,
)
from medsanitize.sanitize.quarantine import Quarantined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDTH, LENGTH, COMPRESSION, PHOTOMETRIC, DESCRIPTION, SUBFILE = 256, 257, 259, 262, 270, 254
STRIP_OFFSETS, STRIP_COUNTS, TILE_OFFSETS, TILE_COUNTS, SUB_IFDS = 273, 279, 324, 325, 330
NDPI_FLAG = 65420
_INTEGERS = {1: "u1", 3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}
# Limits on memory and time for crafted files, above what scanners write.
_MOST_DIRECTORIES = 4096
_MOST_VALUES = 1 << 22
_MOST_BYTES = 64 << 20
_MOST_FIELDS = 1 << 17


@dataclass(frozen=True)
class PyramidTiff:
    """A TIFF: its bytes, dialect and chain of directories."""

    data: Buffer
    dialect: Dialect
    directories: tuple[Directory, ...]

    @cached_property
    def values(self) -> ValueRanges:
        """Byte ranges of all values in the chain and in its sub-directories."""
        found = list(self.directories)
        for directory in self.directories:
            # An invalid sub-directory is dropped, or rejected where its page is read.
            with suppress(Quarantined):
                found += self.sub_directories(directory)
        return value_ranges([(field.start, field.size) for one in found for field in one.fields.values()])

    def raw(self, field: Field) -> bytes:
        """Return the bytes of a field's values.

        Raises
        ------
        Quarantined
            ``tiff-too-many-values`` above 64 MiB.
        """
        if field.size > _MOST_BYTES:
            raise Quarantined("tiff-too-many-values", "structure")
        return bytes(self.data[field.start : field.start + field.size])

    def text(self, directory: Directory, tag: int) -> str:
        """Return an ASCII or BYTE value up to its NUL, with undecodable bytes replaced; empty if absent."""
        field = directory.fields.get(tag)
        if field is None or SIZES[field.type] != 1:
            return ""
        return self.raw(field).split(b"\0", 1)[0].decode("utf-8", "replace")

    def numbers(self, directory: Directory, tag: int) -> NDArray[np.uint64]:
        """Return the integers of a field; empty if it is absent or of another type.

        Raises
        ------
        Quarantined
            ``tiff-too-many-values``.
        """
        import numpy as np

        field = directory.fields.get(tag)
        if field is None or field.type not in _INTEGERS:
            return np.zeros(0, np.uint64)
        if field.count > _MOST_VALUES:
            raise Quarantined("tiff-too-many-values", "structure")
        form = self.dialect.order + _INTEGERS[field.type]
        values = np.frombuffer(self.raw(field), form).astype(np.uint64)
        return values + np.uint64(field.high << 32) if field.high else values

    def number(self, directory: Directory, tag: int, default: int | None = None) -> int | None:
        """Return the first integer of a field, or the default."""
        values = self.numbers(directory, tag)
        return int(values[0]) if len(values) else default

    def sub_directories(self, directory: Directory) -> tuple[Directory, ...]:
        """Return the directories that SubIFDs points to; OME-TIFF stores pyramid levels there.

        Raises
        ------
        Quarantined
            ``tiff-directory-loop`` or ``tiff-structure``.
        """
        starts = [int(start) for start in self.numbers(directory, SUB_IFDS)]
        if len(starts) > _MOST_DIRECTORIES or len(set(starts)) != len(starts):
            raise Quarantined("tiff-directory-loop", "structure")
        known = {one.start for one in self.directories}
        if known & set(starts):
            raise Quarantined("tiff-directory-loop", "structure")
        return tuple(read_directory_at(self.data, start, self.dialect)[0] for start in starts)


def looks_like_tiff(data: Buffer) -> bool:
    """Return whether the file starts like a TIFF or BigTIFF."""
    return bytes(data[:4]) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def read_pyramid(data: Buffer) -> PyramidTiff:
    """Read every directory of the chain.

    Parameters
    ----------
    data : bytes or mmap
        The whole file; only headers and directories are read.

    Raises
    ------
    Quarantined
        ``tiff-structure`` if an offset, count or type is invalid; ``tiff-directory-loop``;
        ``tiff-too-many-directories``; ``tiff-too-many-values``.
    """
    if not looks_like_tiff(data) or len(data) < 16:
        raise Quarantined("tiff-structure", "structure")
    order: Literal["<", ">"] = "<" if bytes(data[:2]) == b"II" else ">"
    if struct.unpack_from(order + "H", data, 2)[0] == 43:
        width, zero, start = struct.unpack_from(order + "HHQ", data, 4)
        # BigTIFF states the size of offsets (8) and a reserved zero.
        if (width, zero) != (8, 0):
            raise Quarantined("tiff-structure", "structure")
        dialect = Dialect(order, "big")
    else:
        start = struct.unpack_from(order + "I", data, 4)[0]
        dialect = Dialect(order, "classic")
        # NDPI has the version of classic TIFF but offsets of 8 bytes; its private tag distinguishes it.
        wide = struct.unpack_from("<Q", data, 4)[0]
        if order == "<" and _is_ndpi(data, wide):
            dialect, start = Dialect("<", "ndpi"), wide
    directories: list[Directory] = []
    seen: set[int] = set()
    fields = 0
    while start:
        if start in seen:
            raise Quarantined("tiff-directory-loop", "structure")
        if len(seen) == _MOST_DIRECTORIES:
            raise Quarantined("tiff-too-many-directories", "structure")
        seen.add(start)
        directory, start = read_directory_at(data, start, dialect)
        directories.append(directory)
        fields += len(directory.fields)
        if fields > _MOST_FIELDS:
            raise Quarantined("tiff-too-many-values", "structure")
    if not directories:
        raise Quarantined("tiff-structure", "structure")
    return PyramidTiff(data, dialect, tuple(directories))


def _is_ndpi(data: Buffer, start: int) -> bool:
    """Return whether the directory at ``start`` has Hamamatsu's private tag."""
    if start + 2 > len(data):
        return False
    count = struct.unpack_from("<H", data, start)[0]
    if not 0 < count <= MOST_ENTRIES or start + 2 + 12 * count > len(data):
        return False
    return any(
        struct.unpack_from("<H", data, start + 2 + 12 * number)[0] == NDPI_FLAG for number in range(count)
    )
