"""A directory of a TIFF as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from medsanitize.sanitize.pieces import Piece


@dataclass(frozen=True, slots=True)
class FieldValue:
    """The values of one entry: field type, how many, and their bytes in the file's byte order.

    ``high`` is the upper half of a single LONG that only NDPI can write.
    """

    type: int
    count: int
    data: bytes
    high: int = 0


@dataclass(slots=True)
class OutputPage:
    """One directory to write: its values but for those that point to data, its encoded tiles or strips in
    order, and its sub-directories.

    ``pointers`` are the offsets and counts of tiles that stay where they are in the source: then there are no
    ``segments``, and the page can only be written in place (`medsanitize.sanitize.wsi.wipe`).
    """

    values: dict[int, FieldValue]
    segments: Sequence[tuple[Piece, ...]]
    tiled: bool
    subs: list[OutputPage] = field(default_factory=list)
    pointers: dict[int, FieldValue] = field(default_factory=dict)
