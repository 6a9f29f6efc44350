"""Image file directories of TIFF 6.0, BigTIFF, EXIF and Hamamatsu NDPI, with checked offsets.

Sources: TIFF 6.0 (Adobe, 1992) section 2; the BigTIFF design (offsets and counts of 8 bytes, version 43).
NDPI is little-endian, with an offset of 8 bytes in the header and after each directory, followed by the
upper 32 bits of every entry's value.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

MOST_ENTRIES: Final = 4096
# Start Of Image and the first byte of another marker.
_JPEG: Final = re.compile(rb"\xff\xd8\xff[\xc0-\xfe]")
# Distance of the tags of repeated texts, beyond all 16 bits.
_REPEATED: Final = 0x10000
BYTE, ASCII, SHORT, LONG, RATIONAL, UNDEFINED, LONG8, IFD8 = 1, 2, 3, 4, 5, 7, 16, 18
_ONE, _TWO, _FOUR, _EIGHT = (1, 2, 6, 7), (3, 8), (4, 9, 11, 13), (5, 10, 12, 16, 17, 18)
SIZES = {kind: size for kinds, size in ((_ONE, 1), (_TWO, 2), (_FOUR, 4), (_EIGHT, 8)) for kind in kinds}
"""Field type -> size of one value in bytes."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Encoding of numbers in a TIFF: byte order, and the width of offsets and counts."""

    order: Literal["<", ">"]
    kind: Literal["classic", "big", "ndpi"]

    @property
    def inline(self) -> int:
        """Number of value bytes that fit into an entry."""
        return 8 if self.kind == "big" else 4


@dataclass(frozen=True, slots=True)
class Field:
    """One entry: field type, number of values, and the offset of their first byte.

    ``high`` are the upper 32 bits that NDPI adds to a single LONG stored in the entry.
    """

    type: int
    count: int
    start: int
    high: int = 0

    @property
    def size(self) -> int:
        """Size of all values in bytes."""
        return SIZES[self.type] * self.count


@dataclass(frozen=True, slots=True)
class Directory:
    """One image file directory: start, end, and its entries by tag."""

    start: int
    end: int
    fields: dict[int, Field]


def read_directory_at(data: Buffer, start: int, dialect: Dialect) -> tuple[Directory, int]:
    """Read the directory at ``start``; also return the offset of the next one (0 if there is none).

    Raises
    ------
    Quarantined
        ``tiff-structure`` if something is outside the file, or a tag that is no text is repeated.
    """
    big, ndpi, order = dialect.kind == "big", dialect.kind == "ndpi", dialect.order
    head, entry, link = (8, 20, 8) if big else (2, 12, 8 if ndpi else 4)
    if start + head > len(data):
        raise Quarantined("tiff-structure", "structure")
    count = struct.unpack_from(order + ("Q" if big else "H"), data, start)[0]
    after = start + head + entry * count
    end = after + link + (4 * count if ndpi else 0)
    if not 0 < count <= MOST_ENTRIES or end > len(data):
        raise Quarantined("tiff-structure", "structure")
    # NDPI files exceed 4 GiB with 32-bit entries: the upper halves of values follow the directory.
    high = struct.unpack_from(f"<{count}I", data, after + link) if ndpi else (0,) * count
    fields: dict[int, Field] = {}
    for number in range(count):
        at = start + head + entry * number
        tag, kind, values = struct.unpack_from(order + ("HHQ" if big else "HHI"), data, at)
        # Readers use one of two equal tags; the other would be unchecked content.
        if tag in fields and not kind == fields[tag].type == ASCII:
            raise Quarantined("tiff-structure", "structure")
        # Some writers repeat a text. It is searched as any other, under a tag that no reader asks for.
        while tag in fields:
            tag += _REPEATED
        # TIFF 6.0 section 2 asks readers to skip fields of unknown type.
        if kind in SIZES:
            fields[tag] = _field(data, at + (12 if big else 8), kind, values, high[number], dialect)
    following = struct.unpack_from(order + ("Q" if big or ndpi else "I"), data, after)[0]
    return Directory(start, end, fields), following


def _field(data: Buffer, at: int, kind: int, count: int, high: int, dialect: Dialect) -> Field:
    size = SIZES[kind] * count
    if size <= dialect.inline:
        return Field(kind, count, at, high if kind == LONG and count == 1 else 0)
    where = struct.unpack_from(dialect.order + ("Q" if dialect.kind == "big" else "I"), data, at)[0]
    where |= high << 32
    if where + size > len(data):
        raise Quarantined("tiff-structure", "structure")
    return Field(kind, count, where)


def starts_as_jpeg(samples: bytes) -> bool:
    """Return whether declared uncompressed samples are a JPEG, whose segments would not be checked."""
    return _JPEG.match(samples) is not None


@dataclass(frozen=True, slots=True, repr=False)
class ValueRanges:
    """Byte ranges of the tag values of a file.

    A value must not overlap pixels: pixels are copied, so the value would be released.

    Attributes
    ----------
    starts : ndarray of uint64, shape (n,)
        Start of each value, sorted.
    furthest : ndarray of uint64, shape (n + 1,)
        Largest end of the first k values, for k from 0.
    """

    starts: NDArray[np.uint64]
    furthest: NDArray[np.uint64]

    def are_apart_from(self, offsets: ArrayLike, counts: ArrayLike) -> bool:
        """Return whether strips or tiles overlap no value.

        Parameters
        ----------
        offsets, counts : array-like, shape (m,)
            Start and size in bytes of each strip or tile.
        """
        import numpy as np

        starts, lengths = np.asarray(offsets, np.uint64), np.asarray(counts, np.uint64)
        starts, lengths = starts[lengths > 0], lengths[lengths > 0]
        # Of all values that start before a strip ends, the furthest must end before the strip starts.
        before = np.searchsorted(self.starts, starts + lengths)
        return not bool((self.furthest[before] > starts).any())


def value_ranges(spans: ArrayLike) -> ValueRanges:
    """Sort the byte ranges of tag values.

    Parameters
    ----------
    spans : array-like, shape (n, 2)
        Start and size in bytes of each value.
    """
    import numpy as np

    found = np.asarray(spans, np.uint64).reshape(-1, 2)
    found = found[found[:, 1] > 0]
    found = found[np.argsort(found[:, 0])]
    ends = found.sum(axis=1, dtype=np.uint64)
    return ValueRanges(found[:, 0], np.concatenate([np.zeros(1, np.uint64), np.maximum.accumulate(ends)]))
