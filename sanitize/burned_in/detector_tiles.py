"""Tiles of an image for the text detector: uniform areas are skipped, and memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Side of a block in pixels; the sides of images and tiles are multiples of it."""
# Side and overlap of tiles in blocks: glyphs at the edge of one tile are complete in the next.
_SIDE = 32
_OVERLAP = 4
# Contrast in gray values below which a block contains no part of a glyph.
_PLAIN = 24


def text_tiles(
    picture: NDArray[np.uint8], where: NDArray[np.bool_] | None = None
) -> Iterator[tuple[slice, slice]]:
    """Return overlapping tiles that contain all possible glyphs of an image, and some background.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns)
        Both sides must be multiples of `BLOCK`.
    where : array of bool, shape (rows / BLOCK, columns / BLOCK), optional
        Blocks that may contain text; the others need not be in a tile.

    Yields
    ------
    tuple of slice
        Rows and columns of a tile with at most 1024 x 1024 pixels, not necessarily square.
    """
    marked = _marked(picture)
    if where is not None:
        marked &= where
    for part in _apart(marked):
        top, bottom = _extent(np.flatnonzero(part.any(axis=1)), len(part))
        left, right = _extent(np.flatnonzero(part.any(axis=0)), part.shape[1])
        for first, last in _spans(top, bottom, _SIDE**2 // (right - left)):
            for begin, end in _spans(left, right, _SIDE**2 // (last - first)):
                if part[first:last, begin:end].any():
                    yield slice(BLOCK * first, BLOCK * last), slice(BLOCK * begin, BLOCK * end)


def _apart(marked: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """Groups of blocks that are at least two blocks apart: the blocks between them need not be looked at."""
    import cv2

    joined = cv2.dilate(marked.astype(np.uint8), np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(joined, connectivity=8)
    for label in range(1, count):
        yield marked & (labels == label)


def _marked(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Blocks with enough contrast to contain a part of a glyph."""
    rows, columns = (side // BLOCK for side in picture.shape)
    blocks = picture.reshape(rows, BLOCK, columns, BLOCK)
    return np.asarray(blocks.max(axis=(1, 3)) - blocks.min(axis=(1, 3)) >= _PLAIN)


def _extent(found: NDArray[np.intp], count: int) -> tuple[int, int]:
    """Range from the block before the first found one to the block after the last, within ``count``."""
    return max(0, int(found[0]) - 1), min(count, int(found[-1]) + 2)


def _spans(first: int, last: int, most: int) -> Iterator[tuple[int, int]]:
    """Overlapping spans of equal length from ``first`` to ``last``, none longer than ``most`` or `_SIDE`."""
    longest = max(most, _SIDE)
    count = max(1, -(-(last - first - _OVERLAP) // (longest - _OVERLAP)))
    length = -(-(last - first - _OVERLAP) // count) + _OVERLAP
    for index in range(count):
        begin = first + index * (length - _OVERLAP)
        yield begin, min(begin + length, last)
