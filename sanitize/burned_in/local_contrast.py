"""Local contrast: stored values relative to their surroundings, whatever the window of a viewer.

Text of a few gray values on tissue and text of full contrast look alike in it, and so do 8 and 16 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RADII = (6, 24)
"""Radii (pixels) of the surroundings: one letter, and a line of text."""
# Deviation (stored values) below which differences are noise, and deviations beyond which values are clipped.
_NOISE = 1.0
_MOST = 4.0


def local_contrast(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the deviation of each value from the mean around it, in standard deviations.

    Parameters
    ----------
    values : array of float32, shape (rows, columns)
        In units of stored values, without NaN.

    Returns
    -------
    array of float32, shape (2, rows, columns)
        One plane for each of `RADII`, -2 to 2.
    """
    import cv2

    planes = np.empty((len(RADII), *values.shape), np.float32)
    for plane, radius in zip(planes, RADII, strict=True):
        window = (2 * radius + 1, 2 * radius + 1)
        edge = cv2.BORDER_REFLECT_101 if min(values.shape) > radius else cv2.BORDER_REPLICATE
        away = values - cv2.blur(values, window, borderType=edge)
        # Squares of deviations, not of values: 16-bit squares exceed the precision of float32.
        # Running sums may give values below zero.
        spread = np.sqrt(np.maximum(cv2.blur(away * away, window, borderType=edge), 0))
        plane[:] = np.clip(away / (spread + np.float32(_NOISE)), -_MOST, _MOST) * np.float32(2 / _MOST)
    return planes
