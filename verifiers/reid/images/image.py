"""The image that a model reads, and its kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Modality(StrEnum):
    """Kind of an image: its modality and body region.

    A model, a calibration and an index are for one kind, and no image of another kind is compared under them.
    """

    RADIOGRAPH = "radiograph"
    """Projection radiograph of the chest."""
    RADIOGRAPH_HEAD = "radiograph-head"
    RADIOGRAPH_NECK = "radiograph-neck"
    RADIOGRAPH_ABDOMEN = "radiograph-abdomen"
    RADIOGRAPH_PELVIS = "radiograph-pelvis"
    RADIOGRAPH_SPINE = "radiograph-spine"
    RADIOGRAPH_ARM = "radiograph-arm"
    RADIOGRAPH_LEG = "radiograph-leg"
    CT_HEAD = "ct-head"
    CT_NECK = "ct-neck"
    CT_CHEST = "ct-chest"
    CT_HEART = "ct-heart"
    CT_ABDOMEN = "ct-abdomen"
    CT_PELVIS = "ct-pelvis"
    CT_TRUNK = "ct-trunk"
    """Several of chest, abdomen and pelvis."""
    CT_SPINE = "ct-spine"
    CT_ARM = "ct-arm"
    CT_LEG = "ct-leg"
    MR_HEAD = "mr-head"
    MR_NECK = "mr-neck"
    MR_CHEST = "mr-chest"
    MR_HEART = "mr-heart"
    MR_BREAST = "mr-breast"
    MR_ABDOMEN = "mr-abdomen"
    MR_PELVIS = "mr-pelvis"
    MR_TRUNK = "mr-trunk"
    MR_SPINE = "mr-spine"
    MR_ARM = "mr-arm"
    MR_LEG = "mr-leg"
    ULTRASOUND_HEAD = "ultrasound-head"
    ULTRASOUND_NECK = "ultrasound-neck"
    ULTRASOUND_CHEST = "ultrasound-chest"
    ULTRASOUND_HEART = "ultrasound-heart"
    ULTRASOUND_BREAST = "ultrasound-breast"
    ULTRASOUND_ABDOMEN = "ultrasound-abdomen"
    ULTRASOUND_PELVIS = "ultrasound-pelvis"
    ULTRASOUND_ARM = "ultrasound-arm"
    ULTRASOUND_LEG = "ultrasound-leg"
    MAMMOGRAM = "mammogram"
    DENTAL = "dental"
    """Intraoral radiograph."""
    PANORAMIC = "panoramic"
    """Panoramic radiograph of the jaws."""
    FUNDUS = "fundus"
    """Color photograph of the retina."""
    OCT = "oct"
    """Optical coherence tomogram of the retina."""
    SLIDE = "slide"

    @property
    def plural(self) -> str:
        """Name of several such images in a sentence."""
        technique, _, region = self.value.partition("-")
        name = _PLURALS[technique]
        return f"{name} of the {region}" if region else name

    @property
    def is_colored(self) -> bool:
        """Whether color belongs to the image."""
        return self in (Modality.SLIDE, Modality.FUNDUS)

    @property
    def is_projection(self) -> bool:
        """Whether it is a radiograph, whose contrast a model may normalize; not a slice or a photograph."""
        return self.value.partition("-")[0] in ("radiograph", "mammogram", "dental", "panoramic")

    @property
    def is_sliced(self) -> bool:
        """Whether one examination has many images of one place, which say nothing about another day."""
        return self.value.partition("-")[0] in ("ct", "mr", "ultrasound", "oct")


_PLURALS: Final = {
    "radiograph": "radiographs",
    "ct": "CT images",
    "mr": "MR images",
    "ultrasound": "ultrasound images",
    "mammogram": "mammograms",
    "dental": "dental radiographs",
    "panoramic": "panoramic radiographs",
    "fundus": "fundus photographs",
    "oct": "OCT images",
    "slide": "slides",
}


@dataclass(frozen=True, slots=True)
class ImageArray:
    """A decoded image as input of a model; it is never written to a release.

    Attributes
    ----------
    pixels
        Shape (rows, columns) in gray or (rows, columns, 3) in RGB, float32 in [0, 1]. In a radiograph dense
        tissue is bright, whatever its PhotometricInterpretation.
    modality
        Kind of the image; None where neither the file nor the caller states it, and no model reads it then.
    view
        DICOM ViewPosition (``PA``, ``AP``, ``LL``, ...); empty where unknown.
    further
        Number of further pages of the file, without reduced-resolution versions.
    series, position
        Series Instance UID of a slice and its place along the series; empty and 0 where unknown.
    """

    pixels: NDArray[np.float32]
    modality: Modality | None
    view: str = ""
    further: int = 0
    series: str = ""
    position: float = 0.0
