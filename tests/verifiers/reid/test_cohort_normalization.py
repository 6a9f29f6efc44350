"""Matches in deviations from the matches with strangers of the same dataset."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.cohort_normalization import (
    FEWEST_STRANGERS,
    within_dataset,
)
from numpy.typing import NDArray


def matches_of(patients: NDArray[np.int64], *, genuine: float, seed: int = 0) -> NDArray[np.float64]:
    """Symmetric matches: strangers around 0 with deviation 1, images of one patient ``genuine`` higher."""
    drawn = np.random.default_rng(seed).normal(size=(len(patients), len(patients)))
    return (drawn + drawn.T) / 2**0.5 + genuine * (patients[:, None] == patients)


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100), st.floats(-100, 100))
def test_scale_and_offset_of_the_raw_match_change_no_score(seed: int, scale: float, offset: float) -> None:
    patients = np.repeat(np.arange(20), 2)
    matches = matches_of(patients, genuine=4.0, seed=seed)

    assert np.allclose(
        within_dataset(scale * matches + offset, patients), within_dataset(matches, patients), atol=1e-4
    )


def test_exchanging_the_two_images_changes_nothing() -> None:
    patients = np.repeat(np.arange(20), 2)
    matches = matches_of(patients, genuine=4.0)

    scores = within_dataset(matches, patients)

    assert np.array_equal(scores, scores.T)


def test_one_threshold_gives_two_hospitals_the_same_false_match_rate() -> None:
    """Strangers look alike at the second hospital, whose raw matches all exceed those of the first."""
    rates = []
    for seed, scale, offset in ((1, 1.0, 0.0), (2, 0.2, 50.0)):
        patients = np.arange(400)
        scores = within_dataset(scale * matches_of(patients, genuine=0.0, seed=seed) + offset, patients)
        rates.append(float((scores[np.triu_indices(400, 1)] >= 3.0).mean()))

    assert rates[0] == pytest.approx(rates[1], rel=0.25)
    assert rates[0] > 0


@pytest.mark.parametrize("people", [32, 48, 400])
def test_a_small_dataset_accepts_no_more_strangers_than_a_large_one(people: int) -> None:
    """Few strangers must not make a deviation small by chance."""
    large = within_dataset(matches_of(np.arange(1000), genuine=0.0, seed=99), np.arange(1000))
    threshold = np.quantile(large[np.triu_indices(1000, 1)], 0.99)
    accepted = []
    for seed in range(40):
        scores = within_dataset(matches_of(np.arange(people), genuine=0.0, seed=seed), np.arange(people))
        accepted.append((scores[np.triu_indices(people, 1)] >= threshold).mean())

    assert np.mean(accepted) <= 0.02


def test_the_images_of_a_patient_do_not_count_among_the_patients_strangers() -> None:
    """A patient with a dozen images is a large part of a small dataset."""
    patients = np.array([0] * 12 + list(range(1, 41)))
    strangers = patients[:, None] != patients

    alike, equal = (within_dataset(matches_of(patients, genuine=high), patients) for high in (9.0, 0.0))

    assert np.allclose(alike[strangers], equal[strangers])


def test_an_image_that_resembles_nobody_has_no_bonus() -> None:
    """Two images of a rare kind are alike, and unlike all others."""
    patients = np.arange(60)
    matches = matches_of(patients, genuine=0.0)
    matches[:2, 2:] -= 6
    matches[2:, :2] -= 6

    free, bounded = (within_dataset(matches, patients, least=least) for least in (0.0, 0.3))

    assert free[0, 1] > np.quantile(free[2:, 2:], 0.999)
    assert bounded[0, 1] < np.quantile(bounded[2:, 2:], 0.95)


@pytest.mark.parametrize("seed", range(5))
def test_strangers_of_a_pair_are_the_nearest_images_of_third_patients(seed: int) -> None:
    patients = np.random.default_rng(seed).integers(0, 12, 75)
    matches = matches_of(patients, genuine=2.0, seed=seed)
    strange = patients[:, None] != patients

    def nearest(row: int, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.sort(matches[row][chosen])[-math.ceil(chosen.sum() / 2) :]

    typical = np.mean([nearest(row, strange[row]).var() for row in range(len(patients))])
    expected = []
    for row in (0, -1):
        strangers = nearest(row, strange[0] & strange[-1])
        steady = (len(strangers) * strangers.var() + 10 * typical) / (len(strangers) + 10)
        expected.append((matches[0, -1] - strangers.mean()) / steady**0.5)

    assert within_dataset(matches, patients)[0, -1] == pytest.approx(np.mean(expected))


def test_too_few_strangers_are_refused_with_the_number_that_is_needed() -> None:
    patients = np.arange(FEWEST_STRANGERS)

    with pytest.raises(UsageError, match=f"{FEWEST_STRANGERS} are needed"):
        within_dataset(matches_of(patients, genuine=0.0), patients)


def test_equal_matches_give_finite_scores() -> None:
    matches = np.ones((40, 40))

    assert np.isfinite(within_dataset(matches, np.arange(40))).all()
