"""Joint thresholds: the combined miss rate is bounded, and false matches are fewer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from medsanitize.verifiers.reid.calibration import calibrate, clopper_pearson, max_errors
from medsanitize.verifiers.reid.overlap.joint_threshold import (
    CalibrationPairs,
    JointThreshold,
    joint_threshold,
)
from medsanitize.verifiers.reid.overlap.thresholds import choose_thresholds

BUDGET = 0.05


def people(count: int, seed: int, *, alike: float = 0.5) -> CalibrationPairs:
    """Two images of each patient, and a pair with the next one at a distance of 3 deviations."""
    random = np.random.default_rng(seed)
    names = np.arange(count)
    shared = random.normal(size=(2, count)) * math.sqrt(alike)
    own = random.normal(size=(4, count)) * math.sqrt(1 - alike)
    score = np.r_[shared[0] + own[0], shared[1] + own[1] - 3]
    distance = np.r_[-shared[0] - own[2], 3 - shared[1] - own[3]]
    return CalibrationPairs(distance, score, np.r_[names, names], np.r_[names, np.roll(names, 1)])


def overlooked(found: JointThreshold, fresh: CalibrationPairs) -> float:
    same = fresh.first == fresh.second
    inside = (fresh.score >= found.point.threshold) & (fresh.distance <= found.distance)
    return float(1 - inside[same].mean())


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_the_miss_bound_holds_in_95_percent_of_calibrations(alike: float) -> None:
    fresh = people(200_000, 0, alike=alike)
    found = [joint_threshold(people(150, seed, alike=alike), BUDGET, -9.0) for seed in range(1, 401)]
    held = [one is not None and overlooked(one, fresh) <= one.point.false_non_match.upper for one in found]
    assert np.mean(held) >= 0.93  # 0.95, less two deviations of 400 draws


def test_the_number_of_misses_respects_the_bound() -> None:
    found = joint_threshold(people(150, 1), BUDGET, -9.0)
    assert found is not None
    errors = max_errors(150, BUDGET)
    assert found.point.false_non_match.errors <= errors
    assert found.point.false_non_match.upper == clopper_pearson(errors, 150)[1] <= BUDGET


def test_joint_thresholds_give_fewer_false_matches_than_the_score_only() -> None:
    pairs, fresh = people(2_000, 2, alike=0.0), people(200_000, 3, alike=0.0)
    found = joint_threshold(pairs, BUDGET, -9.0)
    assert found is not None
    scores = calibrate(pairs.score, pairs.first, pairs.second)
    alone = scores.genuine[max_errors(2_000, BUDGET)]
    strangers = fresh.first != fresh.second
    reached = (fresh.score >= found.point.threshold) & (fresh.distance <= found.distance)
    assert reached[strangers].mean() < 0.5 * (fresh.score >= alone)[strangers].mean()


@pytest.mark.parametrize(("count", "least"), [(60, -9.0), (150, 9.0)], ids=["too few", "below the other"])
def test_without_a_joint_threshold_the_score_decides(count: int, least: float) -> None:
    assert joint_threshold(people(count, 4), BUDGET, least) is None


def test_a_similar_but_distant_pair_is_not_a_strict_match() -> None:
    pairs = people(300, 5)
    scores = calibrate(pairs.score, pairs.first, pairs.second)
    limit = choose_thresholds(
        scores, None, verified=True, target=0.5, source="compared_images", every=True, pairs=pairs
    )
    near, alike = limit.strict_max_distance, limit.strict.threshold
    assert math.isfinite(near)
    assert (limit.is_strict_match(alike, near), limit.is_strict_match(alike, near + 0.1)) == (True, False)
