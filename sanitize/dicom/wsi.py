"""DICOM whole-slide images: what shows the label or the whole glass is no tissue, and goes by the policy."""

from __future__ import annotations

from collections.abc import Mapping

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.quarantine import Excluded, Quarantined

WHOLE_SLIDE = "1.2.840.10008.5.1.4.1.1.77.1.6"
"""SOP Class UID of VL Whole Slide Microscopy Image Storage."""
_LABELLED = frozenset(["LABEL", "OVERVIEW", "LOCALIZER"])
_TISSUE = "VOLUME"
_SMALL = "THUMBNAIL"


def exclude_non_tissue(texts: Mapping[str, str], rules: WholeSlides) -> None:
    """Leave out what of a slide is no tissue (PS3.3 C.8.12.4.1.1, value 3 of Image Type).

    Parameters
    ----------
    texts : mapping
        The texts of SOPClassUID, ImageType and SpecimenLabelInImage.

    Raises
    ------
    Dropped
        ``slide-picture`` for labels, overviews and unwanted thumbnails; ``slide`` where slides are left out.
    Refused
        ``slide``; ``slide-picture-unknown`` for what does not say which picture it is.
    """
    if texts.get("SOPClassUID") != WHOLE_SLIDE:
        return
    if rules.action == "drop":
        raise Excluded("slide")
    if rules.action == "quarantine":
        raise Quarantined("slide")
    kind = _kind(texts)
    if kind in _LABELLED or texts.get("SpecimenLabelInImage", "").strip().upper() == "YES":
        raise Excluded("slide-picture")
    if kind == _SMALL and rules.thumbnail == "drop":
        raise Excluded("slide-picture")
    if kind not in (_TISSUE, _SMALL):
        raise Quarantined("slide-picture-unknown", "(0008,0008)")


def is_tissue(texts: Mapping[str, str]) -> bool:
    """Whether an object is a slide's tissue, which no scanner writes into, by its own words."""
    return texts.get("SOPClassUID") == WHOLE_SLIDE and _kind(texts) in (_TISSUE, _SMALL)


def _kind(texts: Mapping[str, str]) -> str:
    """Which picture it is; without an Image Type, tissue if it says that no label is in it."""
    kinds = [part.strip().upper() for part in texts.get("ImageType", "").split("\\")]
    if not any(kinds) and texts.get("SpecimenLabelInImage", "").strip().upper() == "NO":
        return _TISSUE
    return kinds[2] if len(kinds) > 2 else ""
