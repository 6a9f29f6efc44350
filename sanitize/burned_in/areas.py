"""Which areas of a frame are blanked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from medsanitize.policies.model import FixedRegion
from medsanitize.sanitize.burned_in.rendering import Picture
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from numpy.typing import NDArray

_ALIKE = 0.5
_FLAT = 2.0


def is_inside(inner: Area, outer: Area) -> bool:
    """Whether ``inner`` lies wholly in ``outer``."""
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def covered_fraction(one: Area, other: Area) -> float:
    """The part of ``one`` that ``other`` covers, 0 to 1."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    whole = (one[2] - one[0]) * (one[3] - one[1])
    return width * height / whole if width > 0 and height > 0 and whole > 0 else 0.0


def merge_areas(areas: Iterable[Area]) -> tuple[Area, ...]:
    """The areas in order of place, without those that lie in another."""
    unique = sorted(set(areas))
    return tuple(one for one in unique if not any(other != one and is_inside(one, other) for other in unique))


def join_overlapping(areas: Iterable[Area]) -> tuple[Area, ...]:
    """One area around all that overlap, so that no part of a frame lies in two."""
    apart: list[Area] = []
    for area in sorted(areas):
        while touching := [one for one in apart if covered_fraction(one, area) > 0]:
            apart = [one for one in apart if one not in touching]
            lefts, tops, rights, bottoms = zip(area, *touching, strict=True)
            area = (min(lefts), min(tops), max(rights), max(bottoms))
        apart.append(area)
    return tuple(sorted(apart))


def areas_outside(kept: Sequence[Area], shape: tuple[int, int]) -> tuple[Area, ...]:
    """All of a frame of ``shape`` (rows, columns) but the areas in ``kept``, as areas that do not overlap."""
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
    """Areas blanked in one frame, found again in frames that show the same there.

    Text that stands still over a moving image is not read alike in every frame.
    """

    _patches: dict[Area, NDArray[np.float32]] = field(default_factory=dict)

    def add(self, area: Area, picture: Picture) -> None:
        """Remember what a frame shows in ``area`` before it is blanked."""
        if not any(is_inside(area, known) for known in self._patches):
            self._patches[area] = _normalised(picture, area)

    def seen_in(self, picture: Picture) -> list[Area]:
        """The areas in which ``picture`` shows what was remembered."""
        found = []
        for area, patch in self._patches.items():
            here = _normalised(picture, area)
            if patch.size and float((patch * here).mean()) >= _ALIKE:
                found.append(area)
        return found


def _normalised(picture: Picture, area: Area) -> NDArray[np.float32]:
    """A patch with mean 0 and deviation 1; zeros where it is flat."""
    left, top, right, bottom = area
    patch = picture[top:bottom, left:right].astype(np.float32)
    spread = float(patch.std()) if patch.size else 0.0
    if spread < _FLAT:
        return np.zeros_like(patch)
    return np.asarray((patch - patch.mean()) / spread, np.float32)


def fixed_areas(
    regions: Sequence[FixedRegion], maker: str, model: str, modality: str, geometry: Geometry
) -> tuple[Area, ...]:
    """The policy's areas for this kind of device and image, within the frame."""
    found = []
    for region in regions:
        texts = ((region.manufacturer, maker), (region.model, model), (region.modality, modality))
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
