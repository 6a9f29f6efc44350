"""Patients in both datasets stand out among the strangers of these datasets; chance seldom does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from medsanitize.verifiers.reid.overlap.excess import Excess, Matches, excess_of
from numpy.typing import NDArray

SIDE, EACH, DIMENSION = 40, 2, 24


def matches(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    return -np.linalg.norm(one[:, None] - other[None], axis=2)


def images(
    draw: np.random.Generator, centers: NDArray[Any], noise: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    people = np.repeat(np.arange(len(centers)), EACH)
    return centers[people] + noise * draw.normal(size=(len(people), DIMENSION)), people


def outcome_of(seed: int, shared: int = 0, *, noise: float = 0.5, shift: float = 0.0) -> Excess:
    """Two datasets of patients who are points, ``shared`` of them the same."""
    draw = np.random.default_rng(seed)
    first, second = draw.normal(size=(2, SIDE, DIMENSION))
    second[:shared] = first[:shared]
    (a, ours), (b, theirs) = images(draw, first, noise), images(draw, second + shift, noise)
    return excess_of(Matches((matches(a, a), matches(b, b)), matches(a, b)), (ours, theirs))


def test_without_a_shared_patient_few_results_are_significant() -> None:
    assert sum(outcome_of(seed).significant for seed in range(100)) <= 3


def test_the_pairs_behind_a_result_are_the_shared_patients() -> None:
    found = outcome_of(1, shared=2, noise=0.2)
    assert found.significant
    assert {(one // EACH, other // EACH) for one, other in found.pairs} <= {(0, 0), (1, 1)}


@pytest.mark.parametrize("seed", range(3))
def test_datasets_of_different_origin_only_make_the_test_more_careful(seed: int) -> None:
    assert outcome_of(seed, shift=0.5).p_value >= 0.5


def test_one_patient_who_resembles_everybody_is_no_overlap() -> None:
    draw = np.random.default_rng(5)
    first, second = draw.normal(size=(2, SIDE, DIMENSION))
    # The mean patient is nearer to everybody than anybody else is.
    first[0] = 0
    (a, ours), (b, theirs) = images(draw, first, 0.5), images(draw, second, 0.5)
    found = excess_of(Matches((matches(a, a), matches(b, b)), matches(a, b)), (ours, theirs))
    assert not found.significant


def test_two_patients_of_a_rare_kind_of_image_are_no_overlap() -> None:
    draw = np.random.default_rng(8)
    first, second = draw.normal(size=(2, SIDE, DIMENSION))
    # Unlike everybody, and alike.
    first[0] = second[0] = 2.5
    second[0] += 0.2 * draw.normal(size=DIMENSION)
    (a, ours), (b, theirs) = images(draw, first, 0.2), images(draw, second, 0.2)
    found = excess_of(Matches((matches(a, a), matches(b, b)), matches(a, b)), (ours, theirs))
    assert not found.significant


def test_too_few_strangers_decide_nothing() -> None:
    draw = np.random.default_rng(6)
    a, ours = images(draw, draw.normal(size=(5, DIMENSION)), 0.1)
    found = excess_of(Matches((matches(a, a), matches(a, a)), matches(a, a)), (ours, ours))
    assert (found.p_value, found.pairs) == (1.0, ())


def test_exchanging_the_datasets_changes_nothing() -> None:
    draw = np.random.default_rng(7)
    (a, ours), (b, theirs) = (images(draw, draw.normal(size=(SIDE, DIMENSION)), 0.5) for _ in range(2))
    inside, across = (matches(a, a), matches(b, b)), matches(a, b)
    forth = excess_of(Matches(inside, across), (ours, theirs))
    back = excess_of(Matches(inside[::-1], across.T), (theirs, ours))
    assert forth.p_value == pytest.approx(back.p_value)
    assert [(j, i) for i, j in back.pairs] == list(forth.pairs)
