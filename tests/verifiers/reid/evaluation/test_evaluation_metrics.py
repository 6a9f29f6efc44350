"""Metrics against brute force and another library, and intervals against known values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.verifiers.reid.calibration import calibrate
from medsanitize.verifiers.reid.evaluation.bootstrap import draws
from medsanitize.verifiers.reid.evaluation.pairwise_auc import sum_pairs
from medsanitize.verifiers.reid.evaluation.retrieval_metrics import rank, summarize
from medsanitize.verifiers.reid.evaluation.score_matrix import distance_scores, verifier_scores


@st.composite
def cohorts(draw: Any) -> tuple[Any, Any]:
    """A few images on a small grid, so that ties are common; patients numbered without gaps."""
    count = draw(st.integers(3, 14))
    people = np.array(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)))
    vectors = draw(st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=count, max_size=count))
    return np.array(vectors, dtype=np.float32), np.unique(people, return_inverse=True)[1]


def brute_force(vectors: Any, people: Any, days: Any = None) -> list[tuple[int, float, float, float]]:
    rows = []
    for query in range(len(vectors)):
        own = [n for n in range(len(vectors)) if people[n] == people[query] and n != query]
        mates = own if days is None else [n for n in own if days[n] != days[query]]
        if not mates:
            continue
        gallery = [n for n in range(len(vectors)) if n != query and (n in mates or n not in own)]
        gallery.sort(key=lambda n: (float(np.linalg.norm(vectors[n] - vectors[query])), n))
        hits = [n in mates for n in gallery[: len(mates)]]
        average = sum(sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit) / len(mates)
        rows.append((query, float(hits[0]), sum(hits) / len(mates), average))
    return rows


@settings(deadline=None, max_examples=200)
@given(cohorts())
def test_retrieval_metrics_match_their_definition(cohort: tuple[Any, Any]) -> None:
    vectors, people = cohort
    found = rank(distance_scores(vectors), people)
    columns = (found.images, found.precision_at_1, found.r_precision, found.average_precision)
    assert np.allclose(np.array(columns).T, np.reshape(brute_force(vectors, people), (-1, 4)))


@settings(deadline=None)
@given(cohorts(), st.randoms())
def test_only_admissible_mates_count_and_other_images_of_the_patient_are_excluded(
    cohort: tuple[Any, Any], random: Any
) -> None:
    vectors, people = cohort
    days = np.array([random.randint(0, 1) for _ in people])
    found = rank(distance_scores(vectors), people, lambda query: days != days[query])
    columns = (found.images, found.precision_at_1, found.r_precision, found.average_precision)
    assert np.allclose(np.array(columns).T, np.reshape(brute_force(vectors, people, days), (-1, 4)))


def test_retrieval_metrics_agree_with_another_library() -> None:
    import torch
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    rng = np.random.default_rng(5)
    people = np.unique(np.r_[rng.integers(0, 25, 80), np.arange(20, 40)], return_inverse=True)[1]
    vectors = (rng.normal(size=(40, 8))[people] + rng.normal(size=(len(people), 8))).astype(np.float32)
    knn = CustomKNN(LpDistance(normalize_embeddings=False))
    theirs = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"),
        k="max_bin_count",
        knn_func=knn,
    ).get_accuracy(torch.from_numpy(vectors), torch.from_numpy(people))
    ours = summarize(rank(distance_scores(vectors), people), people)
    assert ours is not None
    assert ours.precision_at_1 == pytest.approx(theirs["precision_at_1"])
    assert ours.r_precision == pytest.approx(theirs["r_precision"])
    assert ours.map_at_r == pytest.approx(theirs["mean_average_precision_at_r"])


def test_one_image_per_patient_gives_no_query() -> None:
    assert summarize(rank(distance_scores(np.eye(3, dtype=np.float32)), np.arange(3)), np.arange(3)) is None


def pairs_by_hand(scores: Any, people: Any, weights: Any = None) -> tuple[float, float]:
    """Comparisons won by genuine pairs and all comparisons, each patient weighted by ``weights``."""
    weights = np.ones(int(people.max()) + 1) if weights is None else weights
    first, second = np.triu_indices(len(people), 1)
    same, values = people[first] == people[second], scores[first, second]
    genuine, impostor = values[same][:, None], values[~same][None, :]
    won = (genuine > impostor) + 0.5 * (genuine == impostor)
    own = weights[people[first[same]]]
    between = weights[people[first[~same]]] * weights[people[second[~same]]]
    return float(own @ won @ between), float(own.sum() * between.sum())


@settings(deadline=None)
@given(cohorts())
def test_the_auc_is_that_of_all_comparisons(cohort: tuple[Any, Any]) -> None:
    vectors, people = cohort
    scores = distance_scores(vectors)
    won, compared = pairs_by_hand(scores, people)
    if compared:
        assert sum_pairs(scores, people).auc == pytest.approx(won / compared)


@settings(deadline=None)
@given(cohorts())
def test_errors_at_each_score_match_those_of_all_pairs(cohort: tuple[Any, Any]) -> None:
    vectors, people = cohort
    scores = distance_scores(vectors)
    first, second = np.triu_indices(len(people), 1)
    genuine = people[first] == people[second]
    if genuine.all() or not genuine.any():
        return
    found = sum_pairs(scores, people)
    impostors = scores[first[~genuine], second[~genuine]]
    assert found.impostors == len(impostors)
    for score, lower in zip(found.genuine.scores, found.genuine.lower, strict=True):
        assert lower == np.sum(impostors < score)
    assert found.calibration() == calibrate(scores[first, second], people[first], people[second])


def test_a_bootstrap_sample_has_the_auc_of_its_patients() -> None:
    rng = np.random.default_rng(2)
    people = np.unique(rng.integers(0, 30, 60), return_inverse=True)[1]
    vectors = rng.normal(size=(30, 3))[people] + 0.8 * rng.normal(size=(len(people), 3))
    scores = distance_scores(vectors.astype(np.float32))
    found = sum_pairs(scores, people)
    some = next(draws(int(people.max()) + 1, 20))
    true = [np.divide(*pairs_by_hand(scores, people, weights)) for weights in some]
    apart = found.auc_of(some) - true
    assert np.sqrt(np.mean(apart**2)) < 0.1 * np.std(true)
    assert found.auc_of(np.ones((1, some.shape[1])))[0] == pytest.approx(found.auc)


def test_the_block_size_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from medsanitize.verifiers.reid.evaluation import pairwise_auc

    rng = np.random.default_rng(7)
    people = np.unique(rng.integers(0, 12, 40), return_inverse=True)[1]
    scores = distance_scores(rng.integers(0, 4, (40, 2)).astype(np.float32))
    whole = sum_pairs(scores, people)
    monkeypatch.setattr(pairwise_auc, "_MAX_BLOCK_SCORES", 150)
    parts = sum_pairs(scores, people)
    for name in ("sizes", "highest", "lost", "lost_by"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    assert np.array_equal(whole.genuine.wins, parts.genuine.wins)


def test_intervals_have_their_nominal_coverage() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(60):
        # 40 patients with 1 to 4 correlated queries: more images of a patient add little evidence.
        luck = rng.random(40) < 0.7
        people = np.repeat(np.arange(40), rng.integers(1, 5, 40))
        sums = np.bincount(people, weights=luck[people].astype(float))
        counts = np.bincount(people).astype(float)
        drawn = next(draws(40, 1000))
        low, high = np.quantile((drawn @ sums) / (drawn @ counts), [0.025, 0.975])
        inside += low <= 0.7 <= high
    assert inside >= 50


def test_intervals_are_deterministic() -> None:
    people = np.array([0, 0, 1, 1, 2])
    scores = distance_scores(np.arange(10, dtype=np.float32).reshape(5, 2) ** 2)
    assert summarize(rank(scores, people), people) == summarize(rank(scores, people), people)


def test_a_verifier_scores_every_pair_once_and_symmetrically() -> None:
    class Verifier:
        digest, modality, dimension = "0", None, 2

        def score(self, one: Any, other: Any) -> Any:
            return np.exp(-np.abs(one - other).sum(axis=1)).astype(np.float32)

    vectors = np.array([[0, 0], [1, 0], [3, 1]], dtype=np.float32)
    scores = verifier_scores(vectors, Verifier())  # type: ignore[arg-type]
    assert np.allclose(scores, np.exp(-np.array([[0, 1, 4], [1, 0, 3], [4, 3, 0]])))
