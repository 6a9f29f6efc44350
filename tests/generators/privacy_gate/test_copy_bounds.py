"""Threshold, bounds of copies, tries and number of images against closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import UsageError
from medsanitize.generators.privacy_gate.confidence_bounds import (
    bound,
    keeps,
    largest_match_rate,
    lowest_scores,
    miss_rate,
    rate,
    residual_of,
    threshold,
)
from medsanitize.generators.privacy_gate.draw_plan import images_for, patients_for, plan_draw
from medsanitize.generators.privacy_gate.parameters import (
    ALPHA,
    FEWEST_JUDGED,
    MOST_JUDGED,
    GateParameters,
    alpha_of_try,
)

TERMS = GateParameters()


# -- threshold and bound ----------------------------------------------------------------------


def test_the_threshold_is_the_lowest_score_of_any_copy() -> None:
    varied, blurred = np.array([0.9, 0.5, 0.8]), np.array([0.6, 0.9, 0.85])
    assert lowest_scores({"varied": varied, "blurred": blurred}).tolist() == [0.6, 0.5, 0.8]
    assert threshold(lowest_scores({"varied": varied, "blurred": blurred}), 0.95).value == 0.5


@pytest.mark.parametrize(
    ("patients", "missed"), [(28, 0.123), (53, 0.067), (59, 0.061), (100, 0.036), (299, 0.0123)]
)
def test_the_miss_rate_follows_from_the_number_of_patients(patients: int, missed: float) -> None:
    assert miss_rate(patients, 0.975) == pytest.approx(1 - 0.025 ** (1 / patients))
    assert miss_rate(patients, 0.975) == pytest.approx(missed, rel=0.01)
    assert threshold(np.linspace(0, 1, patients), 0.975).missed == miss_rate(patients, 0.975)


def test_without_calibration_patients_everything_matches_and_nothing_is_bounded() -> None:
    found = threshold(np.empty(0), 0.975)
    assert (found.value, found.missed) == (0.0, 1.0)
    assert bound(1000, 0, 1.0, 0.975).residual == 1.0


@pytest.mark.parametrize(("patients", "needed"), [(28, 522), (53, 268), (59, 240), (299, 48)])
def test_the_number_of_images_without_a_match_follows_from_the_patients(patients: int, needed: int) -> None:
    largest = largest_match_rate(0.001, miss_rate(patients, 0.975))
    assert images_for(0, largest, 0.975) == needed
    assert bound(needed, 0, miss_rate(patients, 0.975), 0.975).residual <= 0.001
    assert bound(needed - 1, 0, miss_rate(patients, 0.975), 0.975).residual > 0.001


@settings(deadline=None)
@given(st.integers(1, 2000), st.data())
def test_bounds_are_shares_not_below_the_observed_rate(images: int, data: st.DataObject) -> None:
    matches = data.draw(st.integers(0, images))
    found = bound(images, matches, data.draw(st.floats(0, 1)), 0.975)
    assert found.lower <= matches / images <= found.upper <= found.copy_rate <= 1
    assert 0 <= found.residual_at_least <= found.residual <= 1


@given(st.floats(1e-4, 0.5), st.floats(1e-4, 0.5))
def test_the_largest_match_rate_has_exactly_the_residual(residual: float, missed: float) -> None:
    assert residual_of(largest_match_rate(residual, missed), missed) == pytest.approx(residual)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 40), st.floats(0.002, 0.1))
def test_the_number_of_images_is_the_smallest_that_keeps_the_bound(matches: int, upper: float) -> None:
    images = images_for(matches, upper, 0.98)
    if images <= MOST_JUDGED:
        assert bound(images, matches, 0.1, 0.98).upper <= upper
        assert images == matches or bound(images - 1, matches, 0.1, 0.98).upper > upper


@given(st.floats(1e-3, 0.2), st.floats(1e-4, 0.01))
def test_the_number_of_patients_is_the_smallest_that_keeps_the_residual(
    matched: float, residual: float
) -> None:
    patients = patients_for(matched, residual, 0.98)
    assert residual_of(matched, miss_rate(patients, 0.98)) <= residual * (1 + 1e-6)
    assert patients == 1 or residual_of(matched, miss_rate(patients - 1, 0.98)) > residual * (1 - 1e-6)


@pytest.mark.parametrize("patients", [28, 59, 299])
@pytest.mark.parametrize(("copied", "strangers"), [(0.003, 0.0), (0.05, 0.005), (0.5, 0.01)])
def test_the_published_bounds_hold_in_95_percent_of_cases(
    patients: int, copied: float, strangers: float
) -> None:
    draw, runs = np.random.default_rng(7), 2000
    broken = np.zeros(2, int)
    for _ in range(runs):
        # Scores of copies are uniform, so that the share that is missed is the threshold.
        limit = threshold(draw.random(patients), TERMS.confidence)
        copies = draw.binomial(1000, copied)
        matches = copies - draw.binomial(copies, limit.value) + draw.binomial(1000 - copies, strangers)
        found = bound(1000, matches, limit.missed, TERMS.confidence)
        left = (1 - copied) * (1 - strangers) + copied * limit.value
        broken += (found.copy_rate < copied, found.residual < copied * limit.value / left)
    assert broken.max() / runs <= 0.05


def test_tries_share_the_error_probability() -> None:
    assert sum(alpha_of_try(number) for number in range(1, 100_000)) == pytest.approx(ALPHA, rel=1e-4)
    assert GateParameters(attempt=2).alpha == pytest.approx(alpha_of_try(1) / 4)


def test_thirty_tries_at_a_rate_on_the_bound_pass_in_at_most_5_percent() -> None:
    draw, runs, patients = np.random.default_rng(11), 1000, 59
    passed = alone = 0
    for _ in range(runs):
        # The threshold misses exactly what its bound allows, and the images match at the largest rate.
        for number in range(1, 31):
            terms = GateParameters(attempt=number)
            missed = miss_rate(patients, terms.confidence)
            images = images_for(3, largest_match_rate(0.001, missed), terms.confidence)
            matches = int(draw.binomial(images, largest_match_rate(0.001, missed)))
            if bound(images, matches, missed, terms.confidence).residual <= 0.001:
                passed += 1
                break
        missed = miss_rate(patients, 0.975)
        images = images_for(3, largest_match_rate(0.001, missed), 0.975)
        matches = draw.binomial(images, largest_match_rate(0.001, missed), 30)
        alone += bool((matches <= 3).any())
    assert passed / runs <= 0.05
    # Without counting tries, half of those who try thirty times would succeed.
    assert alone / runs > 0.4


@pytest.mark.parametrize(
    "wrong", [{"residual": 0.0}, {"residual": 1.0}, {"strength": -0.2}, {"reidentification": 0.0}]
)
def test_rates_must_be_between_0_and_1(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="not between 0 and 1"):
        GateParameters(**wrong)  # type: ignore[arg-type]


def test_tries_are_counted_from_1() -> None:
    with pytest.raises(UsageError, match="not positive"):
        GateParameters(attempt=0)


# -- the number of images ---------------------------------------------------------------------


@pytest.mark.parametrize(("patients", "matched"), [(28, 0), (59, 0), (59, 1), (137, 0), (137, 2)])
def test_a_generator_that_matches_like_strangers_nearly_always_passes_with_the_planned_images(
    patients: int, matched: int
) -> None:
    draw = np.random.default_rng(13)
    plan = plan_draw(patients, rate(matched, 1000), TERMS)
    assert not plan.capped
    missed = miss_rate(patients, TERMS.confidence)
    matches = draw.binomial(plan.images, plan.expected, 400)
    passed = [keeps(bound(plan.images, int(k), missed, TERMS.confidence), TERMS) for k in matches]
    assert np.mean(passed) >= 0.87


def test_more_calibration_patients_take_fewer_images() -> None:
    plans = [plan_draw(patients, rate(1, 600), TERMS) for patients in (28, 59, 137, 299)]
    least, images = [plan.least for plan in plans], [plan.images for plan in plans]
    assert least == sorted(least, reverse=True)
    assert images == sorted(images, reverse=True)


@pytest.mark.parametrize("patients", [59, 137, 299])
@pytest.mark.parametrize("strangers", [0, 3])
def test_a_generator_that_copies_one_image_of_a_hundred_never_passes(patients: int, strangers: int) -> None:
    draw = np.random.default_rng(17)
    plan = plan_draw(patients, rate(strangers, 1000), TERMS)
    missed = miss_rate(patients, TERMS.confidence)
    copies = draw.binomial(plan.images, 0.01 * (1 - missed), 200)
    passed = [keeps(bound(plan.images, int(k), missed, TERMS.confidence), TERMS) for k in copies]
    assert not any(passed)


def test_a_thousand_images_are_judged_at_least() -> None:
    assert plan_draw(1000, rate(0, 6000), TERMS).images == FEWEST_JUDGED


def test_the_number_of_images_is_capped() -> None:
    plan = plan_draw(28, rate(2, 400), TERMS)
    assert (plan.images, plan.capped, plan.possible) == (MOST_JUDGED, True, True)


def test_where_strangers_match_too_often_no_more_images_than_necessary_are_judged() -> None:
    plan = plan_draw(59, rate(5, 100), TERMS)
    assert (plan.images, plan.capped, plan.possible) == (FEWEST_JUDGED, True, True)


def test_one_calibration_patient_is_too_few_for_any_number_of_images() -> None:
    assert not plan_draw(1, rate(0, 300), TERMS).possible
    assert not plan_draw(0, rate(0, 300), TERMS).possible
