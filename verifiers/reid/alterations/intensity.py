"""Alterations of intensity and detail: copies that were blurred, encoded, noised or of another contrast.

Every function maps ``(n, size, size)`` to copies of the same shape. What is drawn at random depends on the
index of the image only, so that the same images give the same copies.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.alterations.geometry import SEEDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUALITY: Final = 40
# Standard deviation in pixels. Removes the finest detail only: the autoencoder is a control of its own.
BLUR: Final = 1.0
# Standard deviation in gray levels of 255.
NOISE: Final = 20.0
GAMMA: Final = 2.0
_LEVELS: Final = 256


def blurred(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Blur by a pixel."""
    return gaussian_blur(squares, BLUR)


def encoded(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Encode as JPEG of low quality and decode."""
    return jpeg_round_trip(squares, QUALITY)


def noised(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Add white noise, which hides a copy from networks that read fine detail, but not from people."""
    import numpy as np

    found = np.empty_like(squares)
    for place, one in enumerate(squares):
        noise = np.random.default_rng([SEEDS, place, 2]).normal(0, NOISE, one.shape)
        found[place] = np.rint(np.clip(one + noise, 0, 255))
    return found


def gamma(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Darken or brighten the middle gray levels, by index."""
    import numpy as np

    found = np.empty_like(squares)
    for place, one in enumerate(squares):
        power = 1 / GAMMA if place % 2 else GAMMA
        found[place] = np.rint(255 * (one / 255.0) ** power)
    return found


def equalized(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Equalize the histogram."""
    import numpy as np

    found = np.empty_like(squares)
    for place, one in enumerate(squares):
        shares = np.cumsum(np.bincount(one.ravel(), minlength=_LEVELS)) / one.size
        found[place] = np.rint(255 * shares)[one]
    return found


def inverted(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Show dense tissue dark."""
    import numpy as np

    return np.asarray(255 - squares, np.uint8)


def gaussian_blur(squares: NDArray[np.uint8], deviation: float) -> NDArray[np.uint8]:
    """Blur images with a Gaussian; ``deviation`` in pixels."""
    import numpy as np
    from scipy.ndimage import gaussian_filter  # type: ignore[import-untyped]

    soft = gaussian_filter(squares.astype(np.float32), (0, deviation, deviation), mode="nearest")
    return np.asarray(np.rint(soft), np.uint8)


def jpeg_round_trip(squares: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Encode images as JPEG and decode them."""
    import numpy as np
    from PIL import Image

    found = np.empty_like(squares)
    for place, one in enumerate(squares):
        file = io.BytesIO()
        Image.fromarray(one).save(file, "JPEG", quality=quality)
        found[place] = np.asarray(Image.open(file))
    return found
