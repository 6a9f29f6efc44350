"""Which parts of a picture the text detector is shown: plain ground costs nothing, memory has a bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Pixels: the sides of a picture, and of its tiles, are multiples of it."""
_SIDE = 32
_OVERLAP = 4
_PLAIN = 24


def text_tiles(picture: NDArray[np.uint8]) -> Iterator[tuple[slice, slice]]:
    """Overlapping parts that hold everything in a picture that could be a glyph, and some ground around it.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns)
        Both sides are multiples of `BLOCK`.

    Yields
    ------
    tuple of slice
        Rows and columns of one part: at most 1,024 by 1,024 pixels, or as many in another shape.
    """
    marked = _marked(picture)
    if not marked.any():
        return
    top, bottom = _extent(np.flatnonzero(marked.any(axis=1)), len(marked))
    left, right = _extent(np.flatnonzero(marked.any(axis=0)), marked.shape[1])
    for first, last in _spans(top, bottom, _SIDE**2 // (right - left)):
        for begin, end in _spans(left, right, _SIDE**2 // (last - first)):
            if marked[first:last, begin:end].any():
                yield slice(BLOCK * first, BLOCK * last), slice(BLOCK * begin, BLOCK * end)


def _marked(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which blocks of a picture are not too plain to hold a part of a glyph."""
    rows, columns = (side // BLOCK for side in picture.shape)
    blocks = picture.reshape(rows, BLOCK, columns, BLOCK)
    return np.asarray(blocks.max(axis=(1, 3)) - blocks.min(axis=(1, 3)) >= _PLAIN)


def _extent(found: NDArray[np.intp], count: int) -> tuple[int, int]:
    """From the block before the first that was found to the one after the last, of ``count``."""
    return max(0, int(found[0]) - 1), min(count, int(found[-1]) + 2)


def _spans(first: int, last: int, most: int) -> Iterator[tuple[int, int]]:
    """Overlapping spans of one length from ``first`` to ``last``, none longer than ``most`` or a side."""
    longest = max(most, _SIDE)
    count = max(1, -(-(last - first - _OVERLAP) // (longest - _OVERLAP)))
    length = -(-(last - first - _OVERLAP) // count) + _OVERLAP
    for index in range(count):
        begin = first + index * (length - _OVERLAP)
        yield begin, min(begin + length, last)
