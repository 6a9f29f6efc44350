"""What is taken from a radiograph before a network sees it, so that processing counts less than anatomy.

Borders, collimator edges and the empty bands beside a scan say where a picture was made, and so does its
contrast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# At most this share of a side is taken from either end, in each of two rounds.
DEEPEST = 0.3
# A line of pixels that varies less than this, or whose median is nearly black or white, is border.
FLAT, BLACK, WHITE = 6 / 255, 8 / 255, 247 / 255
# Shares of the values that become black and white.
LOW, HIGH = 0.01, 0.99
# Adaptive equalisation: tiles a side, levels, and how much steeper than even a tile's curve may get.
TILES, LEVELS, STEEPEST = 4, 256, 1.5


def content(plane: NDArray[np.float32]) -> tuple[int, int, int, int]:
    """Top, bottom, left and right of what the uniform borders of a grey picture enclose.

    A picture that is all border is taken whole.
    """
    top, left = 0, 0
    bottom, right = plane.shape
    for _ in range(2):
        first, last = _content(plane[top:bottom, left:right], 1)
        top, bottom = top + first, top + last
        first, last = _content(plane[top:bottom, left:right], 0)
        left, right = left + first, left + last
    whole = min(bottom - top, right - left) <= 1
    return (0, plane.shape[0], 0, plane.shape[1]) if whole else (top, bottom, left, right)


def _content(plane: NDArray[np.float32], axis: int) -> tuple[int, int]:
    """First line that is content and one past the last; lines run along the axis."""
    import numpy as np

    middle = np.median(plane, axis)
    border = (plane.std(axis) < FLAT) | (middle < BLACK) | (middle > WHITE)
    most = int(len(border) * DEEPEST)
    ends = [int(np.argmin(side)) if not side.all() else most for side in (border[:most], border[::-1][:most])]
    return ends[0], len(border) - ends[1]


def even_contrast(square: NDArray[np.float32]) -> NDArray[np.float32]:
    """Stretch between two shares of the values, then equalise by tiles (Zuiderveld 1994); ``[0, 1]``.

    The sides must be multiples of the number of tiles.
    """
    import numpy as np

    low, high = np.quantile(square, (LOW, HIGH))
    stretched = np.clip((square - low) / max(float(high - low), 1 / LEVELS), 0, 1)
    level = np.rint(stretched * (LEVELS - 1)).astype(np.intp)
    rows, columns = (side // TILES for side in level.shape)
    curves = np.stack(
        [
            [
                _curve(level[top : top + rows, left : left + columns])
                for left in range(0, TILES * columns, columns)
            ]
            for top in range(0, TILES * rows, rows)
        ]
    )
    above, below, down = _between(level.shape[0], rows)
    before, after, across = _between(level.shape[1], columns)
    down, across = down[:, None], across[None]
    upper = (
        curves[above[:, None], before, level] * (1 - across) + curves[above[:, None], after, level] * across
    )
    lower = (
        curves[below[:, None], before, level] * (1 - across) + curves[below[:, None], after, level] * across
    )
    return np.asarray(upper * (1 - down) + lower * down, np.float32)


def _curve(tile: NDArray[np.intp]) -> NDArray[np.float64]:
    """New value of each level: the share of pixels up to it, with what exceeds the limit spread evenly."""
    import numpy as np

    counts = np.bincount(tile.ravel(), minlength=LEVELS).astype(np.float64)
    limit = max(1.0, np.floor(STEEPEST * tile.size / LEVELS))
    over = np.maximum(counts - limit, 0).sum()
    return np.asarray(np.cumsum(np.minimum(counts, limit) + over / LEVELS) / tile.size)


def _between(length: int, tile: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """The tiles on either side of each line, and how far it is towards the second."""
    import numpy as np

    place = (np.arange(length) + 0.5) / tile - 0.5
    first = np.floor(place).astype(np.intp)
    return first.clip(0, TILES - 1), (first + 1).clip(0, TILES - 1), place - first
