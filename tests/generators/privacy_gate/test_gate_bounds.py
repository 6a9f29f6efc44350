"""The arithmetic of the gate against closed forms and simulation: thresholds, bounds, attacks, verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import UsageError
from medsanitize.generators.privacy_gate.confidence_bounds import bound, lowest_scores, threshold
from medsanitize.generators.privacy_gate.decide import decide_verdict, rate
from medsanitize.generators.privacy_gate.extraction_attack import extraction
from medsanitize.generators.privacy_gate.matched_samples import match_samples
from medsanitize.generators.privacy_gate.membership_inference import likelihood_ratio, membership_inference
from medsanitize.generators.privacy_gate.nearest_neighbor_test import nearest_neighbor_test
from medsanitize.generators.privacy_gate.parameters import (
    CLAIM_CONFIDENCE,
    LABEL,
    GateParameters,
    images_needed,
    patients_needed,
)
from medsanitize.generators.privacy_gate.score_plot import score_curves
from medsanitize.generators.privacy_gate.statement import statement
from medsanitize.generators.privacy_gate.verdict import Attacks, GateSubject, GateVerdict, Scores
from numpy.typing import NDArray

MEMBERS = 300
SUBJECT = GateSubject(
    {"generator": "aa", "retrieval": "bb", "verification": "cc"}, {"training images": 500}, 500
)


def uniform(draw: np.random.Generator, low: float, high: float, size: int) -> NDArray[np.float64]:
    return draw.uniform(low, high, size)


def attacks(draw: np.random.Generator, patients: int = MEMBERS, images: int = 3000) -> Attacks:
    """Results for a generator that memorized nothing."""
    near = draw.integers(0, patients, images)
    return Attacks(
        nearest_neighbor_test(near, draw.random(images) < 0.5, patients),
        membership_inference(draw.normal(size=patients), draw.normal(size=patients)),
        extraction(0, draw.random(patients) * 0.5, draw.random(patients) * 0.5, 0.8),
    )


def drawn(draw: np.random.Generator, images: int, copied: float) -> tuple[NDArray[np.float64], int]:
    """Highest scores of synthetic images, a number of which are copies that score like controls."""
    scores, chosen = uniform(draw, 0, 0.6, images), draw.random(images) < copied
    scores[chosen] = uniform(draw, 0.7, 1, int(chosen.sum()))
    return scores, int(chosen.sum())


def simulated(
    *, patients: int = 299, images: int = 3000, copied: float = 0.0, seed: int = 0, members: int = MEMBERS
) -> GateVerdict:
    """Genuine and control scores high, others low."""
    draw = np.random.default_rng(seed)
    training, _ = drawn(draw, images, copied)
    scores = Scores(
        genuine=uniform(draw, 0.75, 1, patients),
        controls={
            "reconstructed": uniform(draw, 0.7, 1, patients),
            "varied": uniform(draw, 0.7, 1, patients),
        },
        training=training,
        equal=training,
        holdout=uniform(draw, 0, 0.6, images),
    )
    limit = scores.threshold(GateParameters()).value
    linked = rate(int((training >= limit).sum()), 5000)
    return decide_verdict(scores, linked, attacks(draw, members, images), SUBJECT, GateParameters())


# -- threshold and bound ----------------------------------------------------------------------


def test_a_threshold_for_1_percent_needs_299_patients() -> None:
    assert patients_needed() == 299
    scores = np.linspace(0.5, 1, 299)
    assert threshold(scores, 0.01).value == 0.5
    assert threshold(scores[1:], 0.01).needed == (
        "299 calibration patients with two or more images (available: 298)"
    )
    assert threshold(np.empty(0), 0.01).missed == 1.0


def test_one_missed_score_is_allowed_from_473_patients_on() -> None:
    scores = np.linspace(0.5, 1, 473)
    assert threshold(scores[1:], 0.01).overlooked == 0
    assert threshold(scores, 0.01).overlooked == 1
    assert threshold(scores, 0.01).value == scores[1]


def test_the_miss_bound_at_the_joint_confidence_has_a_closed_form() -> None:
    assert threshold(np.linspace(0, 1, 299), 0.01).missed == pytest.approx(1 - 0.025 ** (1 / 299))


@pytest.mark.parametrize("patients", [299, 473, 1000])
def test_the_threshold_holds_at_its_confidence(patients: int) -> None:
    draw = np.random.default_rng(5)
    broken = [threshold(draw.random(patients), 0.01).value > 0.01 for _ in range(2000)]
    # For uniform scores the missed share is the threshold; 2,000 runs estimate 5 % to within 1.5 %.
    assert np.mean(broken) <= 0.065


def test_the_minimum_over_real_pairs_and_controls_counts() -> None:
    genuine, copy = np.array([0.9, 0.5, 0.8]), np.array([0.6, 0.9, 0.85])
    assert lowest_scores(genuine, {"varied": copy}).tolist() == [0.6, 0.5, 0.8]


def test_no_match_among_3000_images_bounds_the_rate_at_0_1_percent() -> None:
    found = bound(3000, 0, 0.01)
    assert images_needed() == 2995
    assert found.upper == pytest.approx(1 - 0.05 ** (1 / 3000))
    assert found.upper <= 0.001
    claimed = 1 - 0.025 ** (1 / 3000)
    assert found.copy_rate == pytest.approx(claimed / 0.99)
    assert found.residual == pytest.approx(claimed * 0.01 / (0.99 * (1 - claimed)))


@settings(deadline=None)
@given(st.integers(1, 2000), st.data())
def test_copy_bounds_are_shares_not_below_the_observed_rate(images: int, data: st.DataObject) -> None:
    matches = data.draw(st.integers(0, images))
    found = bound(images, matches, data.draw(st.floats(0, 1)))
    assert found.lower <= matches / images <= found.upper <= found.copy_rate <= 1
    assert 0 <= found.residual <= 1


@pytest.mark.parametrize(("patients", "images", "copied"), [(299, 3000, 0.003), (600, 1000, 0.05)])
def test_the_copy_bounds_hold_at_their_confidence(patients: int, images: int, copied: float) -> None:
    draw = np.random.default_rng(7)
    rate_broken = residual_broken = 0
    for _ in range(1500):
        limit = threshold(draw.random(patients), 0.01)
        # Copies score like the controls, other images never reach them.
        missed = limit.value
        copies = draw.binomial(images, copied)
        found = bound(images, copies - draw.binomial(copies, missed), limit.missed)
        rate_broken += found.copy_rate < copied
        residual_broken += found.residual < copied * missed / (1 - copied * (1 - missed))
    assert max(rate_broken, residual_broken) / 1500 <= 0.05


def test_real_pairs_without_controls_would_miss_copies() -> None:
    draw = np.random.default_rng(9)
    genuine, control = draw.uniform(0.9, 1, 400), draw.uniform(0.5, 1, 400)
    copies = draw.uniform(0.5, 1, 1000)
    alone, both = threshold(genuine, 0.01), threshold(lowest_scores(genuine, {"varied": control}), 0.01)
    assert (copies < alone.value).mean() > 0.7
    assert (copies < both.value).mean() <= 0.01


@pytest.mark.parametrize("wrong", [{"missed": 0.0}, {"most": 1.0}, {"strength": -0.2}])
def test_rates_must_be_between_0_and_1(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="not between 0 and 1"):
        GateParameters(**wrong)


# -- holdout, membership, extraction ----------------------------------------------------------


@given(st.lists(st.integers(0, 8), max_size=40), st.lists(st.integers(10, 15), max_size=40))
def test_matched_samples_have_equally_many_images_per_pair(one: list[int], other: list[int]) -> None:
    sides = [np.array(side, np.int64) for side in (one, other)]
    found = match_samples(*sides)
    assert found.patients == min(len(set(one)), len(set(other)))
    for rows, patients in zip((found.training, found.holdout), sides, strict=True):
        assert len(np.unique(rows)) == len(rows) == len(found.pairs)
        for pair in range(found.patients):
            assert len(set(patients[rows[found.pairs == pair]].tolist())) == 1


def test_images_clustered_around_few_patients_raise_no_alarm() -> None:
    draw = np.random.default_rng(1)
    alarms = 0
    for _ in range(150):
        # All images are near one of twenty patients, who are in training or not by chance.
        near = draw.integers(0, 20, 1000)
        alarms += nearest_neighbor_test(near, draw.random(20)[near] < 0.5, 20).alarm
    assert alarms / 150 <= 0.05


def test_images_nearer_to_training_raise_an_alarm() -> None:
    draw = np.random.default_rng(2)
    found = nearest_neighbor_test(draw.integers(0, 300, 3000), draw.random(3000) < 0.7, 300)
    assert found.alarm
    assert found.share == pytest.approx(0.7, abs=0.03)
    assert found.lower < found.share


def test_membership_inference_has_its_nominal_error_rate() -> None:
    draw = np.random.default_rng(3)
    found = [membership_inference(draw.normal(size=200), draw.normal(size=200)) for _ in range(1500)]
    assert np.mean([one.veto for one in found]) <= 0.05 / 3 + 0.01
    assert np.mean([one.rate for one in found]) == pytest.approx(3 / 201, abs=0.002)


def test_copied_members_are_recognized() -> None:
    draw = np.random.default_rng(4)
    members = draw.normal(size=300)
    members[:40] += 8
    found = membership_inference(members, draw.normal(size=300))
    assert found.veto
    assert found.lower > 0.05


def test_membership_inference_needs_100_patients_per_split() -> None:
    found = membership_inference(np.zeros(99), np.zeros(500))
    assert not found.veto
    assert "100 patients each in training and holdout (the smaller has 99)" in found.needed
    assert extraction(0, np.zeros(99), np.zeros(500), 0.5).needed
    assert extraction(1, np.zeros(99), np.zeros(500), 0.5).veto


def test_a_copy_at_no_distance_has_a_finite_ratio() -> None:
    assert np.isfinite(likelihood_ratio(np.zeros(2), np.ones(2))).all()


def test_restoring_training_patients_more_often_is_a_veto() -> None:
    from scipy.stats import fisher_exact

    members, others = np.r_[np.ones(20), np.zeros(80)], np.r_[np.ones(5), np.zeros(95)]
    found = extraction(0, members, others, 0.5)
    assert found.chance == pytest.approx(fisher_exact([[20, 80], [5, 95]], "greater").pvalue)
    assert found.veto
    assert not extraction(0, others, members, 0.5).veto
    assert not extraction(0, np.ones(100), np.ones(100), 0.5).veto


# -- verdict ----------------------------------------------------------------------------------


def test_an_honest_generator_passes_with_299_patients_and_3000_images() -> None:
    found = simulated()
    assert found.state == "passed"
    assert found.label == LABEL
    assert [one.state for one in found.clauses] == ["met"] * 7
    assert (found.images, found.matches) == (3000, 0)


def test_an_honest_generator_passes_nearly_always() -> None:
    states = [simulated(seed=seed).state for seed in range(60)]
    assert states.count("passed") >= 54


@pytest.mark.parametrize(
    ("fewer", "needed"),
    [
        ({"patients": 298}, "299 calibration patients with two or more images (available: 298)"),
        ({"images": 2994}, "2,995 images (available: 2,994)"),
        ({"members": 80}, "100 patients each in training and holdout (the smaller has 80)"),
    ],
)
def test_insufficient_data_states_what_is_needed(fewer: dict[str, int], needed: str) -> None:
    found = simulated(**fewer)
    assert found.state == "insufficient_data"
    assert not found.passed
    assert found.label == ""
    assert found.needed == (needed,)
    assert needed in statement(found)[0]


def test_without_a_threshold_dependent_clauses_are_not_met() -> None:
    states = [one.state for one in simulated(patients=100).clauses]
    assert states == ["not_run"] * 4 + ["met", "met", "not_run"]


@pytest.mark.parametrize("copied", [0.01, 0.1, 1.0])
def test_a_copying_generator_fails_and_99_percent_of_copies_are_found(copied: float) -> None:
    found = simulated(patients=500, images=5000, copied=copied, seed=3)
    assert found.state == "failed"
    assert found.matches >= 0.99 * drawn(np.random.default_rng(3), 5000, copied)[1]
    assert found.copy_rate >= copied


def test_copies_among_too_few_images_still_fail() -> None:
    assert simulated(images=500, copied=0.2).state == "failed"


def test_a_veto_overrides_a_met_bound() -> None:
    draw = np.random.default_rng(0)
    honest = simulated()
    remembered = membership_inference(draw.normal(size=300) + 5, draw.normal(size=300))
    for veto in (
        replace(honest.attacks, membership=remembered),
        replace(honest.attacks, extraction=extraction(1, np.zeros(300), np.zeros(300), 0.5)),
    ):
        scores = Scores(
            *[
                np.full(299, 0.9),
                {"varied": np.full(299, 0.9)},
                np.zeros(3000),
                np.zeros(3000),
                np.zeros(3000),
            ]
        )
        found = decide_verdict(scores, rate(0, 100), veto, SUBJECT, GateParameters())
        assert found.upper <= 0.001
        assert found.state == "failed"


def test_an_alarm_is_reported_but_does_not_change_the_verdict() -> None:
    alarm = nearest_neighbor_test(np.arange(3000) % 300, np.ones(3000, bool), 300)
    honest = simulated()
    scores = Scores(np.full(299, 0.9), {}, np.zeros(3000), np.zeros(3000), np.zeros(3000))
    found = decide_verdict(
        scores, rate(0, 100), replace(honest.attacks, closeness=alarm), SUBJECT, GateParameters()
    )
    assert found.clauses[4].state == "alarm"
    assert found.passed


def test_the_statement_contains_every_number_and_no_legal_claim() -> None:
    found = simulated()
    said = "\n".join(statement(found))
    for part in ("aa", "bb", "cc", f"{found.threshold.value:.7f}", "0 of 3,000 images", "0.100%", "Rs:",
                 "holdout", "at 1 % false positives", "of 300 training", LABEL, "no legal statement",
                 f"{CLAIM_CONFIDENCE:.1%}"):  # fmt: skip
        assert part in said, part
    assert len(found.clauses) == 7


def test_the_verdict_is_strict_json() -> None:
    facts: dict[str, Any] = json.loads(simulated(copied=0.1).to_json())
    assert facts["state"] == "failed"
    assert facts["bound"]["matches"] > 0
    assert simulated(copied=0.1).to_json() == simulated(copied=0.1).to_json()


def test_the_score_plot_is_deterministic() -> None:
    draw = np.random.default_rng(0)
    scores = Scores(
        draw.random(50), {"varied": draw.random(50)}, draw.random(90), np.empty(0), draw.random(90)
    )
    assert score_curves(scores, 0.9) == score_curves(scores, 0.9)
    assert "copies, varied" in score_curves(scores, 0.9)
