"""Tiles of an image for the text detector: uniform areas are skipped, and memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Side of a block in pixels; the sides of images and tiles are multiples of it."""

GRAIN = 16
"""Tiles begin at multiples of it: the ground (pixels) that a line of text needs around it at least."""
# Side and overlap of tiles in grains: glyphs at the edge of one tile are complete in the next.
_SIDE = 64
_OVERLAP = 8
# Thickness of a line at most, and ground in a tile around a line and around what is larger (squares).
_LINE, _NEAR, _FAR = 4, 1, 3
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
    where : array of bool, shape (rows / GRAIN, columns / GRAIN), optional
        Squares that may contain text; the others need not be in a tile.

    Yields
    ------
    tuple of slice
        Rows and columns of a tile with at most 1024 x 1024 pixels, not necessarily square.
    """
    marked = _marked(picture, where)
    for part in _apart(marked):
        rows, columns = (np.flatnonzero(part.any(axis=axis)) for axis in (1, 0))
        # A line is told from its ground by less of it than anatomy is told from letters.
        around = _NEAR if min(int(np.ptp(rows)), int(np.ptp(columns))) < _LINE else _FAR
        top, bottom = _extent(rows, around, len(part))
        left, right = _extent(columns, around, part.shape[1])
        for first, last in _spans(top, bottom, _SIDE**2 // (right - left)):
            for begin, end in _spans(left, right, _SIDE**2 // (last - first)):
                if part[first:last, begin:end].any():
                    yield slice(GRAIN * first, GRAIN * last), slice(GRAIN * begin, GRAIN * end)


def _apart(marked: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """Groups of squares that are at least two squares apart: those between them need not be looked at."""
    import cv2

    joined = cv2.dilate(marked.astype(np.uint8), np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(joined, connectivity=8)
    for label in range(1, count):
        yield marked & (labels == label)


def _marked(picture: NDArray[np.uint8], where: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Squares in question, in blocks with enough contrast to contain a part of a glyph."""
    rows, columns = (side // BLOCK for side in picture.shape)
    fine = BLOCK // GRAIN
    blocks = picture.reshape(rows, BLOCK, columns, BLOCK).swapaxes(1, 2)
    asked = np.ones((rows, columns), bool)
    if where is not None:
        asked = np.asarray(where.reshape(rows, fine, columns, fine).any(axis=(1, 3)))
    values = blocks[asked]
    asked[asked] = values.max(axis=(1, 2)) - values.min(axis=(1, 2)) >= _PLAIN
    marked = np.repeat(np.repeat(asked, fine, axis=0), fine, axis=1)
    return marked if where is None else marked & where


def _extent(found: NDArray[np.intp], around: int, count: int) -> tuple[int, int]:
    """Range in whole blocks that contains the found squares and ``around`` so many, within ``count``."""
    fine = BLOCK // GRAIN
    first, last = max(0, int(found[0]) - around), min(count, int(found[-1]) + 1 + around)
    length = -(-(last - first) // fine) * fine
    first = min(first, count - length)
    return first, first + length


def _spans(first: int, last: int, most: int) -> Iterator[tuple[int, int]]:
    """Overlapping spans of equal length from ``first`` to ``last``, none longer than ``most`` or `_SIDE`."""
    fine = BLOCK // GRAIN
    longest = max(most // fine * fine, _SIDE)
    if last - first <= longest:
        yield first, last
        return
    count = -(-(last - first - _OVERLAP) // (longest - _OVERLAP))
    length = -(-(last - first - _OVERLAP) // (count * fine)) * fine + _OVERLAP
    for begin in range(first, last - _OVERLAP, length - _OVERLAP):
        yield begin, min(begin + length, last)
