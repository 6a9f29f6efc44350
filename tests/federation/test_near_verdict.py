"""The verdict of a near comparison follows from what was opened and from the bounds of both parties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from medsanitize.federation.near.bounds import NearBound
from medsanitize.federation.near.embeddings import SCALE, limit_of, round_embeddings, rounding
from medsanitize.federation.near.process import Opened, Outcome
from medsanitize.federation.near.verdict import chance_of, conclude_near, most_shared

pytestmark = pytest.mark.verify
SIZES = (100, 1000)


def bound(miss: float = 0.04, matches: int = 0, strangers: int = 50_000, left_out: int = 0) -> NearBound:
    return NearBound(
        miss=miss,
        patients=100,
        source="compared_images",
        strangers=strangers,
        matches=matches,
        left_out=left_out,
    )


@pytest.mark.parametrize(
    ("outcome", "number", "bounds", "result", "most"),
    [
        ("bit", 0, (bound(), bound()), "exclusive", 0),
        ("count", 0, (bound(), bound(0.02)), "exclusive", 0),
        # A party whose patients are often missed can claim nothing.
        ("count", 0, (bound(), bound(0.3)), "inconclusive", 2),
        ("count", 0, (bound(), bound(left_out=1)), "inconclusive", 0),
        ("count", 0, (bound(), bound(1.0)), "inconclusive", None),
        # No strangers match: half of all pairs lie across, so that chance gives 10 in 0.1 % of comparisons.
        ("count", 10, (bound(), bound()), "overlapping", 12),
        ("count", 8, (bound(), bound()), "inconclusive", 10),
        ("count", 3, (bound(), bound()), "inconclusive", 4),
        ("count", 10, (bound(matches=5), bound(matches=5)), "inconclusive", 12),
        # One bit tells that somebody matches, not how many.
        ("bit", 1, (bound(), bound()), "inconclusive", None),
        ("bit", 1, (bound(strangers=10**8), bound()), "overlapping", None),
        ("patients", 10, (bound(), bound()), "overlapping", 12),
    ],
)
def test_verdict(
    outcome: Outcome,
    number: int,
    bounds: tuple[NearBound, NearBound],
    result: str,
    most: int | None,
) -> None:
    verdict = conclude_near("south", outcome, Opened(number), SIZES, bounds)
    assert (verdict.result, verdict.max_shared_patients) == (result, most)


def test_the_chance_of_matches_is_that_of_dealing_them_to_pairs_of_strangers() -> None:
    bounds = (bound(matches=3, strangers=20_000), bound(matches=2, strangers=80_000))
    share = 100_000 / 200_000
    exact = sum(math.comb(9, k) * share**k * (1 - share) ** (9 - k) for k in range(4, 10))
    assert chance_of(4, SIZES, bounds) == pytest.approx(exact)


def test_strangers_are_called_overlapping_as_seldom_as_stated() -> None:
    """2,000 comparisons of two parties without a patient in common."""
    draw, wrong = np.random.default_rng(0), 0
    for _ in range(2_000):
        rate = 10 ** draw.uniform(-6, -4)
        own = [bound(matches=int(draw.binomial(50_000, rate)), strangers=50_000) for _ in range(2)]
        found = Opened(int(draw.binomial(100_000, rate)))
        wrong += conclude_near("south", "count", found, SIZES, own).result == "overlapping"
    assert wrong <= 20


@pytest.mark.parametrize("miss", [0.0, 0.01, 0.05, 0.4])
@pytest.mark.parametrize("found", [0, 1, 7])
def test_more_shared_patients_than_stated_would_match_more_often(found: int, miss: float) -> None:
    def at_most(shared: int) -> float:
        return sum(
            math.comb(shared, k) * (1 - miss) ** k * miss ** (shared - k)
            for k in range(min(found, shared) + 1)
        )

    most = most_shared(found, miss)
    assert most is not None
    assert at_most(most + 1) <= 0.05 < at_most(most) or most == found


def test_the_limit_is_that_of_distances_of_six_digits() -> None:
    for distance in (0.0, 0.1, 0.731204, 1.0, 1.414214, 2.0):
        limit = limit_of(distance)
        assert round(math.sqrt(limit) / SCALE, 6) <= distance < round(math.sqrt(limit + 1) / SCALE, 6) + 1e-6
        assert round(math.sqrt(limit + 1) / SCALE, 6) > distance


def test_rounding_changes_a_distance_by_no_more_than_stated() -> None:
    draw = np.random.default_rng(0)
    for dimension in (8, 256, 8192):
        vectors = draw.normal(size=(40, dimension)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rounded = round_embeddings(vectors) / SCALE
        apart = [np.linalg.norm(one[:20] - one[20:], axis=1) for one in (vectors.astype(float), rounded)]
        assert np.abs(apart[0] - apart[1]).max() <= rounding(dimension)
