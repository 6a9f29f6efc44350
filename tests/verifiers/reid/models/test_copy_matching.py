"""Copy matching: regions that agree at one displacement, mirrored and enlarged views, and local contrast."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.verifiers.reid.models.copy_matching import REACH, REGION, SIMILARITIES, CopyMatching
from medsanitize.verifiers.reid.models.radiograph_normalization import SPAN, local_contrast
from numpy.typing import NDArray

GRID, CHANNELS = 10, 24
MATCHING = CopyMatching(CHANNELS, CHANNELS, GRID)
Cells = NDArray[np.float32]


def cells(seed: int) -> Cells:
    """Random cells of unit length, (channels, grid, grid)."""
    found = np.random.default_rng(seed).normal(size=(CHANNELS, GRID, GRID))
    return np.asarray(found / np.linalg.norm(found, axis=0), np.float32)


def vector(plain: Cells, enlarged: Cells, fine: Cells) -> Cells:
    return np.concatenate([one.reshape(-1) for one in (plain, enlarged, fine)])[None]


def compared(one: Cells, other: Cells, enlarged: Cells | None = None) -> float:
    """Similarity of the network's cells; everything else is unrelated."""
    first = vector(one, cells(90), cells(91))
    second = vector(other, cells(92) if enlarged is None else enlarged, cells(93))
    return float(MATCHING.similarities(first, second)[0, 0])


def test_an_image_is_as_similar_to_itself_as_can_be() -> None:
    own = vector(cells(1), cells(2), cells(3))
    assert MATCHING.similarities(own, own) == pytest.approx(np.ones((1, SIMILARITIES)), abs=1e-5)


def test_a_region_within_another_image_is_found() -> None:
    image, other = cells(1), cells(2)
    other[:, :REGION, 3 : 3 + REGION] = image[:, :REGION, 3 : 3 + REGION]
    assert compared(image, other) == pytest.approx(1, abs=1e-5)
    assert compared(image, cells(2)) < 0.3


def test_cells_that_agree_at_different_displacements_are_no_region() -> None:
    image = cells(1)
    torn = image.copy()
    torn[:, ::2] = np.roll(image, 1, 2)[:, ::2]
    torn[:, 1::2] = np.roll(image, -1, 2)[:, 1::2]
    assert compared(image, torn) < 0.75


@pytest.mark.parametrize(("moved", "found"), [(REACH, True), (REACH + 1, False)])
def test_a_region_is_found_within_reach(moved: int, found: bool) -> None:
    image = cells(1)
    assert (compared(image, np.roll(image, moved, 1)) > 0.9) is found


def test_a_mirrored_copy_is_found() -> None:
    assert compared(cells(1), cells(1)[:, :, ::-1]) == pytest.approx(1, abs=1e-5)


def test_a_copy_is_compared_with_the_enlarged_original() -> None:
    assert compared(cells(1), cells(2), enlarged=cells(1)) == pytest.approx(1, abs=1e-5)


@settings(deadline=None, max_examples=8)
@given(st.integers(1, 12))
def test_a_pair_has_the_same_similarities_in_any_batch(count: int) -> None:
    one = np.concatenate([vector(cells(seed), cells(seed + 1), cells(seed + 2)) for seed in range(count)])
    other = np.concatenate([vector(cells(seed), cells(9), cells(8)) for seed in range(count)])
    together = MATCHING.similarities(one, other)
    alone = [MATCHING.similarities(one[[row]], other[[row]])[0] for row in range(count)]
    assert together == pytest.approx(np.array(alone), abs=1e-6)


def plane(seed: int = 0) -> Cells:
    from scipy.ndimage import gaussian_filter

    return np.asarray(
        0.5 + gaussian_filter(np.random.default_rng(seed).normal(size=(128, 128)), 3), np.float32
    )


def test_local_contrast_does_not_depend_on_the_rest_of_the_image() -> None:
    image, joined = plane(), plane()
    joined[:, 64:] = plane(1)[:, 64:]
    assert local_contrast(joined)[:, :32] == pytest.approx(local_contrast(image)[:, :32], abs=1e-3)


def test_local_contrast_does_not_depend_on_brightness_and_contrast() -> None:
    darker = np.asarray(plane() * 0.5 + 0.1, np.float32)
    # Not exactly equal: faint structures are not amplified.
    assert np.abs(local_contrast(darker) - local_contrast(plane())).max() < 0.06


def test_local_contrast_of_a_uniform_image_is_gray() -> None:
    assert local_contrast(np.full((64, 64), 0.3, np.float32)) == pytest.approx(0.5)
    assert SPAN > 0
