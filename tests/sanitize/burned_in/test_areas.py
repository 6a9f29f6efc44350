"""Areas of a frame: overlapping ones are joined, so that no pixel is processed twice."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.burned_in.areas import covered_fraction, is_inside, join_overlapping
from medsanitize.sanitize.formats.dicom.image_pixel import Area

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
