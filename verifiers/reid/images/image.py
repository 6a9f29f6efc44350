"""The image that a model reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Modality(StrEnum):
    """Kind of an image, and of the images that a model is made for."""

    RADIOGRAPH = "radiograph"
    SLIDE = "slide"


@dataclass(frozen=True, slots=True)
class ImageArray:
    """A decoded image as input of a model; it is never written to a release.

    Attributes
    ----------
    pixels
        Shape (rows, columns) in gray or (rows, columns, 3) in RGB, float32 in [0, 1]. In a radiograph dense
        tissue is bright, whatever its PhotometricInterpretation.
    modality
        Radiograph or slide.
    view
        DICOM ViewPosition (``PA``, ``AP``, ``LL``, ...); empty where unknown.
    further
        Number of further pages of the file, without reduced-resolution versions.
    """

    pixels: NDArray[np.float32]
    modality: Modality
    view: str = ""
    further: int = 0
