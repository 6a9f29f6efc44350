"""Fusion of scores and re-ranking of a whole gallery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from medsanitize.verifiers.reid.evaluation.retrieval_metrics import rank
from medsanitize.verifiers.reid.index.reranking import fuse_scores, rerank_scores


def gallery(noise: float, seed: int = 3) -> tuple[Any, Any]:
    """Similarities of images of 120 patients, two each."""
    rng = np.random.default_rng(seed)
    patients = np.repeat(np.arange(120), 2)
    vectors = rng.normal(size=(120, 12))[patients] + noise * rng.normal(size=(240, 12))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T, patients


def precision(scores: Any, patients: Any) -> float:
    return float(rank(scores, patients).average_precision.mean())


def test_a_mate_is_ranked_before_an_image_that_is_near_to_everybody() -> None:
    """Image 6 is a little nearer to image 0 than its mate is, and nearer still to the others."""
    scores = np.zeros((7, 7))
    for one, other in ((0, 1), (2, 3), (4, 5)):
        scores[one, other] = scores[other, one] = 1.0
    scores[6, :6] = scores[:6, 6] = [1.05, 0.5, 1.2, 1.2, 1.3, 1.3]
    patients = np.array([0, 0, 1, 1, 2, 2, 3])

    before, after = (rank(one, patients).precision_at_1[0] for one in (scores, rerank_scores(scores)))

    assert (before, after) == (0.0, 1.0)


def test_two_models_find_more_mates_than_each_alone() -> None:
    patients = np.repeat(np.arange(60), 4)
    rng = np.random.default_rng(5)
    people = rng.normal(size=(60, 12))[patients]
    made = [people + 0.8 * rng.normal(size=(240, 12)) for _ in range(2)]
    one, other = (vectors @ vectors.T for vectors in made)

    fused = precision(fuse_scores([one, other], [0.5, 0.5]), patients)

    assert fused > max(precision(one, patients), precision(other, patients)) + 0.02


def test_scale_and_offset_of_a_model_change_no_fused_score() -> None:
    one, other = gallery(0.7)[0], gallery(0.8, seed=4)[0]

    assert np.allclose(
        fuse_scores([1000 * one - 7, other], [0.5, 0.5]), fuse_scores([one, other], [0.5, 0.5])
    )


def test_the_order_of_the_images_changes_no_score() -> None:
    scores, _ = gallery(0.7)
    shuffled = np.random.default_rng(0).permutation(len(scores))

    moved = rerank_scores(scores[np.ix_(shuffled, shuffled)])

    assert np.allclose(moved, rerank_scores(scores)[np.ix_(shuffled, shuffled)], atol=1e-6)


def test_the_diagonal_has_no_effect() -> None:
    scores, _ = gallery(0.7)
    off = ~np.eye(len(scores), dtype=bool)

    alike = scores + 100 * np.eye(len(scores))

    assert np.array_equal(rerank_scores(alike)[off], rerank_scores(scores)[off])


@pytest.mark.parametrize("images", [2, 3, 8])
def test_a_gallery_smaller_than_the_neighborhood_is_ranked(images: int) -> None:
    scores = np.arange(images**2, dtype=float).reshape(images, images)

    assert np.isfinite(rerank_scores(scores + scores.T)).all()


def test_equal_scores_stay_finite() -> None:
    equal = np.ones((10, 10))

    assert np.isfinite(rerank_scores(fuse_scores([equal, equal], [0.5, 0.5]))).all()
