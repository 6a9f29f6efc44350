"""One image file directory of TIFF 6.0, BigTIFF, EXIF or Hamamatsu NDPI: offsets held against the file.

Sources: TIFF 6.0 (Adobe, 1992) section 2; the BigTIFF design (offsets and counts of 8 bytes, version 43).
NDPI is little endian, with an offset of 8 bytes in the header and after each directory, and, behind that,
the upper 32 bits of every entry's value.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.dicom.structure import Buffer
from medsanitize.sanitize.tiff_types import LONG, SIZES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_ENTRIES: Final = 4096


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a TIFF writes its numbers: byte order, and the width of offsets and counts."""

    order: Literal["<", ">"]
    kind: Literal["classic", "big", "ndpi"]

    @property
    def inline(self) -> int:
        """Bytes that an entry holds itself."""
        return 8 if self.kind == "big" else 4


@dataclass(frozen=True, slots=True)
class Field:
    """One entry: its type, how many values, and where their bytes begin.

    ``high`` is what NDPI adds to a single LONG that the entry holds itself: its upper 32 bits.
    """

    type: int
    count: int
    start: int
    high: int = 0

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return SIZES[self.type] * self.count


@dataclass(frozen=True, slots=True)
class Directory:
    """One image file directory: where it begins and ends, and its entries."""

    start: int
    end: int
    fields: dict[int, Field]


def directory_at(data: Buffer, start: int, dialect: Dialect) -> tuple[Directory, int]:
    """The directory at ``start`` and where the next one begins (0: there is none).

    Raises
    ------
    Refused
        ``tiff-structure``: something lies outside the file, or a tag is there twice.
    """
    big, ndpi, order = dialect.kind == "big", dialect.kind == "ndpi", dialect.order
    head, entry, link = (8, 20, 8) if big else (2, 12, 8 if ndpi else 4)
    if start + head > len(data):
        raise Refused("tiff-structure", "structure")
    count = struct.unpack_from(order + ("Q" if big else "H"), data, start)[0]
    after = start + head + entry * count
    end = after + link + (4 * count if ndpi else 0)
    if not 0 < count <= MOST_ENTRIES or end > len(data):
        raise Refused("tiff-structure", "structure")
    high = struct.unpack_from(f"<{count}I", data, after + link) if ndpi else (0,) * count
    fields: dict[int, Field] = {}
    for number in range(count):
        at = start + head + entry * number
        tag, kind, values = struct.unpack_from(order + ("HHQ" if big else "HHI"), data, at)
        if tag in fields:
            raise Refused("tiff-structure", "structure")
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
        raise Refused("tiff-structure", "structure")
    return Field(kind, count, where)


def lie_apart(values: ArrayLike, offsets: ArrayLike, counts: ArrayLike) -> bool:
    """Whether no strip or tile holds the bytes of a value.

    What a tag says would be pixels there, kept where the tag goes.

    Parameters
    ----------
    values : (n, 2) uint64
        Where every value begins, and its bytes.
    offsets, counts : (m,) uint64
        Where every strip or tile begins, and its bytes.
    """
    import numpy as np

    spans = np.asarray(values, np.uint64).reshape(-1, 2)
    runs = np.stack([np.asarray(offsets, np.uint64), np.asarray(counts, np.uint64)], axis=1)
    spans, runs = spans[spans[:, 1] > 0], runs[runs[:, 1] > 0]
    runs = runs[np.argsort(runs[:, 0])]
    furthest = np.concatenate([np.zeros(1, np.uint64), np.maximum.accumulate(runs.sum(axis=1))])
    before = np.searchsorted(runs[:, 0], spans.sum(axis=1))
    return not bool((furthest[before] > spans[:, 0]).any())
