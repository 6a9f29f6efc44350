"""DICOM whole-slide images: exclusion of images of the label or the whole slide."""

from __future__ import annotations

from collections.abc import Mapping

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.quarantine import Excluded, Quarantined

WHOLE_SLIDE = "1.2.840.10008.5.1.4.1.1.77.1.6"
"""SOP Class UID of VL Whole Slide Microscopy Image Storage."""
_SHOWS_LABEL = frozenset(["LABEL", "OVERVIEW", "LOCALIZER"])
_VOLUME = "VOLUME"
_THUMBNAIL = "THUMBNAIL"


def exclude_non_tissue(texts: Mapping[str, str], rules: WholeSlides) -> None:
    """Exclude images of a slide that do not show tissue (PS3.3 C.8.12.4.1.1, value 3 of Image Type).

    Parameters
    ----------
    texts : mapping
        Texts of SOPClassUID, ImageType and SpecimenLabelInImage.
    rules : WholeSlides
        Section of the policy.

    Raises
    ------
    Excluded
        ``slide-picture`` for label, overview and localizer images and unwanted thumbnails; ``slide`` if the
        policy drops slides.
    Quarantined
        ``slide`` if the policy quarantines slides; ``slide-picture-unknown`` if the object does not state
        which image it is.
    """
    if texts.get("SOPClassUID") != WHOLE_SLIDE:
        return
    if rules.action == "drop":
        raise Excluded("slide")
    if rules.action == "quarantine":
        raise Quarantined("slide")
    kind = _kind(texts)
    if kind in _SHOWS_LABEL or texts.get("SpecimenLabelInImage", "").strip().upper() == "YES":
        raise Excluded("slide-picture")
    if kind == _THUMBNAIL and rules.thumbnail == "drop":
        raise Excluded("slide-picture")
    if kind not in (_VOLUME, _THUMBNAIL):
        raise Quarantined("slide-picture-unknown", "(0008,0008)")


def is_tissue(texts: Mapping[str, str]) -> bool:
    """Return whether an object states that it is a tissue image, into which no scanner writes text."""
    return texts.get("SOPClassUID") == WHOLE_SLIDE and _kind(texts) in (_VOLUME, _THUMBNAIL)


def _kind(texts: Mapping[str, str]) -> str:
    """Value 3 of Image Type; without Image Type, tissue if the object states that it shows no label."""
    kinds = [part.strip().upper() for part in texts.get("ImageType", "").split("\\")]
    if not any(kinds) and texts.get("SpecimenLabelInImage", "").strip().upper() == "NO":
        return _VOLUME
    return kinds[2] if len(kinds) > 2 else ""
