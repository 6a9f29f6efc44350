"""Blind extraction: repeated samples are grouped, and distances are relative to what is near."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.generators.privacy_gate.repeated_samples import (
    ALIKE,
    groups_of_repeated,
    near_to,
    nearest_patients,
)
from medsanitize.generators.privacy_gate.tile_distances import tile_distances
from numpy.typing import NDArray


def phantoms(first: int, count: int) -> NDArray[np.uint8]:
    planes = [chest_phantom(number, 0, size=32, seed=5) for number in range(first, first + count)]
    return np.rint(np.clip(np.stack(planes), 0, 1) * 255).astype(np.uint8)


def noisy(images: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Images as a generator repeats them: with other noise."""
    grain = np.random.default_rng(seed).normal(0, 3, images.shape)
    return np.rint(np.clip(images + grain, 0, 255)).astype(np.uint8)


def check() -> None:
    """Nobody cancels."""


@pytest.fixture(scope="module")
def people() -> NDArray[np.uint8]:
    return phantoms(0, 40)


def test_the_distance_is_that_of_the_tile_that_differs_most(people: NDArray[np.uint8]) -> None:
    changed = people[:1].copy()
    changed[0, 8:16, 8:16] = np.where(changed[0, 8:16, 8:16] > 127, 0, 255)
    whole = np.sqrt(np.square(changed[0].astype(float) - people[0]).mean())
    found = tile_distances(changed, people[:2], check)
    assert found[0, 0] == pytest.approx(4 * whole)
    assert tile_distances(people[:3], people[:3], check).diagonal().tolist() == [0, 0, 0]


def test_repeated_samples_are_grouped_and_others_are_not(people: NDArray[np.uint8]) -> None:
    samples = np.concatenate([people[2:], *(noisy(people[:2], seed) for seed in range(4))])
    groups = groups_of_repeated(tile_distances(samples, samples, check))
    assert (groups[:38] == -1).all()
    assert groups[38:].tolist() in ([0, 1] * 4, [1, 0] * 4)


def test_a_generator_that_repeats_two_images_only_is_seen(people: NDArray[np.uint8]) -> None:
    samples = np.concatenate([noisy(people[:2], seed) for seed in range(20)])
    groups = groups_of_repeated(tile_distances(samples, samples, check))
    assert np.bincount(groups).tolist() == [20, 20]


def test_too_few_samples_say_nothing(people: NDArray[np.uint8]) -> None:
    assert (groups_of_repeated(tile_distances(people[:5], people[:5], check)) == -1).all()


def test_a_copy_is_alike_and_a_stranger_is_not(people: NDArray[np.uint8]) -> None:
    samples = np.concatenate([noisy(people[:1], 1), phantoms(100, 20)])
    near = nearest_patients(tile_distances(samples, people, check), np.arange(40))
    assert near.rows[0] == 0
    assert (near.scores >= 1 - ALIKE).tolist() == [True] + [False] * 20


def test_further_images_of_a_patient_do_not_hide_a_copy(people: NDArray[np.uint8]) -> None:
    """Twelve images of one patient, nearly the same: their distances are no measure of what is near."""
    real = np.concatenate([people[1:], noisy(np.repeat(people[:1], 12, axis=0), 3)])
    patients = np.concatenate([np.arange(1, 40), np.zeros(12, np.int64)])
    copy = noisy(people[:1], 2)
    assert nearest_patients(tile_distances(copy, real, check), patients).scores[0] >= 1 - ALIKE
    own = near_to(tile_distances(copy, real, check), np.array([50]), patients)
    assert own.scores[0] >= 1 - ALIKE
    assert near_to(tile_distances(copy, real, check), np.array([3]), patients).scores[0] < 1 - ALIKE
