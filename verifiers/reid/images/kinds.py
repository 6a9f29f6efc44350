"""The kind of an image: by its DICOM header, by a word of a table or a command, or unknown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.images.body_regions import region_of
from medsanitize.verifiers.reid.images.image import ImageArray, Modality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

UNKNOWN_KIND: Final = "unknown-kind"
"""Reason of an image whose kind nothing states."""
UNKNOWN: Final = "of unknown kind"
OTHER_SLICE: Final = "another slice of its series"
STATE_IT: Final = (
    "State the kind with --kind, or in a column kind of the table; DICOM states modality and body part"
)
# Modality (PS3.3 C.7.3.1.1.1) by the first word of a kind; the second is the body region.
_REGIONAL: Final = {"CR": "radiograph", "DX": "radiograph", "RG": "radiograph"} | {
    "CT": "ct",
    "MR": "mr",
    "US": "ultrasound",
}
_WHOLE: Final = {
    "SM": Modality.SLIDE,
    "MG": Modality.MAMMOGRAM,
    "IO": Modality.DENTAL,
    "PX": Modality.PANORAMIC,
}
# Modality of captures and of converted pictures, which says nothing about the kind.
_SAYS_NOTHING: Final = frozenset({"", "OT", "SC"})
WITH_KINDS: Final = frozenset({*_REGIONAL, *_WHOLE, *_SAYS_NOTHING, "OP", "OPT"})
"""Values of Modality of which there are images of a known kind."""
# Retina, macula, optic disc, choroid, posterior segment (CID 4209), in SNOMED CT and RT.
_RETINA: Final = frozenset(
    "5665001 T-AA610 82859000 T-AA621 24924006 T-AA630 68703001 T-AA310 37450001 T-AA700".split()
)
_FUNDUS_CAMERA: Final = frozenset({"409898007", "R-1021A"})
# Views of chest radiographs (PS3.3 C.8.1.2.1.1, CID 4010) as tables spell them; CC and MLO are of mammograms.
_CHEST_VIEWS: Final = frozenset({"PA", "AP", "LL", "RL", "LATERAL"})


def kind_named(text: str) -> Modality | None:
    """Return the kind of that name, in any case and with any separators; None for an empty text.

    Raises
    ------
    UsageError
        If there is no such kind.
    """
    name = "-".join(text.lower().replace("_", " ").replace("-", " ").replace("/", " ").split())
    if not name:
        return None
    try:
        return Modality(name)
    except ValueError:
        listed = ", ".join(one.value for one in Modality)
        raise UsageError("An image has a kind that is not known", f"The kinds are {listed}") from None


def kind_of_view(view: str) -> Modality | None:
    """Return the kind that a view of a table implies: PA, AP, LL, RL and LATERAL are of chest radiographs."""
    return Modality.RADIOGRAPH if view.upper() in _CHEST_VIEWS else None


def kind_of_dicom(ds: Dataset, stated: Modality | None) -> Modality | None:
    """Return the kind of a DICOM object, by Modality and body part.

    The body part is that of Anatomic Region Sequence, Body Part Examined, and the descriptions of series,
    protocol and study, where they agree.

    Parameters
    ----------
    ds : Dataset
        The object.
    stated : Modality or None
        What a table or a command states; it counts where the header does not contradict it.

    Returns
    -------
    Modality or None
        None where nothing states the kind, for modalities without one, and for localizers.
    """
    modality = str(ds.get("Modality") or "").strip().upper()
    if modality in _WHOLE:
        return _WHOLE[modality]
    if modality in ("OP", "OPT"):
        return _eye(ds, modality)
    if modality in _SAYS_NOTHING:
        return stated
    technique = _REGIONAL.get(modality, "")
    kinds = [str(one).upper() for one in _values(ds.get("ImageType"))]
    # A localizer of CT is a projection, and one of MR has another contrast and resolution.
    if not technique or any("LOCALIZER" in one or "SCOUT" in one for one in kinds):
        return None
    region = _region(ds)
    if not region:
        # The header names no region: the statement may complete it, not replace it.
        return stated if stated is not None and stated.value.split("-")[0] == technique else None
    name = "radiograph" if (technique, region) == ("radiograph", "chest") else f"{technique}-{region}"
    return next((one for one in Modality if one.value == name), None)


def _region(ds: Dataset) -> str:
    items = list(_items(ds, "AnatomicRegionSequence"))
    coded = region_of((meaning for _, meaning in items), (code for code, _ in items))
    part = coded or region_of([str(ds.get("BodyPartExamined") or "")])
    said = [str(ds.get(name) or "") for name in ("SeriesDescription", "ProtocolName", "StudyDescription")]
    # The series first: a study may have several body parts.
    described = next((found for text in said if (found := region_of([text]))), "")
    return part or described


def _eye(ds: Dataset, modality: str) -> Modality | None:
    regions = {code for code, _ in _items(ds, "AnatomicRegionSequence")}
    cameras = {code for code, _ in _items(ds, "AcquisitionDeviceTypeCodeSequence")}
    if modality == "OPT":
        return Modality.OCT if regions & _RETINA or not regions else None
    # Ophthalmic photographs are of the cornea and the lids as well.
    return Modality.FUNDUS if regions & _RETINA or cameras & _FUNDUS_CAMERA else None


def _items(ds: Dataset, name: str) -> Iterator[tuple[str, str]]:
    # A malformed sequence is no reason to reject the image.
    with suppress(AttributeError, TypeError):
        for item in ds.get(name) or ():
            yield str(item.get("CodeValue") or ""), str(item.get("CodeMeaning") or "")


def _values(value: Any) -> list[Any]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def place_of_slice(ds: Dataset) -> tuple[str, float]:
    """Return a digest of the series of a slice, and its place along it; empty and 0 where unknown."""
    import numpy as np

    uid = str(ds.get("SeriesInstanceUID") or "")
    series = hashlib.sha256(uid.encode()).hexdigest() if uid else ""
    with suppress(TypeError, ValueError, ArithmeticError):
        point, axes = _values(ds.get("ImagePositionPatient")), _values(ds.get("ImageOrientationPatient"))
        if (len(point), len(axes)) == (3, 6):
            numbers = np.array([*axes, *point], np.float64)
            place = float(np.cross(numbers[:3], numbers[3:6]) @ numbers[6:])
            return series, place if np.isfinite(place) else 0.0
        return series, float(ds.get("InstanceNumber") or 0)
    return series, 0.0


def one_of_each_series(
    patients: Sequence[Any], series: Sequence[str], positions: Sequence[float]
) -> NDArray[np.intp]:
    """Return the rows of the middle slice of each series, sorted.

    Neighbouring slices are one exposure: as two images of a patient they would make any model look right, and
    the most similar of many slices is no measure that a calibration of single slices holds for.

    Parameters
    ----------
    patients : sequence
        Patient of each slice. Slices of unknown series are one series of their patient.
    series : sequence of str
        Series of each slice; empty where unknown.
    positions : sequence of float
        Place of each slice along its series; equal places keep the order of the rows.
    """
    import numpy as np

    groups: dict[tuple[Any, str], list[int]] = {}
    for row, key in enumerate(zip(patients, series, strict=True)):
        groups.setdefault(key, []).append(row)
    middle = [sorted(rows, key=lambda row: positions[row])[len(rows) // 2] for rows in groups.values()]
    return np.array(sorted(middle), np.intp)


def reason_of(picture: ImageArray, kind: Modality) -> str:
    """Why an image is not compared under a model of a kind; empty if it is."""
    if picture.modality is None:
        return UNKNOWN
    return "" if picture.modality is kind else f"a {picture.modality}, and the model is for a {kind}"
