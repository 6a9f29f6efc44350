"""The whole evaluation and its page, on simulated vectors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import calibrate
from medsanitize.verifiers.reid.evaluation.evaluate import Evaluation, evaluate
from medsanitize.verifiers.reid.evaluation.evaluation_report import evaluation_page
from medsanitize.verifiers.reid.evaluation.score_matrix import distance_scores
from medsanitize.verifiers.reid.labels import Labels

MODELS = {"retrieval": "packaged ImageNet features", "modality": "radiograph"}


def cohort(patients: int = 24, noise: float = 0.5) -> tuple[Labels, Any]:
    rng = np.random.default_rng(1)
    people = np.repeat(np.arange(patients), rng.integers(1, 4, patients))
    vectors = (rng.normal(size=(patients, 4))[people] + noise * rng.normal(size=(len(people), 4))).astype(
        "f4"
    )
    days = np.where(rng.random(len(people)) < 0.2, np.nan, rng.integers(0, 900, len(people)))
    labels = Labels(
        paths=tuple(Path(f"secret-{n}.png") for n in range(len(people))),
        patients=tuple(f"patient-{one}" for one in people),
        views=tuple(rng.choice(["AP", "PA", ""], len(people)).tolist()),
        offset_days=days,
        extra={"finding": tuple(rng.choice([f"f{n}" for n in range(15)], len(people)).tolist())},
        excluded={"not readable: not-an-image": 2},
    )
    return labels, vectors


@pytest.fixture(scope="module")
def measured() -> Evaluation:
    labels, vectors = cohort()
    return evaluate(labels, distance_scores(vectors), None, models=MODELS)


def brute_decisions(measured: Evaluation, labels: Labels, scores: Any) -> dict[str, float]:
    made = measured.verification.decisions
    assert made is not None
    people = np.unique(labels.patients, return_inverse=True)[1]
    first, second = np.triu_indices(len(people), 1)
    same = people[first] == people[second]
    above = scores[first, second].astype(float) >= made.thresholds[0]
    recall, false = above[same].mean(), above[~same].mean()
    precision = recall / (recall + false)
    return {
        "recall": recall,
        "specificity": 1 - false,
        "accuracy": (recall + 1 - false) / 2,
        "precision": precision,
        "f1": 2 * precision * recall / (precision + recall),
    }


def test_the_values_are_inside_their_intervals(measured: Evaluation) -> None:
    for block, names in (
        (measured.retrieval, ("precision_at_1", "r_precision", "map_at_r")),
        (measured.verification, ("auc",)),
        (measured.verification.decisions, ("accuracy", "specificity", "recall", "precision", "f1")),
    ):
        for name in names:
            low, high = block.intervals[name]  # type: ignore[union-attr]
            assert low <= getattr(block, name) <= high
            assert low < high


def test_decisions_at_the_models_threshold_are_counted_over_all_pairs() -> None:
    labels, vectors = cohort()
    scores = distance_scores(vectors)
    people = np.array(labels.patients)
    first, second = np.triu_indices(len(people), 1)
    calibration = calibrate(scores[first, second], people[first], people[second])
    found = evaluate(labels, scores, None, models=MODELS, calibration=calibration, target=0.1)
    made = found.verification.decisions
    assert made is not None
    assert made.calibrated_on == "model"
    assert made.thresholds == (calibration.for_false_match(0.1).threshold,)
    for name, value in brute_decisions(found, labels, scores).items():
        assert getattr(made, name) == pytest.approx(value)
    same = int((people[first] == people[second]).sum())
    assert (made.matched + made.missed, made.rejected + made.confused) == (same, len(first) - same)


def test_without_a_calibration_each_half_sets_the_threshold_for_the_other(measured: Evaluation) -> None:
    made = measured.verification.decisions
    assert made is not None
    assert made.calibrated_on == "other half"
    assert len(made.thresholds) == 2
    assert made.rejected + made.confused < measured.verification.impostor_pairs
    assert "598 patients required, 12 available" in made.insufficient_data


def test_the_error_curve_is_monotonic(measured: Evaluation) -> None:
    thresholds, false, missed = (list(column) for column in zip(*measured.verification.curve, strict=True))
    assert thresholds == sorted(thresholds)
    assert false == sorted(false, reverse=True)
    assert missed == sorted(missed)
    assert missed[0] == 0


def test_subgroups_add_up_and_are_limited_in_number(measured: Evaluation) -> None:
    kinds: dict[str, list[Any]] = {}
    for one in measured.subgroups:
        kinds.setdefault(one.kind, []).append(one)
    assert len(kinds) == 5
    for kind, parts in kinds.items():
        whole = measured.retrieval.queries if "query" in kind else measured.verification.genuine_pairs
        assert sum(one.count for one in parts) == whole
        assert len(parts) <= 12
    times = kinds["time between the images"]
    mean = sum(one.auc * one.count for one in times) / sum(one.count for one in times)
    assert mean == pytest.approx(measured.verification.auc)
    order = ["same day", "up to 30 days", "up to 1 year", "1 to 2 years", "2 to 5 years", "not stated"]
    assert [one.name for one in times] == [name for name in order if name in {one.name for one in times}]


def test_mates_of_another_day_require_both_dates() -> None:
    labels, vectors = cohort()
    none = Labels(labels.paths, labels.patients, labels.views, np.full(len(labels), np.nan))
    assert evaluate(none, distance_scores(vectors), None, models=MODELS).retrieval_other_day is None


def test_the_result_is_strict_json_without_names(measured: Evaluation) -> None:
    text = json.dumps(measured.to_json(), allow_nan=False)
    facts = json.loads(text)
    assert facts["retrieval"]["precision_at_1"] == measured.retrieval.precision_at_1
    assert facts["verification"]["auc"] == measured.verification.auc
    assert facts["excluded"] == {"not readable: not-an-image": 2}
    assert facts["intervals"]["draws"] == 10_000
    assert "secret" not in text
    assert "patient-" not in text


def test_the_page_is_complete_without_names(measured: Evaluation) -> None:
    page = evaluation_page(measured).decode()
    assert not re.search(r"url\((?!#)|@import|https?://|<script|<img|<link", page)
    assert "secret" not in page
    assert "patient-" not in page
    assert page.count("<svg") == 2 + 5
    assert "Excluded: 2 (not readable: not-an-image: 2)." in page
    assert f"{measured.retrieval.precision_at_1:.4f}" in page
    assert evaluation_page(measured).decode() == page


def test_verifier_scores_replace_distances_only_for_pairs(measured: Evaluation) -> None:
    labels, vectors = cohort()
    scores = distance_scores(vectors)
    other = np.exp(scores / 3)
    found = evaluate(labels, scores, other, models=MODELS)
    assert found.verification.score == "verifier"
    assert found.retrieval == measured.retrieval
    assert found.verification.auc == pytest.approx(measured.verification.auc, abs=1e-3)


def test_a_verifier_adds_a_search_by_both_models_that_finds_more() -> None:
    labels, vectors = cohort(patients=60, noise=0.6)
    noise = np.random.default_rng(2).normal(size=vectors.shape)
    again = (vectors + 0.3 * noise).astype("f4")

    found = evaluate(labels, distance_scores(again), np.exp(distance_scores(vectors)), models=MODELS)

    assert found.search is not None
    assert found.search.map_at_r > found.retrieval.map_at_r
    assert "re-ranked" in evaluation_page(found).decode()


@pytest.mark.parametrize(
    ("patients", "said"),
    [(("a", "b", "c"), "only one image of each patient"), (("a",) * 3, "only one patient")],
)
def test_unmeasurable_input_is_a_clear_error(patients: tuple[str, ...], said: str) -> None:
    labels = Labels((Path("x"),) * 3, patients, ("",) * 3, np.full(3, np.nan))
    with pytest.raises(UsageError, match=said):
        evaluate(labels, distance_scores(np.eye(3, dtype=np.float32)), None, models=MODELS)


def test_with_few_patients_no_threshold_is_set_and_the_page_states_it() -> None:
    labels = Labels((Path("x"),) * 4, ("a", "a", "b", "c"), ("",) * 4, np.full(4, np.nan))
    found = evaluate(labels, distance_scores(np.eye(4, dtype=np.float32)), None, models=MODELS)
    assert found.verification.decisions is None
    assert "No threshold was set" in evaluation_page(found).decode()
