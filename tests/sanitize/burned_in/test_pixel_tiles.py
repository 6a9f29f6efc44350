"""Tiles of a picture that the text detector gets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.burned_in.detector_tiles import BLOCK, text_tiles
from numpy.typing import NDArray


@st.composite
def pictures(draw: st.DrawFn) -> NDArray[np.uint8]:
    """Gray background with some bright points."""
    rows, columns = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    picture = np.full((rows * BLOCK, columns * BLOCK), 128, np.uint8)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, picture.shape[0] - 1)), draw(st.integers(0, picture.shape[1] - 1))
        picture[at] = 255
    return picture


@given(picture=pictures())
def test_every_pixel_is_in_a_tile(picture: NDArray[np.uint8]) -> None:
    shown = np.zeros(picture.shape, np.bool_)
    for area in text_tiles(picture):
        shown[area] = True
    assert shown[picture == 255].all()


@given(picture=pictures())
def test_no_tile_exceeds_the_memory_limit(picture: NDArray[np.uint8]) -> None:
    assert all(0 < picture[area].size <= 1024 * 1024 for area in text_tiles(picture))


@given(picture=pictures())
def test_tile_sizes_are_those_that_the_network_accepts(picture: NDArray[np.uint8]) -> None:
    assert all(side % BLOCK == 0 for area in text_tiles(picture) for side in picture[area].shape)


def test_uniform_background_is_not_in_a_tile() -> None:
    assert not list(text_tiles(np.full((BLOCK, 4 * BLOCK), 7, np.uint8)))


def test_a_glyph_is_in_a_tile_with_its_background() -> None:
    picture = np.zeros((9 * BLOCK, 9 * BLOCK), np.uint8)
    picture[4 * BLOCK + 1, 6 * BLOCK + 1] = 255
    assert list(text_tiles(picture)) == [(slice(112, 176), slice(176, 240))]


def test_a_square_in_question_is_in_a_tile_with_its_background() -> None:
    picture = np.tile(np.array([0, 255], np.uint8), (9 * BLOCK, 4 * BLOCK))
    where = np.zeros((18, 16), bool)
    where[8, 12] = True
    assert list(text_tiles(picture, where)) == [(slice(112, 176), slice(176, 240))]


def test_a_square_at_the_edge_of_a_picture_is_in_a_tile_inside_it() -> None:
    picture = np.tile(np.array([0, 255], np.uint8), (BLOCK, BLOCK))
    where = np.zeros((2, 4), bool)
    where[1, 3] = True
    assert list(text_tiles(picture, where)) == [(slice(0, 32), slice(32, 64))]


def test_neighboring_tiles_overlap_by_a_line() -> None:
    picture = np.tile(np.array([0, 255], np.uint8), (2048, 512))
    first, second, *_ = sorted(rows.indices(2048)[:2] for rows, _ in text_tiles(picture))
    assert first[1] - second[0] == 4 * BLOCK


def test_slightly_varying_background_is_uniform() -> None:
    assert not list(text_tiles(np.tile(np.array([100, 123], np.uint8), (BLOCK, BLOCK // 2))))
