"""Calibration against closed forms: bounds, thresholds, too few patients."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.calibration import (
    Calibration,
    calibrate,
    calibrate_patients,
    clopper_pearson,
    max_errors,
    samples_needed,
)


def tail(errors: int, of: int, rate: float) -> float:
    """Probability of at most this many errors, term by term."""
    return sum(math.comb(of, n) * rate**n * (1 - rate) ** (of - n) for n in range(errors + 1))


def of_patients(genuine: list[float], patients: int, impostor: Any = None) -> Calibration:
    first, second = np.triu_indices(patients, 1)
    scores = np.linspace(0, 0.5, len(first)) if impostor is None else np.asarray(impostor, float)
    return calibrate_patients(np.array(genuine), scores, first, second, patients=patients)


@settings(deadline=None)
@given(st.integers(1, 120), st.data())
def test_the_bounds_have_binomial_tails_of_5_percent(of: int, data: st.DataObject) -> None:
    errors = data.draw(st.integers(0, of))
    lower, upper = clopper_pearson(errors, of)
    if errors < of:
        assert tail(errors, of, upper) == pytest.approx(0.05, rel=1e-6)
    if errors:
        assert 1 - tail(errors - 1, of, lower) == pytest.approx(0.05, rel=1e-6)
    assert 0 <= lower <= errors / of <= upper <= 1


def test_zero_errors_and_only_errors_have_closed_forms() -> None:
    assert clopper_pearson(0, 299) == (0.0, pytest.approx(1 - 0.05 ** (1 / 299)))
    assert clopper_pearson(7, 7) == (pytest.approx(0.05 ** (1 / 7)), 1.0)


@pytest.mark.parametrize(("target", "needed"), [(0.01, 299), (0.001, 2995), (0.1, 29), (0.5, 5)])
def test_the_number_of_patients_required_for_a_rate(target: float, needed: int) -> None:
    assert samples_needed(target) == needed
    assert max_errors(needed, target) == 0
    assert max_errors(needed - 1, target) == -1


@settings(deadline=None)
@given(st.integers(1, 400), st.floats(0.005, 0.9))
def test_the_maximum_number_of_errors_meets_the_target_and_one_more_does_not(of: int, target: float) -> None:
    errors = max_errors(of, target)
    assert errors == -1 or clopper_pearson(errors, of)[1] <= target
    assert errors == of or clopper_pearson(errors + 1, of)[1] > target


def test_each_patient_counts_once_by_the_worst_pair() -> None:
    scores = np.array([0.9, 0.6, 0.8, 0.7, 0.3, 0.2])
    first = np.array(["a", "a", "a", "b", "a", "b"])
    second = np.array(["a", "a", "a", "b", "b", "a"])
    found = calibrate(scores, first, second)
    assert found.genuine == (0.6, 0.7)
    assert found.disjoint == (0.3,)
    assert found.curve == ((0.3, 1),)
    assert (found.patients, found.pairs) == (2, 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9)), min_size=3, max_size=60))
def test_calibration_matches_a_brute_force_over_patients(rows: list[tuple[int, int, int]]) -> None:
    genuine: dict[int, list[int]] = {}
    impostor: dict[tuple[int, int], list[int]] = {}
    for one, other, score in rows:
        if one == other:
            genuine.setdefault(one, []).append(score)
        else:
            impostor.setdefault((min(one, other), max(one, other)), []).append(score)
    arrays = [np.array(column) for column in zip(*rows, strict=True)]
    if not genuine or not impostor:
        with pytest.raises(UsageError):
            calibrate(arrays[2], arrays[0], arrays[1])
        return
    found = calibrate(arrays[2], arrays[0], arrays[1])
    assert list(found.genuine) == sorted(min(scores) for scores in genuine.values())
    highest = [max(scores) for scores in impostor.values()]
    for threshold in np.arange(-0.5, 10, 0.5):
        point = found.at(float(threshold))
        assert point.false_match.share == np.mean([score >= threshold for score in highest])
        assert point.false_non_match.share == np.mean([score < threshold for score in found.genuine])


@settings(deadline=None)
@given(st.integers(2, 40))
def test_no_patient_is_in_two_pairs_of_a_bound(patients: int) -> None:
    first, second = np.triu_indices(patients, 1)
    # The score identifies the pair.
    found = calibrate_patients(np.ones(1), first * 100.0 + second, first, second, patients=patients)
    named = [int(code) for score in found.disjoint for code in divmod(score, 100)]
    assert len(named) == len(set(named)) == patients // 2 * 2


def test_with_enough_patients_the_bound_meets_the_target() -> None:
    rng = np.random.default_rng(3)
    patients = 400
    pairs = patients * (patients - 1) // 2
    found = of_patients(list(rng.normal(3, 1, patients)), patients, rng.normal(size=pairs).astype("f4"))
    match, miss = found.for_false_match(0.05), found.for_false_non_match(0.05)
    assert match.insufficient_data == miss.insufficient_data == ""
    assert match.false_match.upper <= 0.05
    assert miss.false_non_match.upper <= 0.05
    lower = found.at(float(np.nextafter(np.float32(match.threshold), np.float32(-np.inf))))
    assert max(lower.false_match.upper, lower.false_match.share) > 0.05
    assert found.at(math.nextafter(miss.threshold, math.inf)).false_non_match.upper > 0.05


def test_a_threshold_exceeds_the_rejected_score_in_float32_too() -> None:
    for scores in (np.float32([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.3])):
        threshold = of_patients([0.9], 3, scores).for_false_match(0.4).threshold
        assert list(scores.astype(np.float32) >= threshold) == [False, False, True]
        assert list(scores >= threshold) == [False, False, True]


def test_with_too_few_patients_the_required_number_is_reported() -> None:
    found = of_patients([0.9] * 50, 50)
    match, miss = found.for_false_match(0.001), found.for_false_non_match(0.01)
    assert match.insufficient_data == (
        "insufficient data for a rate of 0.001: 5,990 patients required, 50 available"
    )
    assert match.false_match.share <= 0.001 < match.false_match.upper
    assert "299 patients with two or more images required, 50 available" in miss.insufficient_data
    assert miss.threshold == 0.9


def test_the_bound_holds_at_its_confidence() -> None:
    rng = np.random.default_rng(11)
    patients, target, broken = 120, 0.05, 0
    for _ in range(200):
        # A component per patient correlates the pairs of a patient, as in reality.
        mark = rng.normal(size=patients)
        first, second = np.triu_indices(patients, 1)
        scores = (mark[first] + mark[second]) / np.sqrt(2)
        found = calibrate_patients(np.ones(1), scores, first, second, patients=patients)
        true_rate = 0.5 * math.erfc(found.for_false_match(target).threshold / math.sqrt(2))
        broken += true_rate > target
    assert broken <= 18  # 10 expected at most; 18 or more has a probability of 1 %


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 80), st.integers(0, 2**32 - 1))
def test_a_thinned_curve_is_conservative_and_keeps_its_highest_scores(patients: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=patients * (patients - 1) // 2).round(2)
    found = of_patients([1.0], patients, scores)
    for threshold in np.r_[np.quantile(scores, np.linspace(0, 1, 50)), scores.max() + 1]:
        true = float(np.mean(scores >= threshold))
        assert true <= found.at(float(threshold)).false_match.share <= true + 0.02
    for threshold in np.sort(scores)[-500:]:
        assert found.at(float(threshold)).false_match.share == np.mean(scores >= threshold)


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.integers(2, 30))
def test_calibration_json_round_trips(genuine: list[float], patients: int) -> None:
    found = of_patients(genuine, patients)
    assert Calibration.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"more": 1},
        {"genuine": [0.9, 0.1]},
        {"genuine": []},
        {"genuine": [1]},
        {"genuine": [math.nan]},
        {"genuine": "0.5"},
        {"disjoint": None},
        {"patients": 2.0},
        {"pairs": True},
        {"pairs": 7},
        {"curve": [[0.1, 1], [0.2, 3]]},
        {"curve": [[0.1]]},
    ],
)
def test_a_modified_calibration_is_rejected(change: dict[str, Any]) -> None:
    facts = json.loads(of_patients([0.8, 0.9], 3).to_json())
    with pytest.raises(IntegrityError):
        Calibration.from_json(json.dumps({**facts, **change}))
    with pytest.raises(IntegrityError):
        Calibration.from_json("[]")


@pytest.mark.parametrize(
    ("scores", "first", "second", "said"),
    [
        ([0.1], ["a"], ["b"], "only one image"),
        ([0.1], ["a"], ["a"], "only one patient"),
        ([], [], [], "only one image"),
        ([math.nan, 0.1], ["a", "a"], ["a", "b"], "not finite"),
    ],
)
def test_input_that_cannot_be_calibrated_is_a_clear_error(
    scores: list[float], first: list[str], second: list[str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        calibrate(np.array(scores), np.array(first, dtype=str), np.array(second, dtype=str))


def test_a_target_must_be_a_rate() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        of_patients([0.5], 3).for_false_match(0)
