"""Structural similarity (SSIM) of two grayscale images (Wang et al. 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Width of the Gaussian window in pixels; with DEVIATION as in section III-B of the paper.
WINDOW: Final = 11
DEVIATION: Final = 1.5
# C1 = (K1 L)^2 and C2 = (K2 L)^2 of the paper, for a range L of 1.
_LUMINANCE: Final = 0.01**2
_CONTRAST: Final = 0.03**2


@dataclass(frozen=True, slots=True)
class Structure:
    """An image with its local mean and variance, which all comparisons of it share."""

    pixels: NDArray[np.float64]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]


def structure(pixels: NDArray[np.float32]) -> Structure:
    """Precompute local statistics of an image.

    Parameters
    ----------
    pixels
        ``(rows, columns)`` in [0, 1], at least as large as the window.

    Raises
    ------
    UsageError
        If the image is smaller than the window.
    """
    import numpy as np

    if min(pixels.shape) < WINDOW:
        raise UsageError(f"Images smaller than {WINDOW} x {WINDOW} pixels have no SSIM", "Use larger images")
    wide = np.asarray(pixels, np.float64)
    mean = _local(wide)
    return Structure(wide, mean, _local(wide**2) - mean**2)


def similarity(one: Structure, other: Structure) -> float:
    """SSIM of two images, from -1 to 1; 1 for identical images.

    The mean over all positions where the window is inside the image, with the constants of the paper
    (K1 = 0.01, K2 = 0.03, range 1, Gaussian window of 11 x 11 px with deviation 1.5).

    Raises
    ------
    UsageError
        If the images differ in size.
    """
    if one.pixels.shape != other.pixels.shape:
        raise UsageError("Images of different sizes have no SSIM", "Scale them to one size")
    product = one.mean * other.mean
    covariance = _local(one.pixels * other.pixels) - product
    above = (2 * product + _LUMINANCE) * (2 * covariance + _CONTRAST)
    below = (one.mean**2 + other.mean**2 + _LUMINANCE) * (one.variance + other.variance + _CONTRAST)
    return float((above / below).mean())


def ssim(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """SSIM of two grayscale images in [0, 1]; see `structure` and `similarity`."""
    return similarity(structure(one), structure(other))


def _local(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted mean under the window at each position where it is inside the image."""
    import numpy as np
    from scipy.ndimage import correlate1d  # type: ignore[import-untyped]

    half = WINDOW // 2
    window = np.exp(-0.5 * (np.arange(-half, half + 1) / DEVIATION) ** 2)
    window /= window.sum()
    # The Gaussian is separable: two passes of 11 taps instead of 121.
    rows = correlate1d(pixels, window, axis=0)[half:-half]
    return np.asarray(correlate1d(rows, window, axis=1)[:, half:-half])
