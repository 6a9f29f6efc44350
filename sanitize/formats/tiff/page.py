"""TIFF directories to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from medsanitize.sanitize.pieces import Piece


@dataclass(frozen=True, slots=True)
class FieldValue:
    """Values of one entry: field type, count, and bytes in the file's byte order.

    ``high`` are the upper 32 bits of a single LONG, which only NDPI stores.
    """

    type: int
    count: int
    data: bytes
    high: int = 0


@dataclass(slots=True)
class OutputPage:
    """One directory to write.

    Attributes
    ----------
    values : dict
        Values by tag, except those that point to data.
    segments : sequence of tuple of Piece
        Encoded tiles or strips in order.
    tiled : bool
        Whether segments are tiles.
    subs : list of OutputPage
        Sub-directories.
    pointers : dict
        Offsets and counts of tiles that stay in place in the source. There are no ``segments`` then, and the
        page can only be written in place (`medsanitize.sanitize.wsi.wipe`).
    """

    values: dict[int, FieldValue]
    segments: Sequence[tuple[Piece, ...]]
    tiled: bool
    subs: list[OutputPage] = field(default_factory=list)
    pointers: dict[int, FieldValue] = field(default_factory=dict)
