"""Plane and rescale of every frame of a single-frame or enhanced multi-frame object."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.sanitize.faces.slice_geometry import Plane, read_plane
from pydicom.dataset import Dataset

# What pydicom raises when it converts malformed values.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


class UnreadableSlice(Exception):
    """The header or the pixels cannot be read; contains no value."""


@dataclass(frozen=True, slots=True)
class FramePlane:
    """Plane of one frame, and its Rescale Slope and Intercept; None where they are not stated."""

    plane: Plane | None
    rescale: tuple[float, float] | None


def read_frame_planes(header: Dataset) -> list[FramePlane]:
    """Read the plane and rescale of every frame of an object (PS3.3 C.7.6.2, C.7.6.16).

    Parameters
    ----------
    header : pydicom.Dataset

    Returns
    -------
    list of FramePlane
        In the order of the frames.

    Raises
    ------
    UnreadableSlice
        The header cannot be read.
    """
    try:
        shared = _first(header, "SharedFunctionalGroupsSequence")
        own = header.get("PerFrameFunctionalGroupsSequence") or []
        count = max(1, int(header.get("NumberOfFrames") or 1))
        rows, columns = int(header.get("Rows") or 0), int(header.get("Columns") or 0)
        if count > 1 and count != len(own):
            # Without functional groups the frames have no positions.
            return [FramePlane(None, _rescale([header]))] * count
        # In order of precedence: the groups of the frame, the shared groups, the top level.
        sources = [[own[i] if own else None, shared, header] for i in range(count)]
        return [_frame([one for one in each if one is not None], rows, columns) for each in sources]
    except _UNREADABLE:
        raise UnreadableSlice from None


def _frame(sources: list[Dataset], rows: int, columns: int) -> FramePlane:
    position, orientation, spacing = (
        next(filter(None, (_values(source, group, keyword) for source in sources)), [])
        for group, keyword in (
            ("PlanePositionSequence", "ImagePositionPatient"),
            ("PlaneOrientationSequence", "ImageOrientationPatient"),
            ("PixelMeasuresSequence", "PixelSpacing"),
        )
    )
    return FramePlane(read_plane(position, orientation, spacing, rows, columns), _rescale(sources))


def _rescale(sources: list[Dataset]) -> tuple[float, float] | None:
    for source in sources:
        slope = _values(source, "PixelValueTransformationSequence", "RescaleSlope")
        intercept = _values(source, "PixelValueTransformationSequence", "RescaleIntercept")
        if slope and intercept and slope[0]:
            return slope[0], intercept[0]
    return None


def _first(source: Dataset, keyword: str) -> Dataset | None:
    items = source.get(keyword)
    return items[0] if items else None


def _values(source: Dataset, group: str, keyword: str) -> list[float]:
    """Numbers of an attribute in its functional group, or at the top level."""
    value = (_first(source, group) or source).get(keyword)
    if value is None or value == "":
        return []
    if isinstance(value, (int, float, str)):
        return [float(value)]
    return [float(part) for part in value]
