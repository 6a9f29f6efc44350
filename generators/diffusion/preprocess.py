"""The squares that a generator learns: one way from a picture to pixels, for all who need it."""

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
    """What is done to a picture: grey, the middle of the longer side, scaled; values stay as they are."""
    return Preprocessing(size, Fit.CROP, Channels.GREY, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def preprocess_image(picture: ImageArray, size: int) -> NDArray[np.uint8]:
    """One picture as a generator of this size sees it, ``(size, size)``; dense is bright.

    Raises
    ------
    UsageError
        If it is a slide: generators make grey images.
    """
    import numpy as np

    if picture.modality is not Modality.RADIOGRAPH:
        raise UsageError(
            "A picture is a slide or in colour, and generators make grey images", "Leave it out of the table"
        )
    plane = prepare(picture, preprocessing(size))[0]
    return np.asarray(np.rint(np.clip(plane, 0, 1) * 255), np.uint8)


def to_image_array(pixels: NDArray[np.uint8]) -> ImageArray:
    """A generator's square as the picture that a verifier takes."""
    import numpy as np
    from medsanitize.verifiers.reid.images.image import ImageArray

    return ImageArray(np.asarray(pixels, np.float32) / np.float32(255), Modality.RADIOGRAPH)
