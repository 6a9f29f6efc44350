"""Evaluation of a re-identification model: from scores and labels to metrics with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.evaluation.bootstrap import COVERAGE, DRAWS, SEED, Interval, intervals
from medsanitize.verifiers.reid.evaluation.operating_point import ThresholdMetrics, threshold_metrics
from medsanitize.verifiers.reid.evaluation.pairwise_auc import AllPairs, sum_pairs
from medsanitize.verifiers.reid.evaluation.retrieval_metrics import Queries, RetrievalMetrics, rank, summarize
from medsanitize.verifiers.reid.evaluation.subgroups import Subgroup, measure_subgroups
from medsanitize.verifiers.reid.exchangeability import difference
from medsanitize.verifiers.reid.index.reranking import fuse_scores, rerank_scores

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.labels import Labels
    from numpy.typing import NDArray

_STEPS: Final = 200
# Of the two models in a search, chosen with `reranking.NEIGHBORS`.
_VERIFIER_WEIGHT: Final = 0.7
# Scores in float32 that are nearer to 1 are equal to it.
_LEAST: Final = 1e-7


@dataclass(frozen=True, slots=True)
class VerificationMetrics:
    """Verification metrics over all pairs of images.

    Attributes
    ----------
    score
        ``verifier``, or ``distance`` (negated Euclidean distance of the embeddings).
    auc
        Area under the ROC curve.
    genuine_pairs, impostor_pairs
        Number of pairs of images of one patient, and of two.
    intervals
        95 % intervals by name.
    decisions
        Classification at a threshold; None where too few patients have two images to set one.
    curve
        ``(threshold, false match rate, false non-match rate)`` over all pairs, ascending thresholds.
    """

    score: str
    auc: float
    genuine_pairs: int
    impostor_pairs: int
    intervals: dict[str, Interval]
    decisions: ThresholdMetrics | None
    curve: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of an evaluation; it names no image and no patient.

    Attributes
    ----------
    images, patients
        Numbers of evaluated images and patients.
    excluded
        Number of images that were left out, by reason.
    models
        Description of the models.
    retrieval
        Retrieval by distance.
    retrieval_other_day
        Retrieval of images of another day only; None where days are unknown.
    retrieval_by_score
        Retrieval by the score of the verification model; None without one.
    search
        Retrieval by both models, re-ranked over all images; None without a verification model.
    verification
        Verification metrics.
    subgroups
        Metrics by subgroup.
    """

    images: int
    patients: int
    excluded: Mapping[str, int]
    models: Mapping[str, str]
    retrieval: RetrievalMetrics
    retrieval_other_day: RetrievalMetrics | None
    retrieval_by_score: RetrievalMetrics | None
    search: RetrievalMetrics | None
    verification: VerificationMetrics
    subgroups: tuple[Subgroup, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        facts = asdict(self)
        facts["intervals"] = {
            "coverage": COVERAGE,
            "draws": DRAWS,
            "drawn": "patients, with replacement",
            "seed": SEED,
        }
        return facts


def evaluate(
    labels: Labels,
    distances: NDArray[np.float32],
    pair_scores: NDArray[np.float32] | None,
    *,
    models: Mapping[str, str],
    calibration: Calibration | None = None,
    target: float = 0.01,
    calibrated_on: str = "model",
) -> Evaluation:
    """Evaluate a re-identification model on labeled images.

    Parameters
    ----------
    labels : Labels
        One entry per row of the scores.
    distances : array of float32, shape (images, images)
        Scores of the retrieval model, see
        `medsanitize.verifiers.reid.evaluation.score_matrix.distance_scores`.
    pair_scores : array of float32, shape (images, images), or None
        Scores of the verification model; without them ``distances`` are the pair scores.
    models : mapping of str to str
        Description of the models for the result.
    calibration : Calibration, optional
        Calibration of the pair scores, of other images; it sets the threshold only if these patients
        score as its own do.
    target : float
        False match rate of the threshold.
    calibrated_on : str
        Where the calibration comes from: ``model`` or ``given``.

    Raises
    ------
    UsageError
        If no patient has two images, or there is only one patient.
    """
    import numpy as np

    patients = np.unique(np.array(labels.patients), return_inverse=True)[1]
    queries = rank(distances, patients)
    retrieval = summarize(queries, patients)
    people = int(patients.max()) + 1
    if retrieval is None or people < 2:
        raise _nothing("one image of each patient" if retrieval is None else "one patient")
    scores = distances if pair_scores is None else pair_scores
    pairs = sum_pairs(scores, patients)
    # A threshold of other images would give another false match rate than the one that it is named for.
    reason = "" if calibration is None else difference(pairs.calibration(), calibration)
    decided = threshold_metrics(
        pairs, scores, patients, None if reason else calibration, target, calibrated_on, reason
    )
    return Evaluation(
        images=len(labels),
        patients=people,
        excluded=labels.excluded,
        models=models,
        retrieval=retrieval,
        retrieval_other_day=summarize(_other_day(distances, patients, labels), patients),
        retrieval_by_score=None if pair_scores is None else summarize(rank(pair_scores, patients), patients),
        search=None if pair_scores is None else _search(distances, pair_scores, patients),
        verification=VerificationMetrics(
            score="distance" if pair_scores is None else "verifier",
            auc=pairs.auc,
            genuine_pairs=len(pairs.genuine.scores),
            impostor_pairs=pairs.impostors,
            intervals=intervals(people, lambda drawn: {"auc": pairs.auc_of(drawn)}),
            decisions=decided and decided[0],
            curve=_curve(pairs),
        ),
        subgroups=measure_subgroups(labels, patients, queries, pairs, decided and decided[1]),
    )


def _nothing(there_is: str) -> UsageError:
    return UsageError(
        f"There is only {there_is}: nothing can be measured",
        "Add patients, at least some with two or more images",
    )


def _search(
    distances: NDArray[np.float32], pair_scores: NDArray[np.float32], patients: NDArray[np.intp]
) -> RetrievalMetrics | None:
    """Retrieve by both models, re-ranked; the patients are not used before the ranks are judged."""
    import numpy as np

    # As logits: most scores are so near to 0 or 1 that their deviation says nothing.
    inside = pair_scores.astype(np.float64).clip(_LEAST, 1 - _LEAST)
    logits = np.log(inside / (1 - inside))
    fused = fuse_scores([distances, logits], [1 - _VERIFIER_WEIGHT, _VERIFIER_WEIGHT])
    reranked = rerank_scores(fused).astype(np.float32)
    return summarize(rank(reranked, patients), patients)


def _other_day(distances: NDArray[np.float32], patients: NDArray[np.intp], labels: Labels) -> Queries:
    """Retrieve images of another day only; both days must be known."""
    days = labels.offset_days
    # An unknown day (NaN) differs from every day and must not count as another one: NaN == NaN is False.
    return rank(
        distances,
        patients,
        lambda query: (days != days[query]) & (days == days) & (days[query] == days[query]),
    )


def _curve(pairs: AllPairs) -> tuple[tuple[float, float, float], ...]:
    """Error rates at the scores of about 200 genuine pairs."""
    import numpy as np

    scores = pairs.genuine.scores
    # The first of equal scores: all of them reach the threshold.
    firsts = np.searchsorted(scores, np.unique(scores))
    chosen = np.unique(firsts[np.linspace(0, len(firsts) - 1, min(_STEPS, len(firsts))).astype(int)])
    false_match = 1 - pairs.genuine.lower[chosen] / pairs.impostors
    false_non_match = chosen / len(scores)
    columns = (scores[chosen].astype(float), false_match, false_non_match)
    return tuple(zip(*(column.tolist() for column in columns), strict=True))
