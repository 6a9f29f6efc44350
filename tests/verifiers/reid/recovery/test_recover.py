"""Embeddings are recovered from inner products: exactly, or better with each known row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.verifiers.reid.recovery.recover import (
    align_axes,
    coordinates_of,
    recover_from_gram,
    recover_from_scores,
)
from medsanitize.verifiers.reid.recovery.recovered import judge
from numpy.typing import NDArray

pytestmark = pytest.mark.verify

Vectors = NDArray[np.float64]


def population(count: int, dimension: int, seed: int) -> Vectors:
    """Vectors of unit length of one population: axes of decreasing variance, skewed, in a fixed rotation."""
    fixed = np.random.default_rng(0)
    rotation = np.linalg.qr(fixed.standard_normal((dimension, dimension)))[0]
    spread = 0.8 ** np.arange(dimension)
    drawn = np.random.default_rng(seed).exponential(size=(count, dimension)) * spread
    rows: Vectors = drawn @ rotation
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def success(estimates: Vectors, truth: Vectors, known: int) -> tuple[float, float]:
    told = judge(
        estimates, truth, np.arange(known, len(truth)), scheme="", attacker="", known=known, claim=""
    )
    return told.share, told.relative_error


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 24), st.integers(0, 10_000))
def test_as_many_scores_as_numbers_recover_every_embedding(dimension: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    truth, queries, others = (random.standard_normal((count, dimension)) for count in (40, dimension + 8, 60))
    share, error = success(recover_from_scores(truth @ queries.T, queries, others), truth, 0)
    assert (share, error < 1e-6) == (1, True)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 24), st.integers(0, 10_000))
def test_a_gram_matrix_gives_its_rows_up_to_a_rotation(dimension: int, seed: int) -> None:
    truth = np.random.default_rng(seed).standard_normal((40, dimension))
    found = coordinates_of(truth @ truth.T, dimension)
    assert np.allclose(found @ found.T, truth @ truth.T)


def test_each_known_row_recovers_more() -> None:
    truth, others = population(200, 64, 1), population(200, 64, 2)
    shares = []
    for count in (5, 10, 20, 40):
        known = np.arange(count)
        estimates = recover_from_gram(truth @ truth.T, known, truth[known], others)
        shares.append(success(estimates, truth, count)[0])
    assert shares == sorted(shares)
    assert shares[0] > 0.05
    assert shares[-1] > 0.95


def test_without_a_known_row_other_peoples_images_tell_the_axes() -> None:
    truth, others = population(300, 16, 1), population(300, 16, 2)
    share, _ = success(recover_from_gram(truth @ truth.T, np.arange(0), truth[:0], others), truth, 0)
    assert share > 0.2


def test_a_population_without_axes_is_not_recovered_without_a_known_row() -> None:
    random = np.random.default_rng(3)
    truth, others = random.standard_normal((300, 64)), random.standard_normal((300, 64))
    told = judge(
        recover_from_gram(truth @ truth.T, np.arange(0), truth[:0], others),
        truth, np.arange(300), scheme="", attacker="", known=0, claim="",
    )  # fmt: skip
    assert not told.is_above_chance(1)


def test_fewer_rows_than_numbers_are_aligned_too() -> None:
    rows = population(5, 16, 1)
    assert align_axes(coordinates_of(rows @ rows.T, 16), population(40, 16, 2)).shape == (5, 16)


def test_an_estimate_counts_if_the_truth_is_nearest_to_it() -> None:
    truth = np.eye(4)
    estimates = np.array([[2.0, 0, 0, 0], [1, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    told = judge(estimates, truth, np.array([0, 1, 2]), scheme="", attacker="", known=1, claim="")
    assert (told.recovered, told.rows, told.chance) == (1, 3, 0.25)
    assert told.lower < told.share < told.upper
    assert told.relative_error == pytest.approx(1)


def test_equal_images_are_one_truth() -> None:
    truth = np.array([[1.0, 0], [1, 0], [0, 1]])
    told = judge(truth, truth, np.arange(3), scheme="", attacker="", known=0, claim="")
    assert told.recovered == 3
