"""Risk of burned-in text, estimated from the header.

Burned In Annotation (PS3.3 C.7.6.1) is often wrong: NO does not lower the risk, YES raises it.
"""

from __future__ import annotations

from collections.abc import Mapping

from medsanitize.sanitize.dicom.wsi import is_tissue

RISK_ATTRIBUTES: Mapping[str, int] = {
    "SOPClassUID": 0x00080016,
    "Modality": 0x00080060,
    "ImageType": 0x00080008,
    "BurnedInAnnotation": 0x00280301,
    "ConversionType": 0x00080064,
    "SpecimenLabelInImage": 0x00480010,
    "PhotometricInterpretation": 0x00280004,
    "DetectorType": 0x00187004,
}
"""The attributes by which the risk is estimated, and their tags."""

_SLICES = frozenset(["CT", "MR", "PT", "NM"])
# CR and DX, ultrasound, secondary capture, XA and RF, visible light.
_TEXT_SOP_CLASSES = (
    "1.2.840.10008.5.1.4.1.1.1.",
    "1.2.840.10008.5.1.4.1.1.3.",
    "1.2.840.10008.5.1.4.1.1.6.",
    "1.2.840.10008.5.1.4.1.1.7.",
    "1.2.840.10008.5.1.4.1.1.12.",
    "1.2.840.10008.5.1.4.1.1.77.1.",
)
# Parametric maps, segmentations and raw data, RT dose, surface scans, real world value mappings.
_COMPUTED = (
    "1.2.840.10008.5.1.4.1.1.30",
    "1.2.840.10008.5.1.4.1.1.66",
    "1.2.840.10008.5.1.4.1.1.481.2",
    "1.2.840.10008.5.1.4.1.1.68.",
    "1.2.840.10008.5.1.4.1.1.67",
)
# Digitized film, scanned document, drawing (Conversion Type, PS3.3 C.8.6.1); scanned film (Detector Type,
# C.8.11.4).
_BY_HAND = frozenset(["DF", "SD", "DRW"])
_FILM = "FILM"
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


def is_image(values: Mapping[str, str]) -> bool:
    """Return whether the pixels are an image that a device or a person may have written text into.

    Computed objects and tissue images of slide scanners are none, unless their header states burned-in text,
    a capture, or colors that the IODs of computed objects do not have.

    Parameters
    ----------
    values : mapping
        As for `may_show_text`.
    """
    computed = values.get("SOPClassUID", "").startswith(_COMPUTED) and not _is_captured(values)
    computed = computed or is_tissue(values)
    return not computed or values.get("BurnedInAnnotation", "").strip().upper() == "YES"


def _is_captured(values: Mapping[str, str]) -> bool:
    """Return whether an object was converted from another source, or has true colors."""
    colors = values.get("PhotometricInterpretation", "").strip().upper()
    return bool(values.get("ConversionType", "").strip()) or colors.startswith(("RGB", "YBR"))


def may_be_handwritten(values: Mapping[str, str]) -> bool:
    """Return whether the pixels are a film or paper that was digitized, on which handwriting is likely.

    Parameters
    ----------
    values : mapping
        As for `may_show_text`.
    """
    conversion, detector = (
        values.get(name, "").strip().upper() for name in ("ConversionType", "DetectorType")
    )
    return conversion in _BY_HAND or detector == _FILM


def may_show_text(values: Mapping[str, str]) -> bool:
    """Return whether the pixels may contain burned-in text.

    They may, except in computed objects, in tissue images of slide scanners, and in slices of CT, MR, PET and
    nuclear medicine that are not marked as screen captures, reports or secondary captures.

    Parameters
    ----------
    values : mapping
        Texts of `RISK_ATTRIBUTES`; those that are absent may be missing.
    """
    if not is_image(values):
        return False
    if (
        values.get("BurnedInAnnotation", "").strip().upper() == "YES"
        or values.get("ConversionType", "").strip()
    ):
        return True
    if not values.get("SOPClassUID") or values.get("Modality", "").strip().upper() not in _SLICES:
        return True
    # The IODs of slices allow no color (PS3.3 A.3, A.4): a color image of their class is a capture.
    if not values.get("PhotometricInterpretation", "MONOCHROME2").strip().upper().startswith("MONOCHROME"):
        return True
    if f"{values['SOPClassUID']}.".startswith(_TEXT_SOP_CLASSES):
        return True
    kinds = [part.strip().upper() for part in values.get("ImageType", "").split("\\")]
    if any(word in kind for kind in kinds[2:] for word in _SCREEN):
        return True
    # DERIVED\SECONDARY is written for captures and for reformatted slices; the later values distinguish them.
    derived = kinds[:2] == ["DERIVED", "SECONDARY"]
    return derived and not any(word in kind for kind in kinds[2:] for word in _REFORMATTED)
