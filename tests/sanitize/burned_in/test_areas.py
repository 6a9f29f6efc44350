"""Areas of a frame: overlapping ones are joined, so that no pixel is processed twice; those of a policy."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.model import FixedRegion
from medsanitize.sanitize.burned_in.areas import (
    around_touching,
    covered_fraction,
    fixed_areas,
    is_inside,
    join_overlapping,
    merge_areas,
)
from medsanitize.sanitize.burned_in.device import Device
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry

_PLACES = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 30), st.integers(1, 30))
AREAS = st.lists(_PLACES.map(lambda one: (one[0], one[1], one[0] + one[2], one[1] + one[3])), max_size=8)


@given(AREAS)
def test_joined_areas_do_not_overlap(areas: list[Area]) -> None:
    assert not any(covered_fraction(one, other) for one, other in combinations(join_overlapping(areas), 2))


@given(AREAS)
def test_every_area_is_inside_a_joined_one(areas: list[Area]) -> None:
    whole = join_overlapping(areas)
    assert all(any(is_inside(area, one) for one in whole) for area in areas)


def test_distant_areas_are_unchanged() -> None:
    assert join_overlapping([(30, 0, 40, 10), (0, 0, 10, 10)]) == ((0, 0, 10, 10), (30, 0, 40, 10))


def test_strips_of_one_width_are_one_area() -> None:
    assert merge_areas([(1, 4, 90, 8), (1, 0, 90, 4), (1, 8, 90, 12)]) == ((1, 0, 90, 12),)


def test_strips_that_follow_a_slanted_line_stay_apart() -> None:
    strips = ((1, 0, 40, 4), (9, 4, 48, 8))
    assert merge_areas(strips) == strips


def test_touching_strips_are_one_group() -> None:
    assert around_touching([(1, 0, 40, 4), (9, 4, 48, 8), (60, 0, 70, 4)]) == ((1, 0, 48, 8), (60, 0, 70, 4))


@pytest.mark.parametrize("field", ["manufacturer", "model", "software", "modality", "image_type"])
def test_a_region_of_the_policy_applies_only_if_each_stated_field_is_that_of_the_device(field: str) -> None:
    device = Device("ACME", "U-7", "US", "2.1\\B", "ORIGINAL\\PRIMARY")
    stated = {name: getattr(device, name) for name in ("manufacturer", "model", "software", "image_type")}
    region = FixedRegion(**stated, modality="US", boxes=((0, 0, 8, 9),))
    geometry = Geometry(20, 30, 1, 1, 8, 8, 7, False, "MONOCHROME2")

    assert fixed_areas([region], device, geometry) == ((0, 0, 8, 9),)
    assert fixed_areas([region], replace(device, **{field: "OTHER"}), geometry) == ()
