"""Markers within image data are found in any range and order of queries."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.formats.jpeg import scan
from medsanitize.sanitize.formats.jpeg.scan import MarkerIndex

BYTES = st.lists(st.sampled_from([0xFF, 0x00, 0xD0, 0xD7, 0xD8, 0xD9, 0xCF, 0xFE, 0x41]), max_size=120)
ASKED = st.lists(st.tuples(st.integers(0, 130), st.integers(0, 130)), max_size=12)
MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")


@given(BYTES.map(bytes), ASKED, st.integers(1, 40), st.integers(0, 8))
def test_the_first_marker_of_any_range_is_found(
    data: bytes, asked: list[tuple[int, int]], block: int, near: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_BLOCK", block)
        patch.setattr(scan, "_MAX_GAP", near)
        one = MarkerIndex(data)

        found = [one.first(start, min(stop, len(data))) for start, stop in asked]

    expected = [MARKER.search(data, start, stop) for start, stop in asked]
    assert found == [hit and hit.start() for hit in expected]


def test_adjacent_tiles_are_read_together() -> None:
    looked_at: list[int] = []

    class Told(bytes):
        def __getitem__(self, place: slice) -> bytes:  # type: ignore[override]
            looked_at.append(place.start)
            return bytes.__getitem__(self, place)

    data = Told(b"\xff\x00pixels\xff\xd9" * 1000)
    one = MarkerIndex(data)

    ends = [one.first(start, start + 10) for start in range(0, len(data), 10)]

    assert ends == list(range(8, len(data), 10))
    assert len(looked_at) <= 2
