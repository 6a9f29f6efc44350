"""Distances of images as Carlini et al. 2023 compare them: the largest over tiles.

A distance over the whole image is small between any two images of one region; a tile that differs shows that
an image is not a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Tiles along each side.
_TILES: Final = 4


def tile_distances(
    one: NDArray[np.uint8], other: NDArray[np.uint8], check: Callable[[], None]
) -> NDArray[np.float64]:
    """Largest root mean square difference over 4 x 4 tiles, in gray levels, ``(n, m)``.

    Parameters
    ----------
    one, other
        Images, ``(n, size, size)`` and ``(m, size, size)``; the size is a multiple of four.
    check
        Called between tiles; may raise to cancel.
    """
    import numpy as np

    side = one.shape[-1] // _TILES
    largest = np.zeros((len(one), len(other)))
    for down in range(0, _TILES * side, side):
        for across in range(0, _TILES * side, side):
            check()
            # Exact in float64 for bytes, whatever the order in which a library sums.
            left, right = (
                images[:, down : down + side, across : across + side].reshape(len(images), -1).astype(float)
                for images in (one, other)
            )
            squares = (left * left).sum(1)[:, None] + (right * right).sum(1) - 2 * left @ right.T
            np.maximum(largest, squares, out=largest)
    return np.asarray(np.sqrt(largest) / side)
