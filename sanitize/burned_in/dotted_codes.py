"""Matrix codes whose modules are separate dots, as a needle or a laser makes them: round dots on a grid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Points = NDArray[np.float64]

# Widest dot (pixels), contrast (gray values) from which it is seen, part of it that its middle has, and its
# least and largest area.
_WIDEST, _CONTRAST, _MIDDLE, _SMALLEST, _LARGEST = 9, 40, 0.8, 3, 60
# Largest ratio of the sides of a dot, and of its area and that of most.
_ROUND, _ALIKE = 1.5, 1.5
# Least and most dots of a code (the largest Data Matrix has 144 x 144 modules), and how far (pixels) one of
# them is from the next at most.
_FEWEST, _MOST, _FAR = 40, 144 * 144, 18
# Dots whose next one is looked for: that of every dot would take too much memory.
_LOOKED_AT = 400
# Of the dots, least part that are as far from the next as most are, by what part that distance varies, and
# how well (0 to 1) their directions agree with a grid.
_REGULAR, _VARIES, _GRID = 0.6, 0.25, 0.7
# Least part of the grid that is filled with dots, and least side in distances of dots.
_FILLED, _SIDE = 0.25, 6


def dotted_codes(picture: Picture) -> Iterator[Area]:
    """Yield the areas of matrix codes that are made of dots, bright or dark.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns)
    """
    import cv2

    window = np.ones((_WIDEST, _WIDEST), np.uint8)
    for thin in (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT):
        contrast = cv2.morphologyEx(picture, thin, window)
        if int((contrast >= _CONTRAST).sum()) < _FEWEST * _SMALLEST:
            continue
        # Dots may touch: only their middles stand apart.
        most = np.maximum(cv2.dilate(contrast, window), _CONTRAST).astype(np.float32)
        ink = np.asarray(contrast >= _MIDDLE * most)
        for dots in _groups(_dots(ink), picture.shape):
            if _is_code(dots):
                left, top = (int(side) for side in dots.min(axis=0))
                right, bottom = (int(side) + 1 for side in dots.max(axis=0))
                around = _WIDEST
                yield (
                    max(0, left - around),
                    max(0, top - around),
                    min(picture.shape[1], right + around),
                    min(picture.shape[0], bottom + around),
                )


def _dots(ink: NDArray[np.bool_]) -> Points:
    """Centers of round pieces of ink of about one size."""
    import cv2

    _, _, stats, centers = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=4)
    width, height, area = (
        stats[1:, at].astype(np.float64) for at in (cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT, cv2.CC_STAT_AREA)
    )
    round_ = np.maximum(width, height) <= _ROUND * np.minimum(width, height) + 1
    dots = round_ & (area >= _SMALLEST) & (area <= _LARGEST)
    if dots.sum() < _FEWEST:
        return np.zeros((0, 2))
    usual = float(np.median(area[dots]))
    dots &= (area <= _ALIKE * usual) & (usual <= _ALIKE * area)
    return np.asarray(centers[1:][dots], np.float64)


def _groups(dots: Points, shape: tuple[int, ...]) -> Iterator[Points]:
    """Yield the dots that are near each other, in groups of as many as a code may have."""
    import cv2

    if len(dots) < _FEWEST:
        return
    near = np.zeros(shape, np.uint8)
    places = np.rint(dots).astype(int)
    near[places[:, 1], places[:, 0]] = 1
    near = np.asarray(cv2.dilate(near, np.ones((_FAR + 1, _FAR + 1), np.uint8)), np.uint8)
    count, labels = cv2.connectedComponents(near, connectivity=8)
    mine = labels[places[:, 1], places[:, 0]]
    for label in range(1, count):
        group = dots[mine == label]
        if _FEWEST <= len(group) <= _MOST:
            yield group


def _is_code(dots: Points) -> bool:
    """Whether dots stand on a grid that they fill as the modules of a code do."""
    import cv2

    some = dots[:: -(-len(dots) // _LOOKED_AT)]
    steps = (dots[None] - some[:, None]).astype(np.float32)
    away = np.hypot(steps[..., 0], steps[..., 1])
    away[away == 0] = np.inf  # from itself
    nearest = away.argmin(axis=1)
    far = away.min(axis=1)
    pitch = float(np.median(far))
    regular = np.abs(far - pitch) <= _VARIES * pitch
    if regular.mean() < _REGULAR:
        return False
    x, y = steps[np.arange(len(some)), nearest][regular].T
    # Four times the angle is the same for all four directions of a grid.
    if abs(np.exp(4j * np.arctan2(y, x)).mean()) < _GRID:
        return False
    _, sides, _ = cv2.minAreaRect(dots.astype(np.float32))
    short, long = sorted(float(side) / pitch + 1 for side in sides)
    return short >= _SIDE and len(dots) >= _FILLED * short * long
