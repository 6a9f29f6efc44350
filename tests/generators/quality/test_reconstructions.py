"""Resemblance of reconstructions: order does not count, and a guess is no success."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.generators.quality.reconstructions import matched, resemblance
from numpy.typing import NDArray

pytestmark = pytest.mark.verify


def chests(first: int, count: int) -> NDArray[np.float32]:
    made = [chest_phantom(one, 0, size=32) for one in range(first, first + count)]
    return np.stack(made).astype(np.float32)


def test_reconstructions_are_matched_in_any_order() -> None:
    images = chests(0, 4)
    places, alike = matched(images, images[[2, 0, 3, 1]])
    assert places.tolist() == [1, 3, 0, 2]
    assert alike == pytest.approx(1)


def test_only_more_than_a_guess_is_a_success() -> None:
    images, others = chests(0, 6), chests(10, 6)
    steps = [images[:3], images[3:]]
    noise = np.random.default_rng(0).random(images.shape).astype(np.float32)
    exact = resemblance([(one, one[::-1]) for one in steps], others)
    guessed = resemblance(
        [(one, others.mean(axis=0, keepdims=True).repeat(3, axis=0)) for one in steps], others
    )
    failed = resemblance([(steps[0], noise[:3]), (steps[1], noise[3:])], others)
    assert (exact.images, exact.reconstructed.value, exact.above_chance) == (6, pytest.approx(1), True)
    assert not guessed.above_chance
    assert not failed.above_chance
    assert guessed.reconstructed == guessed.mean
    assert failed.reconstructed.value < 0.2 < exact.others.value < 1
