"""What the text detector is shown of a picture."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.burned_in.detector_tiles import BLOCK, text_tiles
from numpy.typing import NDArray


@st.composite
def pictures(draw: st.DrawFn) -> NDArray[np.uint8]:
    """Grey ground with some bright points."""
    rows, columns = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    picture = np.full((rows * BLOCK, columns * BLOCK), 128, np.uint8)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, picture.shape[0] - 1)), draw(st.integers(0, picture.shape[1] - 1))
        picture[at] = 255
    return picture


@given(picture=pictures())
def test_every_point_is_shown(picture: NDArray[np.uint8]) -> None:
    shown = np.zeros(picture.shape, np.bool_)
    for area in text_tiles(picture):
        shown[area] = True
    assert shown[picture == 255].all()


@given(picture=pictures())
def test_no_part_is_larger_than_memory_allows(picture: NDArray[np.uint8]) -> None:
    assert all(0 < picture[area].size <= 1024 * 1024 for area in text_tiles(picture))


@given(picture=pictures())
def test_parts_have_sides_that_the_network_takes(picture: NDArray[np.uint8]) -> None:
    assert all(side % BLOCK == 0 for area in text_tiles(picture) for side in picture[area].shape)


def test_plain_ground_is_not_shown() -> None:
    assert not list(text_tiles(np.full((BLOCK, 4 * BLOCK), 7, np.uint8)))


def test_a_glyph_is_shown_with_the_ground_beside_it() -> None:
    picture = np.zeros((9 * BLOCK, 9 * BLOCK), np.uint8)
    picture[4 * BLOCK + 1, 6 * BLOCK + 1] = 255
    assert list(text_tiles(picture)) == [(slice(3 * BLOCK, 6 * BLOCK), slice(5 * BLOCK, 8 * BLOCK))]


def test_neighbouring_parts_share_room_for_a_line() -> None:
    picture = np.tile(np.array([0, 255], np.uint8), (2048, 512))
    first, second, *_ = sorted(rows.indices(2048)[:2] for rows, _ in text_tiles(picture))
    assert first[1] - second[0] == 4 * BLOCK


def test_ground_that_differs_a_little_is_plain() -> None:
    assert not list(text_tiles(np.tile(np.array([100, 123], np.uint8), (BLOCK, BLOCK // 2))))
