"""Blanked areas have the value of the ground around them, which no ink decides."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.sanitize.formats.ground import (
    _flat_rows,
    fill_with_ground,
    flat_value,
    is_uniform,
    mask_of,
    tolerance_of,
    touching_groups,
)
from medsanitize.sanitize.formats.jpeg.dct import blank_blocks
from numpy.typing import NDArray
from PIL import Image

AREAS = [(16, 16, 80, 32), (72, 24, 96, 48), (8, 72, 40, 88)]
GROUND = (20, 60, 160)


def page(seed: int, *, ground: tuple[int, ...] = GROUND) -> NDArray[np.uint8]:
    """A flat page with random ink in the areas."""
    made = np.full((112, 128, 3), ground, np.uint8)
    for left, top, right, bottom in AREAS:
        ink = np.random.default_rng(seed).integers(0, 256, (bottom - top, right - left, 1))
        made[top:bottom, left:right] = ink
    return made


def jpeg(picture: NDArray[np.uint8], **options: object) -> bytes:
    stream = BytesIO()
    Image.fromarray(picture).save(stream, "JPEG", quality=90, **options)
    return stream.getvalue()


def decoded(data: bytes) -> NDArray[np.int16]:
    return np.asarray(Image.open(BytesIO(data))).astype(np.int16)


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(0, 99), st.sampled_from([0, 8]))
def test_the_value_does_not_depend_on_the_ink(one: int, other: int, tolerance: int) -> None:
    rng = np.random.default_rng(one)
    ground = tuple(int(value) for value in rng.integers(0, 256, 3))

    first, second = (
        fill_with_ground(page(seed, ground=ground), AREAS, 0, tolerance=tolerance) for seed in (one, other)
    )

    assert np.array_equal(first, second)
    assert (first == ground).all()


def test_pixels_that_are_withheld_do_not_decide_the_value() -> None:
    gray = np.full((20, 20), 50, np.uint8)
    gray[:, 10:] = 90

    new = fill_with_ground(gray, [(8, 5, 10, 15)], 0, tolerance=0, withheld=gray == 90)

    assert (new[:, :10] == 50).all()


@pytest.mark.parametrize("turned", [False, True])
def test_where_two_grounds_meet_each_part_gets_the_one_beside_it(turned: bool) -> None:
    header = np.full((64, 128), 60, np.uint8)
    header[24:] = np.random.default_rng(6).integers(0, 256, (40, 128))
    header[6:18, 20:60] = 200
    area = (16, 2, 64, 30)
    frame, areas = (header.T.copy(), [(2, 16, 30, 64)]) if turned else (header, [area])

    new = fill_with_ground(frame, areas, 0, tolerance=8)
    new = new.T if turned else new

    assert np.unique(new[2:24, 16:64]).tolist() == [60]
    assert np.unique(new[24:30, 16:64]).tolist() == [0]


@given(st.integers(0, 99), st.integers(0, 99))
def test_what_is_blanked_depends_on_the_rest_only(one: int, other: int) -> None:
    rest = np.random.default_rng(7).integers(0, 256, (112, 128, 1)) // 40 * 40
    rest[:30] = 60
    first, second = (
        np.where(page(seed) == GROUND, rest, page(seed)).astype(np.uint8) for seed in (one, other)
    )
    outside = ~mask_of(AREAS, first.shape)
    first[outside] = second[outside] = rest.repeat(3, axis=2)[outside]

    assert np.array_equal(*(fill_with_ground(made, AREAS, 0, tolerance=8) for made in (first, second)))


def test_anatomy_gets_the_fallback() -> None:
    anatomy = np.random.default_rng(3).integers(0, 4096, (60, 60)).astype(np.uint16)

    new = fill_with_ground(anatomy, [(10, 10, 40, 20)], 7, tolerance=tolerance_of(12, indexed=False))

    assert np.unique(new[10:20, 10:40]).tolist() == [7]


def test_a_neighboring_letter_does_not_change_the_value() -> None:
    gray = np.full((40, 80), 50, np.uint8)
    gray[20:30, 10:16] = 255

    new = fill_with_ground(gray, [(10, 8, 70, 20)], 0, tolerance=0)

    assert np.unique(new[8:20, 10:70]).tolist() == [50]


def test_a_frame_that_is_blanked_completely_gets_the_fallback() -> None:
    assert not fill_with_ground(np.full((8, 8), 9, np.uint8), [(0, 0, 8, 8)], 0, tolerance=8).any()


def test_not_a_number_is_no_ground() -> None:
    values = np.full((20, 20), np.nan, np.float32)

    assert fill_with_ground(values, [(5, 5, 10, 10)], -1.0, tolerance=0)[7, 7] == -1


def test_areas_that_touch_share_one_value_and_others_do_not() -> None:
    assert touching_groups([(0, 0, 4, 4), (4, 4, 6, 6), (9, 0, 10, 4)]) == [
        [(0, 0, 4, 4), (4, 4, 6, 6)],
        [(9, 0, 10, 4)],
    ]


def test_an_area_that_is_not_flat_is_not_uniform() -> None:
    gray = np.zeros((9, 9), np.uint8)
    assert is_uniform(gray, [(1, 1, 4, 4)])
    gray[2, 2] = 1
    assert not is_uniform(gray, [(1, 1, 4, 4)])


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.pixels
def test_blocks_of_a_jpeg_get_the_ground_whatever_the_ink(subsampling: str) -> None:
    first, second = (
        blank_blocks(jpeg(page(seed), subsampling=subsampling), AREAS, white=False) for seed in (1, 2)
    )

    assert np.array_equal(decoded(first)[:64], decoded(second)[:64])
    # Ink also colors the other half of its unit; one pixel beyond, decoders interpolate chroma.
    assert np.abs(decoded(first)[:48] - np.array(GROUND)).max() <= 3


@pytest.mark.pixels
def test_rows_of_blocks_of_a_jpeg_get_the_ground_beside_them() -> None:
    picture = np.full((112, 128), 60, np.uint8)
    picture[32:] = np.random.default_rng(8).integers(0, 256, (80, 128))
    picture[6:18, 20:60] = 200

    new = decoded(blank_blocks(jpeg(picture), [(16, 0, 64, 40)], white=False))

    assert np.abs(new[:32, 16:64] - 60).max() <= 1
    assert not new[32:40, 16:64].any()


@pytest.mark.pixels
def test_blocks_of_a_jpeg_on_anatomy_become_black() -> None:
    anatomy = np.random.default_rng(4).integers(0, 256, (112, 128), np.uint8)

    new = decoded(blank_blocks(jpeg(anatomy), [(16, 16, 80, 32)], white=False))

    assert not new[16:32, 16:80].any()


@pytest.mark.pixels
def test_blocks_of_a_gray_jpeg_get_the_gray_around_them() -> None:
    gray = page(5)[:, :, 0]

    new = decoded(blank_blocks(jpeg(gray), AREAS, white=False))

    assert np.abs(new - GROUND[0]).max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
def test_where_two_grounds_meet_each_row_gets_the_one_beside_it(channels: int) -> None:
    made = np.full((40, 60, channels), 20, np.uint8)
    made[20:] = 90
    before = made if channels > 1 else made[:, :, 0]
    inked = before.copy()
    inked[12:28, 10:50] = 255

    after = fill_with_ground(inked, [(10, 12, 50, 28)], 0, tolerance=8)

    assert np.array_equal(after, before)


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.uint8, np.int16, np.uint16, np.float32]))
def test_the_grounds_of_all_rows_are_those_of_each(seed: int, kind: type) -> None:
    rng = np.random.default_rng(seed)
    shape = (6, 12, 3) if rng.integers(2) else (6, 12)
    samples = rng.integers(0, 4, shape).astype(kind)
    samples[:, :9] = samples[0, 0]
    near, tolerance = rng.random((6, 12)) < rng.random(), 1 if kind is np.uint8 else 0

    levels, flat = _flat_rows(samples, near, tolerance)

    each = [flat_value(row[marked], tolerance) for row, marked in zip(samples, near, strict=True)]
    assert flat.tolist() == [one is not None for one in each]
    assert all(np.array_equal(one, level) for one, level in zip(each, levels, strict=True) if one is not None)
