"""Entries of TIFF 6.0, BigTIFF and EXIF with their values in memory."""

from __future__ import annotations

from dataclasses import dataclass
from struct import error, unpack, unpack_from
from typing import Literal

from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.tiff_directory import RATIONAL, Dialect, read_directory_at
from medsanitize.sanitize.quarantine import Quarantined

_NUMBERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
# Values are copied into memory, so their size is limited (256 MiB).
_MOST_VALUE = 1 << 28


@dataclass(frozen=True, slots=True)
class TiffHeader:
    """Byte order (``<`` or ``>``), whether offsets have 8 bytes, and the offset of the first directory."""

    order: Literal["<", ">"]
    big: bool
    first: int


@dataclass(frozen=True, slots=True, repr=False)
class IfdEntry:
    """One entry: field type, number of values, their bytes and the offset of these bytes in the file."""

    type: int
    count: int
    value: bytes
    start: int

    def numbers(self, header: TiffHeader) -> tuple[int, ...]:
        """Return the values as unsigned integers; empty for other types."""
        code = _NUMBERS.get(self.type)
        return () if code is None else unpack(f"{header.order}{self.count}{code}", self.value)

    def rationals(self, header: TiffHeader) -> tuple[tuple[int, int], ...]:
        """Return the values as pairs of numerator and denominator; empty for other types."""
        if self.type != RATIONAL:
            return ()
        numbers = unpack(f"{header.order}{2 * self.count}I", self.value)
        return tuple(zip(numbers[::2], numbers[1::2], strict=True))


Directory = dict[int, IfdEntry]


def read_tiff_header(data: Buffer) -> TiffHeader:
    """Read the header of a TIFF file or an EXIF block.

    Raises
    ------
    Quarantined
        ``tiff-structure`` if it is neither.
    """
    order: Literal["<", ">"] = "<" if data[:2] == b"II" else ">"
    try:
        version = unpack_from(f"{order}H", data, 2)[0]
        if data[:2] not in (b"II", b"MM") or version not in (42, 43):
            raise Quarantined("tiff-structure")
        if version == 42:
            return TiffHeader(order, False, unpack_from(f"{order}I", data, 4)[0])
        return TiffHeader(order, True, unpack_from(f"{order}Q", data, 8)[0])
    except error:
        raise Quarantined("tiff-structure") from None


def read_directory(data: Buffer, header: TiffHeader, pos: int) -> tuple[Directory, int]:
    """Read the directory at ``pos``; also return the offset of the next one (0 after the last).

    Raises
    ------
    Quarantined
        ``tiff-structure``, see `medsanitize.sanitize.formats.tiff_directory.read_directory_at`.
    """
    found, following = read_directory_at(data, pos, Dialect(header.order, "big" if header.big else "classic"))
    # Sizes are checked before any value is copied.
    if any(field.size > _MOST_VALUE for field in found.fields.values()):
        raise Quarantined("tiff-structure")
    directory = {
        tag: IfdEntry(
            field.type, field.count, bytes(data[field.start : field.start + field.size]), field.start
        )
        for tag, field in found.fields.items()
    }
    return directory, following
