"""Geometry of the areas of a frame that are blanked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from medsanitize.policies.model import FixedRegion
from medsanitize.sanitize.burned_in.device import Device, known_regions
from medsanitize.sanitize.burned_in.rendering import Picture
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from medsanitize.sanitize.formats.ground import mask_of
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

# How much larger the area around two areas may be than both together, for them to be one.
_NEARLY = 1.2
# Least correlation of two patches with the same content.
_ALIKE = 0.5
# Standard deviation (gray values) below which a patch shows nothing to recognize.
_FLAT = 2.0
# Largest part of a frame that the table of devices blanks: its sources knew no frame as small as that.
_MOST_KNOWN = 0.4


def is_inside(inner: Area, outer: Area) -> bool:
    """Return whether ``inner`` is completely inside ``outer``."""
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def covered_fraction(one: Area, other: Area) -> float:
    """Return the fraction of ``one`` that ``other`` covers, 0 to 1."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    whole = (one[2] - one[0]) * (one[3] - one[1])
    return width * height / whole if width > 0 and height > 0 and whole > 0 else 0.0


def merge_areas(areas: Iterable[Area]) -> tuple[Area, ...]:
    """Sort areas, remove those that are inside another one, and join those that nearly are one area."""
    unique = sorted(set(areas))
    if not unique:
        return ()
    left, top, right, bottom = np.array(unique).T
    inside = [
        ((left <= one[0]) & (top <= one[1]) & (right >= one[2]) & (bottom >= one[3])).sum() > 1
        for one in unique
    ]
    return _joined([one for one, within in zip(unique, inside, strict=True) if not within])


def _joined(areas: list[Area]) -> tuple[Area, ...]:
    """Replace overlapping or touching areas by the one around them if it is hardly larger than both."""
    apart: list[Area] = []
    for area in areas:
        while similar := next((one for one in apart if _is_one(one, area)), None):
            apart.remove(similar)
            area = (
                min(similar[0], area[0]),
                min(similar[1], area[1]),
                max(similar[2], area[2]),
                max(similar[3], area[3]),
            )
        apart.append(area)
    return tuple(sorted(apart))


def _is_one(one: Area, other: Area) -> bool:
    width, height = (
        min(one[2], other[2]) - max(one[0], other[0]),
        min(one[3], other[3]) - max(one[1], other[1]),
    )
    if min(width, height) < 0 or max(width, height) <= 0:
        return False
    both = sum((area[2] - area[0]) * (area[3] - area[1]) for area in (one, other)) - width * height
    around = (max(one[2], other[2]) - min(one[0], other[0])) * (max(one[3], other[3]) - min(one[1], other[1]))
    # Strips that touch along a whole side are one area; others that touch follow a slanted line.
    return around <= (_NEARLY if min(width, height) else 1) * both


def around_touching(areas: Iterable[Area]) -> tuple[Area, ...]:
    """Return the areas around groups of areas that overlap or touch, such as the strips of a slanted line."""
    grown = [(left, top, right + 1, bottom + 1) for left, top, right, bottom in areas]
    return tuple((left, top, right - 1, bottom - 1) for left, top, right, bottom in join_overlapping(grown))


def join_overlapping(areas: Iterable[Area]) -> tuple[Area, ...]:
    """Replace overlapping areas by the area around them, until no two overlap."""
    apart: list[Area] = []
    for area in sorted(areas):
        while touching := [one for one in apart if covered_fraction(one, area) > 0]:
            apart = [one for one in apart if one not in touching]
            lefts, tops, rights, bottoms = zip(area, *touching, strict=True)
            area = (min(lefts), min(tops), max(rights), max(bottoms))
        apart.append(area)
    return tuple(sorted(apart))


def areas_outside(kept: Sequence[Area], shape: tuple[int, int]) -> tuple[Area, ...]:
    """Return the complement of areas as areas that do not overlap.

    Parameters
    ----------
    kept : sequence of Area
    shape : tuple of int
        Rows and columns of the frame.
    """
    rows, columns = shape
    edges = sorted({0, rows, *(min(max(y, 0), rows) for one in kept for y in (one[1], one[3]))})
    found: list[Area] = []
    for top, bottom in pairwise(edges):
        covered = sorted((one[0], one[2]) for one in kept if one[1] <= top and one[3] >= bottom)
        at = 0
        for left, right in [*covered, (columns, columns)]:
            if left > at:
                found.append((at, top, min(left, columns), bottom))
            at = max(at, right)
    return tuple(found)


@dataclass(slots=True)
class RepeatedAreas:
    """Areas blanked in one frame, found in other frames with the same content.

    Static text over a moving image may be legible in some frames only, but must be blanked in all of them.
    """

    _patches: dict[Area, NDArray[np.float32]] = field(default_factory=dict)

    def add(self, area: Area, picture: Picture) -> None:
        """Store the content of ``area`` before it is blanked."""
        if not any(is_inside(area, known) for known in self._patches):
            self._patches[area] = _normalized(picture, area)

    def seen_in(self, picture: Picture) -> list[Area]:
        """Return the areas in which ``picture`` has the stored content."""
        found = []
        for area, patch in self._patches.items():
            here = _normalized(picture, area)
            if patch.size and float((patch * here).mean()) >= _ALIKE:
                found.append(area)
        return found


def _normalized(picture: Picture, area: Area) -> NDArray[np.float32]:
    """Return a patch with mean 0 and standard deviation 1; zeros if it is flat."""
    left, top, right, bottom = area
    patch = picture[top:bottom, left:right].astype(np.float32)
    spread = float(patch.std()) if patch.size else 0.0
    if spread < _FLAT:
        return np.zeros_like(patch)
    return np.asarray((patch - patch.mean()) / spread, np.float32)


def fixed_areas(regions: Sequence[FixedRegion], device: Device, geometry: Geometry) -> tuple[Area, ...]:
    """Return the areas that the policy blanks for a device, clipped to the frame.

    Parameters
    ----------
    regions : sequence of FixedRegion
    device : Device
        Of the object; compared without regard to case.
    geometry : Geometry
    """
    found = []
    for region in regions:
        texts = (
            (region.manufacturer, device.manufacturer),
            (region.model, device.model),
            (region.software, device.software),
            (region.modality, device.modality),
            (region.image_type, device.image_type),
        )
        numbers = ((region.rows, geometry.rows), (region.columns, geometry.columns))
        if any(want is not None and want.casefold() != has.casefold() for want, has in texts):
            continue
        if any(want is not None and want != has for want, has in numbers):
            continue
        for left, top, width, height in region.boxes:
            right, bottom = min(left + width, geometry.columns), min(top + height, geometry.rows)
            if max(left, 0) < right and max(top, 0) < bottom:
                found.append((max(left, 0), max(top, 0), right, bottom))
    return tuple(found)


def known_areas(device: Device, geometry: Geometry) -> tuple[Area, ...]:
    """Return the areas in which the table of devices has text, clipped to the frame.

    Parameters
    ----------
    device : Device
    geometry : Geometry

    Raises
    ------
    Quarantined
        ``device-region-too-large`` if they take so much of the frame that the table cannot mean it.
    """
    regions = known_regions(device, geometry.rows, geometry.columns)
    areas = fixed_areas(regions, Device(), geometry)
    if areas and float(mask_of(areas, (geometry.rows, geometry.columns)).mean()) > _MOST_KNOWN:
        raise Quarantined("device-region-too-large", "pixels")
    return areas
