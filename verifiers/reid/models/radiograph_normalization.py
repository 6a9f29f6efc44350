"""Normalization of radiographs before embedding: less influence of image processing, more of anatomy.

Borders, collimator edges, the empty bands next to a scan and the contrast all reveal the site of an image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Share of a side that is cropped at most at either end, in each of two rounds.
MAX_CROP_SHARE = 0.3
# A row or column is border if its deviation is smaller, or its median nearly black or white.
FLAT, BLACK, WHITE = 6 / 255, 8 / 255, 247 / 255
# Quantiles that become black and white.
LOW, HIGH = 0.01, 0.99
# Local contrast: blur that removes noise, and width of the neighborhood, as shares of the side; deviation of
# noise, which is not amplified; and the share of the range that a deviation takes.
SOFT, WIDE, FAINT, SPAN = 1 / 128, 5 / 128, 3 / 255, 0.2
# Adaptive equalization: tiles per side, gray levels, and the largest slope of the curve of a tile.
TILES, LEVELS, STEEPEST = 4, 256, 1.5


def content(plane: NDArray[np.float32]) -> tuple[int, int, int, int]:
    """Find what the uniform borders of a gray image enclose.

    Returns
    -------
    tuple of int
        Top, bottom, left and right; the whole image if all of it is border.
    """
    top, left = 0, 0
    bottom, right = plane.shape
    # Twice: a wide border on one side can hide that on another.
    for _ in range(2):
        first, last = _content(plane[top:bottom, left:right], 1)
        top, bottom = top + first, top + last
        first, last = _content(plane[top:bottom, left:right], 0)
        left, right = left + first, left + last
    whole = min(bottom - top, right - left) <= 1
    return (0, plane.shape[0], 0, plane.shape[1]) if whole else (top, bottom, left, right)


def _content(plane: NDArray[np.float32], axis: int) -> tuple[int, int]:
    """First row or column of the content and one past its last."""
    import numpy as np

    middle = np.median(plane, axis)
    border = (plane.std(axis) < FLAT) | (middle < BLACK) | (middle > WHITE)
    most = int(len(border) * MAX_CROP_SHARE)
    ends = [int(np.argmin(side)) if not side.all() else most for side in (border[:most], border[::-1][:most])]
    return ends[0], len(border) - ends[1]


def even_contrast(square: NDArray[np.float32]) -> NDArray[np.float32]:
    """Stretch between two quantiles, then equalize by tiles (Zuiderveld 1994).

    Parameters
    ----------
    square : array of float32, shape (size, size)
        ``size`` must be a multiple of `TILES`.

    Returns
    -------
    array of float32, shape (size, size)
        Values in [0, 1].
    """
    import numpy as np

    low, high = np.quantile(square, (LOW, HIGH))
    # A uniform image has no range to divide by.
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


def local_contrast(square: NDArray[np.float32]) -> NDArray[np.float32]:
    """Blur slightly, subtract the local mean and divide by the local deviation; 0.5 is the mean.

    A region looks the same whatever the rest of the image shows and however gray levels were changed.

    Parameters
    ----------
    square : array of float32, shape (size, size)
        The image.

    Returns
    -------
    array of float32, shape (size, size)
        Values in [0, 1].
    """
    import numpy as np
    from scipy.ndimage import gaussian_filter  # type: ignore[import-untyped]

    soft, wide = SOFT * len(square), WIDE * len(square)
    smooth = gaussian_filter(square, soft, mode="nearest")
    above = smooth - gaussian_filter(smooth, wide, mode="nearest")
    spread = np.sqrt(gaussian_filter(above * above, wide, mode="nearest") + FAINT**2)
    return np.asarray(np.clip(0.5 + SPAN * above / spread, 0, 1), np.float32)


def _curve(tile: NDArray[np.intp]) -> NDArray[np.float64]:
    """New value of each level: cumulative share of the pixels, with the clipped excess spread evenly."""
    import numpy as np

    counts = np.bincount(tile.ravel(), minlength=LEVELS).astype(np.float64)
    limit = max(1.0, np.floor(STEEPEST * tile.size / LEVELS))
    over = np.maximum(counts - limit, 0).sum()
    return np.asarray(np.cumsum(np.minimum(counts, limit) + over / LEVELS) / tile.size)


def _between(length: int, tile: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """For each row or column, the tiles on either side, and its relative position between them."""
    import numpy as np

    place = (np.arange(length) + 0.5) / tile - 0.5
    first = np.floor(place).astype(np.intp)
    return first.clip(0, TILES - 1), (first + 1).clip(0, TILES - 1), place - first
