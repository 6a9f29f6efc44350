"""Which objects may show text in their pixels, judged by what they say they are.

Burned In Annotation may lie: its NO lowers no risk, its YES raises it.
"""

from __future__ import annotations

from collections.abc import Mapping

from medsanitize.sanitize.dicom.wsi import is_tissue

_SLICES = frozenset(["CT", "MR", "PT", "NM"])
_TEXT_SOP_CLASSES = (
    "1.2.840.10008.5.1.4.1.1.1.",
    "1.2.840.10008.5.1.4.1.1.3.",
    "1.2.840.10008.5.1.4.1.1.6.",
    "1.2.840.10008.5.1.4.1.1.7.",
    "1.2.840.10008.5.1.4.1.1.12.",
    "1.2.840.10008.5.1.4.1.1.77.1.",
)
_COMPUTED = (
    "1.2.840.10008.5.1.4.1.1.30",
    "1.2.840.10008.5.1.4.1.1.66",
    "1.2.840.10008.5.1.4.1.1.481.2",
    "1.2.840.10008.5.1.4.1.1.68.",
    "1.2.840.10008.5.1.4.1.1.67",
)
_SCREEN = ("SCREEN", "CAPTURE", "SECONDARY", "DOSE", "REPORT")
_REFORMATTED = (
    "REFORMATTED",
    "MPR",
    "MIP",
    "MINIP",
    "AVERAGE",
    "ADC",
    "TRACE",
    "FA",
    "PROJECTION",
    "SUBTRACT",
    "NORM",
    "VOLUME",
    "RESAMPLED",
    "AXIAL",
)


def may_show_text(values: Mapping[str, str]) -> bool:
    """Whether the pixels may carry burned-in text: always, but for computed objects, plain slices and tissue.

    Tissue is what scanners of slides write. Slices of CT, MR, PET and nuclear medicine are plain when
    nothing says that they are pictures of a screen, reports or captures; in colour they are not, since their
    IODs know none (PS3.3 A.3, A.4).

    ``values`` are the texts of SOPClassUID, Modality, ImageType, BurnedInAnnotation, ConversionType and
    PhotometricInterpretation.
    """
    if values.get("SOPClassUID", "").startswith(_COMPUTED):
        return values.get("BurnedInAnnotation", "").strip().upper() == "YES"
    if is_tissue(values):
        return values.get("BurnedInAnnotation", "").strip().upper() == "YES"
    if (
        values.get("BurnedInAnnotation", "").strip().upper() == "YES"
        or values.get("ConversionType", "").strip()
    ):
        return True
    if not values.get("SOPClassUID") or values.get("Modality", "").strip().upper() not in _SLICES:
        return True
    if not values.get("PhotometricInterpretation", "MONOCHROME2").strip().upper().startswith("MONOCHROME"):
        return True
    if f"{values['SOPClassUID']}.".startswith(_TEXT_SOP_CLASSES):
        return True
    kinds = [part.strip().upper() for part in values.get("ImageType", "").split("\\")]
    if any(word in kind for kind in kinds[2:] for word in _SCREEN):
        return True
    derived = kinds[:2] == ["DERIVED", "SECONDARY"]
    return derived and not any(word in kind for kind in kinds[2:] for word in _REFORMATTED)
