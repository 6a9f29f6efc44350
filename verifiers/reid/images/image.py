"""One image as a model sees it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Modality(StrEnum):
    """What kind of image a picture is and a model is made for."""

    RADIOGRAPH = "radiograph"
    SLIDE = "slide"


@dataclass(frozen=True, slots=True)
class ImageArray:
    """Pixels on their way into a model; nothing of it is ever written into a release.

    Attributes
    ----------
    pixels
        ``(rows, columns)`` grey or ``(rows, columns, 3)`` RGB, float32 in [0, 1]. In a radiograph what is
        dense is bright, whatever PhotometricInterpretation said.
    modality
        Radiograph or slide.
    view
        ViewPosition as DICOM spells it (``PA``, ``AP``, ``LL``...), empty where nothing says it.
    further
        Pages of the file that this does not show; smaller versions of this one do not count.
    """

    pixels: NDArray[np.float32]
    modality: Modality
    view: str = ""
    further: int = 0
