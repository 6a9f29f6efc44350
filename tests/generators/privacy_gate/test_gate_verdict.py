"""Attacks, re-identification and verdicts of the gate against closed forms and simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.generators.privacy_gate.confidence_bounds import (
    permitted_match_rate,
    rate,
)
from medsanitize.generators.privacy_gate.decide import decide_verdict
from medsanitize.generators.privacy_gate.draw_plan import images_for
from medsanitize.generators.privacy_gate.excess_test import excess_test
from medsanitize.generators.privacy_gate.extraction_attack import Extraction, extraction
from medsanitize.generators.privacy_gate.matched_samples import match_samples
from medsanitize.generators.privacy_gate.membership_inference import likelihood_ratio, membership_inference
from medsanitize.generators.privacy_gate.nearest_neighbor_test import nearest_neighbor_test
from medsanitize.generators.privacy_gate.parameters import (
    LABEL,
    TEST_CONFIDENCE,
    GateParameters,
    alpha_of_try,
)
from medsanitize.generators.privacy_gate.reidentification import (
    Exposure,
    Verification,
    exposure_at,
    exposures,
)
from medsanitize.generators.privacy_gate.score_plot import score_curves
from medsanitize.generators.privacy_gate.statement import statement
from medsanitize.generators.privacy_gate.verdict import Attacks, GateSubject, GateVerdict, Scores
from numpy.typing import NDArray

MEMBERS = 60
TERMS = GateParameters()


def subject(patients: int = 59, size: int = 128) -> GateSubject:
    counted = {"training patients": 200, "holdout patients": MEMBERS, "calibration patients": patients}
    return GateSubject({"generator": "aa", "retrieval": "bb", "verification": "cc"}, counted, 500, size)


def uniform(draw: np.random.Generator, low: float, high: float, size: int) -> NDArray[np.float64]:
    return draw.uniform(low, high, size)


def restoration(members: NDArray[np.float64], others: NDArray[np.float64], blind: int = 0) -> Extraction:
    return extraction((blind, 0), (200, MEMBERS), members, others, 0.8)


def attacks(draw: np.random.Generator, patients: int = MEMBERS, images: int = 3000) -> Attacks:
    """Results for a generator that memorized nothing."""
    near = draw.integers(0, patients, images)
    return Attacks(
        nearest_neighbor_test(near, draw.random(images) < 0.5, patients),
        excess_test(set(), set(), patients),
        membership_inference(draw.normal(size=patients), draw.normal(size=patients)),
        restoration(draw.random(patients) * 0.5, draw.random(patients) * 0.5),
    )


def exposure(synthetic: int, strangers: int) -> tuple[Exposure, ...]:
    """Exposure with shares of matches in percent."""
    made, others = (
        np.where(np.arange(count) < share * count // 100, 2.0, 0.0)
        for share, count in ((synthetic, 3000), (strangers, 2000))
    )
    return exposures(made, Verification(np.linspace(0, 1, 20_000), others, np.ones(10)))


def drawn(draw: np.random.Generator, images: int, copied: float) -> tuple[NDArray[np.float64], int]:
    """Highest scores of synthetic images, a number of which are copies that score like controls."""
    scores, chosen = uniform(draw, 0, 0.6, images), draw.random(images) < copied
    scores[chosen] = uniform(draw, 0.7, 1, int(chosen.sum()))
    return scores, int(chosen.sum())


def simulated(
    *,
    patients: int = 59,
    images: int = 1000,
    copied: float = 0.0,
    seed: int = 0,
    members: int = MEMBERS,
    size: int = 128,
    terms: GateParameters = TERMS,
    exposed: tuple[Exposure, ...] = (),
) -> GateVerdict:
    """Control scores high, others low."""
    draw = np.random.default_rng(seed)
    training, _ = drawn(draw, images, copied)
    controls = {name: uniform(draw, 0.7, 1, patients) for name in ("reconstructed", "varied")}
    scores = Scores(
        controls, training, training, uniform(draw, 0, 0.6, images), uniform(draw, 0, 0.6, MEMBERS)
    )
    limit = scores.threshold(terms).value
    linked = rate(int((training >= limit).sum()), 5000)
    found = attacks(draw, members, images)
    return decide_verdict(scores, linked, found, exposed, subject(patients, size), terms)


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
    assert np.mean([one.veto for one in found]) <= 1 - TEST_CONFIDENCE + 0.01
    assert np.mean([one.rate for one in found]) == pytest.approx(3 / 201, abs=0.002)


@pytest.mark.parametrize("patients", [24, 60, 99])
def test_vetoes_of_small_holdouts_keep_their_error_rate(patients: int) -> None:
    draw, runs = np.random.default_rng(21), 3000
    vetoed = np.zeros(3, int)
    for _ in range(runs):
        values = draw.normal(size=(2, patients))
        # How often a patient is restored or matched by chance differs between patients, not between splits.
        easy = draw.beta(0.3, 1, (2, patients))
        hits = [set(np.flatnonzero(one).tolist()) for one in draw.random((2, patients)) < easy]
        vetoed += (
            membership_inference(values[0], values[1]).veto,
            restoration(easy[0], easy[1]).veto,
            excess_test(hits[0], hits[1], patients).veto,
        )
    # The limit, and 2.6 standard deviations of 3,000 runs.
    assert vetoed.max() / runs <= 1 - TEST_CONFIDENCE + 0.0053


def test_a_small_holdout_allows_no_false_positive_and_states_what_it_notices() -> None:
    members = np.random.default_rng(0).normal(size=60)
    members[:9] += 20
    found = membership_inference(members, np.random.default_rng(1).normal(size=60))
    assert found.false_positives == 0
    assert found.noticed == 7
    assert found.veto
    assert not found.inconclusive


def test_attacks_on_very_few_patients_are_inconclusive() -> None:
    assert membership_inference(np.zeros(20), np.zeros(20)).inconclusive
    assert restoration(np.zeros(20), np.zeros(20)).inconclusive
    assert not membership_inference(np.zeros(30), np.zeros(30)).inconclusive
    assert not restoration(np.zeros(30), np.zeros(30)).inconclusive
    empty = np.empty(0)
    assert membership_inference(empty, empty).inconclusive
    assert restoration(empty, empty).inconclusive


def test_more_matched_training_than_holdout_patients_are_a_veto() -> None:
    copied = excess_test(set(range(20)), {1, 40}, 60)
    assert (copied.training, copied.holdout) == (19, 1)
    assert copied.veto
    assert not excess_test({1, 40}, set(range(20)), 60).veto
    assert not excess_test(set(range(60)), set(range(60)), 60).veto


def test_copied_members_are_recognized() -> None:
    draw = np.random.default_rng(4)
    members = draw.normal(size=300)
    members[:40] += 8
    found = membership_inference(members, draw.normal(size=300))
    assert found.veto
    assert found.lower > 0.05


def test_a_patient_found_twice_is_a_veto_unless_as_many_strangers_are() -> None:
    nothing = np.zeros(60)
    assert restoration(nothing, nothing, blind=1).veto
    chance = extraction((3, 1), (180, 60), nothing, nothing, 0.8)
    assert not chance.veto
    assert extraction((4, 1), (180, 60), nothing, nothing, 0.8).veto


def test_a_copy_at_no_distance_has_a_finite_ratio() -> None:
    assert np.isfinite(likelihood_ratio(np.zeros(2), np.ones(2))).all()


def test_restoring_training_patients_more_often_is_a_veto() -> None:
    from scipy.stats import fisher_exact

    members, others = np.r_[np.ones(20), np.zeros(80)], np.r_[np.ones(5), np.zeros(95)]
    found = restoration(members, others)
    assert found.chance == pytest.approx(fisher_exact([[20, 80], [5, 95]], "greater").pvalue)
    assert found.veto
    assert not restoration(others, members).veto
    assert not restoration(np.ones(100), np.ones(100)).veto


# -- re-identification ------------------------------------------------------------------------


def test_the_exposure_is_stated_next_to_that_of_strangers() -> None:
    strict = exposure(30, 20)[-1]
    assert strict.false_match == 0.001
    assert strict.synthetic.share == pytest.approx(0.3)
    assert strict.strangers.share == pytest.approx(0.2)
    assert strict.lower < 0.1 < strict.upper


def test_recognition_on_another_day_is_not_stated_without_a_patient_of_two_images() -> None:
    known = Verification(np.linspace(0, 1, 20_000), np.zeros(9), np.empty(0))
    said = statement(simulated(exposed=exposures(np.zeros(9), known)))[9]
    assert "no calibration patient has two images" in said
    assert "of 0 patients" not in said


@settings(deadline=None, max_examples=50)
@given(st.sampled_from([0.01, 0.001]), st.integers(0, 2**32 - 1))
def test_the_threshold_keeps_its_false_match_rate(false_match: float, seed: int) -> None:
    apart = np.sort(np.random.default_rng(seed).random(10_000).round(3))
    found = exposure_at(false_match, np.zeros(1), Verification(apart, np.zeros(1), np.zeros(1)))
    assert (apart >= found.threshold).mean() <= false_match


def test_a_false_match_rate_needs_enough_pairs_of_strangers() -> None:
    known = Verification(np.linspace(0, 1, 5_000), np.zeros(9), np.zeros(9))
    assert [one.false_match for one in exposures(np.zeros(5), known)] == [0.01]
    assert exposures(np.zeros(5), Verification(np.empty(0), np.empty(0), np.empty(0))) == ()


def test_the_difference_to_strangers_is_bounded_in_95_percent_of_cases() -> None:
    draw, broken, runs = np.random.default_rng(5), 0, 1500
    for _ in range(runs):
        made, others = (draw.random(count) < share for count, share in ((1000, 0.25), (60, 0.2)))
        known = Verification(np.linspace(0, 0.5, 20_000), others.astype(float), np.ones(1))
        broken += exposure_at(0.001, made.astype(float), known).upper < 0.05
    assert broken / runs <= 0.05


# -- verdict ----------------------------------------------------------------------------------


def test_an_honest_generator_passes_with_59_patients_and_1000_images() -> None:
    found = simulated()
    assert found.state == "passed"
    assert found.label == LABEL
    assert [one.state for one in found.clauses] == ["met"] * 7 + ["not_run"]
    assert (found.images, found.matches) == (1000, 0)
    assert found.residual <= 0.001


def test_an_honest_generator_passes_nearly_always() -> None:
    states = [simulated(seed=seed).state for seed in range(60)]
    assert states.count("passed") >= 54


@pytest.mark.parametrize(
    ("fewer", "needed"),
    [
        ({"patients": 1}, "calibration patients for a residual of 0.100%"),
        ({"size": 64}, "images of at least 128 x 128 pixels (the generator's have 64 x 64"),
        ({"members": 20}, "more patients in training and holdout for the membership attack"),
    ],
)
def test_insufficient_data_states_what_is_needed(fewer: dict[str, int], needed: str) -> None:
    found = simulated(**fewer)  # type: ignore[arg-type]
    assert found.state == "insufficient_data"
    assert not found.passed
    assert found.label == ""
    assert needed in found.needed[0]
    assert needed in statement(found)[0]


def test_the_message_has_the_numbers_of_this_data_set() -> None:
    said = simulated(patients=1).needed[0]
    assert "the 1 that there are allow at best a residual of" in said
    assert "from the holdout (60 patients)" in said
    assert "from the training split (200)" in said


def test_accepted_inconclusive_attacks_do_not_stand_in_the_way() -> None:
    found = simulated(members=20, terms=GateParameters(inconclusive=True))
    assert found.state == "passed"
    assert [one.state for one in found.clauses[5:7]] == ["inconclusive"] * 2


def test_too_few_images_are_insufficient_data_and_the_next_step_has_numbers() -> None:
    found = simulated(images=100)
    assert found.state == "insufficient_data"
    assert found.clauses[3].state == "not_run"
    said = "\n".join(found.next_steps)
    # The 100 images bound the matches by more than may match, which calibration patients do not change.
    assert "calibration patients instead of" not in said
    more = images_for(0, permitted_match_rate(0.001, found.threshold.missed), TERMS.confidence)
    assert f"Or judge {more:,} images" in said
    assert simulated(images=more).state == "passed"


def test_the_next_step_names_calibration_patients_where_these_suffice() -> None:
    said = "\n".join(simulated(patients=15).next_steps)
    needed = int(said.split(" calibration patients instead of 15")[0].split()[-1])
    assert simulated(patients=needed).state == "passed"


def test_more_matches_than_any_number_of_calibration_patients_allows() -> None:
    said = "\n".join(simulated(patients=299, images=3000, copied=0.01).next_steps)
    assert "calibration patients instead of" not in said
    assert "0.65% may whatever the number of calibration patients" in said


def test_without_a_threshold_dependent_clauses_are_not_met() -> None:
    states = [one.state for one in simulated(patients=0).clauses]
    assert states == ["not_run"] * 4 + ["met", "met", "not_run", "not_run"]


@pytest.mark.parametrize("copied", [0.05, 0.1, 1.0])
def test_a_copying_generator_fails_and_its_copies_are_found(copied: float) -> None:
    found = simulated(patients=100, images=3000, copied=copied, seed=3)
    assert found.state == "failed"
    assert found.matches >= 0.95 * drawn(np.random.default_rng(3), 3000, copied)[1]
    assert found.copy_rate >= copied


def test_copies_among_few_images_still_fail() -> None:
    assert simulated(images=100, copied=0.2).state == "failed"


def test_the_verdict_has_the_number_of_the_try_and_its_alpha() -> None:
    found = simulated(terms=GateParameters(attempt=3))
    facts = json.loads(found.to_json())
    assert (facts["terms"]["attempt"], facts["alpha"]) == (3, pytest.approx(alpha_of_try(3)))
    assert "try 3 on these patients" in statement(found)[1]
    assert found.residual > simulated().residual


def test_a_veto_overrides_a_met_bound() -> None:
    draw = np.random.default_rng(0)
    honest = simulated()
    remembered = membership_inference(draw.normal(size=60) + 5, draw.normal(size=60))
    for veto in (
        replace(honest.attacks, membership=remembered),
        replace(honest.attacks, extraction=restoration(np.zeros(60), np.zeros(60), blind=1)),
        replace(honest.attacks, excess=excess_test(set(range(30)), set(), 60)),
    ):
        found = decide_verdict(nobody(), rate(0, 100), veto, (), subject(), TERMS)
        assert found.residual <= 0.001
        assert found.state == "failed"


def nobody() -> Scores:
    """No synthetic image matches."""
    zeros = np.zeros(3000)
    return Scores({"varied": np.full(59, 0.9)}, zeros, zeros, zeros, np.zeros(MEMBERS))


def test_an_alarm_is_reported_but_does_not_change_the_verdict() -> None:
    alarm = nearest_neighbor_test(np.arange(3000) % 60, np.ones(3000, bool), 60)
    raised = replace(simulated().attacks, closeness=alarm)
    found = decide_verdict(nobody(), rate(0, 100), raised, (), subject(), TERMS)
    assert found.clauses[4].state == "alarm"
    assert found.passed


def test_the_exposure_is_reported_and_limited_only_if_the_policy_says_so() -> None:
    limited = GateParameters(reidentification=0.05)
    assert simulated(exposed=exposure(60, 20)).clauses[7].state == "reported"
    assert simulated(exposed=exposure(60, 20)).passed
    assert simulated(exposed=exposure(60, 20), terms=limited).state == "failed"
    assert simulated(exposed=exposure(24, 20), terms=limited).state == "insufficient_data"
    assert simulated(exposed=exposure(20, 20), terms=limited).passed
    assert simulated(terms=limited).state == "insufficient_data"


def test_the_statement_contains_every_number_and_no_legal_claim() -> None:
    found = simulated(exposed=exposure(20, 20))
    said = "\n".join(statement(found))
    for part in ("aa", "bb", "cc", f"{found.threshold.value:.7f}", "0 of 1,000 images", "Rs:",
                 "holdout", "of 60 training", LABEL, "no legal statement", "real strangers"):  # fmt: skip
        assert part in said, part
    assert len(found.clauses) == 8


def test_the_claim_is_one_sentence_with_its_assumption() -> None:
    found = simulated()
    said = statement(found)[1]
    for part in ("N = 1,000", "k = 0", f"U = {found.upper:.3%}", "n = 59",
                 f"beta = {found.threshold.missed:.2%}", f"{found.residual:.4%}",
                 "copied patients are like the calibration patients"):  # fmt: skip
        assert part in said, part
    assert said.count(". ") == 0


def test_the_verdict_is_strict_json() -> None:
    facts: dict[str, Any] = json.loads(simulated(copied=0.1).to_json())
    assert facts["state"] == "failed"
    assert facts["bound"]["matches"] > 0
    assert simulated(copied=0.1).to_json() == simulated(copied=0.1).to_json()


def test_the_score_plot_is_deterministic() -> None:
    draw = np.random.default_rng(0)
    scores = Scores(
        {"varied": draw.random(50)}, draw.random(90), np.empty(0), draw.random(90), draw.random(9)
    )
    assert score_curves(scores, 0.9) == score_curves(scores, 0.9)
    assert "copies, varied" in score_curves(scores, 0.9)
