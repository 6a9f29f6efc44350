"""Preprocessing of images for generators; training, privacy gate and quality metrics share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing, prepare

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray
    from numpy.typing import NDArray


def preprocessing(size: int) -> Preprocessing:
    """Grayscale, center crop along the longer side, scaled to ``size``; values are not normalized."""
    # Not normalized: the generator's output is compared with these pixels directly.
    return Preprocessing(size, Fit.CROP, Channels.GRAY, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def preprocess_image(picture: ImageArray, size: int) -> NDArray[np.uint8]:
    """Preprocess one picture, ``(size, size)``; dense tissue is bright.

    Raises
    ------
    UsageError
        If it is of another kind.
    """
    import numpy as np

    if picture.modality is not Modality.RADIOGRAPH:
        raise UsageError(
            "An image is no radiograph of the chest; generators support these only",
            "Remove it from the table",
        )
    plane = prepare(picture, preprocessing(size))[0]
    # Interpolation overshoots the range at sharp edges.
    return np.asarray(np.rint(np.clip(plane, 0, 1) * 255), np.uint8)


def to_image_array(pixels: NDArray[np.uint8]) -> ImageArray:
    """Wrap a preprocessed image as the picture type of the verifiers."""
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray

    return ImageArray(np.asarray(pixels, np.float32) / np.float32(255), Modality.RADIOGRAPH)
