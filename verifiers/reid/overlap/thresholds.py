"""Thresholds of a comparison and their error rates, derived from a calibration and never constants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import (
    Calibration,
    OperatingPoint,
    calibrate,
    max_errors,
    samples_needed,
)
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.index.search import VectorSearch
from medsanitize.verifiers.reid.overlap.compare_pairs import is_exhaustive, score_all_within
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings
from medsanitize.verifiers.reid.overlap.exact_matches import near_duplicate_pairs
from medsanitize.verifiers.reid.overlap.joint_threshold import (
    CalibrationPairs,
    JointThreshold,
    joint_threshold,
)
from medsanitize.verifiers.reid.overlap.models import Models

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

# Share of shared patients that the permissive threshold may miss, where the model separates well enough.
TARGET_FALSE_NON_MATCH: Final = 0.0025
# With a higher bound of the false non-match rate, the absence of matches proves nothing.
MAX_FALSE_NON_MATCH: Final = 0.05
# Small against MAX_FALSE_NON_MATCH, which search and threshold have to share.
_CANDIDATE_MISS: Final = 0.001
_COMPARED_IMAGES: Final = "compared_images"
# Images of a dataset used for calibration; the number of pairs grows with its square.
_OWN_IMAGES: Final = 1_500


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Permissive and strict threshold of one modality, with their error rates.

    Attributes
    ----------
    permissive
        A pair that reaches this threshold is a possible match, for manual review.
    strict
        The highest threshold whose false non-match rate still allows a claim: a pair that reaches it counts
        against ``exclusive``. Never below ``permissive``.
    strict_max_distance
        Largest distance of a strict match; infinite without a joint threshold.
    within
        Distance up to which the verification model scored pairs; infinite where it scored all of them, and
        the negated permissive threshold where the score is the distance.
    search_miss_bound
        Upper bound of the share of shared patients that the search misses: their pairs are farther apart than
        ``within``, or an approximate search does not find them.
    pairs
        Pairs of patients behind the false match rates.
    source
        Origin of the calibration: ``given``, ``compared_images`` or ``model``.
    insufficient_data
        What a proof of the target rate would need; empty where the target is proven.
    """

    permissive: OperatingPoint
    strict: OperatingPoint
    within: float
    search_miss_bound: float
    pairs: int
    source: str
    insufficient_data: str = ""
    strict_max_distance: float = math.inf

    def is_strict_match(self, score: float, distance: float) -> bool:
        """Whether a pair is a strict match.

        Parameters
        ----------
        score : float
            Deciding score; higher is more similar.
        distance : float
            Euclidean distance of the embeddings of the retrieval model.
        """
        return score >= self.strict.threshold and distance <= self.strict_max_distance

    def miss(self, point: OperatingPoint) -> float:
        """Bound the probability that a shared patient does not reach ``point`` or is not found."""
        return min(1.0, point.false_non_match.upper + self.search_miss_bound)

    def false_match_estimate(self, point: OperatingPoint) -> float:
        """Estimate the false match rate at ``point``; never 0."""
        # Half an error is added, so that a calibration without false matches does not predict none at all.
        return (point.false_match.share * self.pairs + 0.5) / (self.pairs + 1)


def choose_thresholds(
    scores: Calibration,
    distances: Calibration | None,
    *,
    verified: bool,
    target: float,
    source: str,
    every: bool = False,
    overlooked: float = 0.0,
    pairs: CalibrationPairs | None = None,
) -> Thresholds:
    """Choose the thresholds for a target false match rate.

    The permissive threshold is the lowest one that keeps to the target. It is higher if the model separates
    patients well: the highest one that misses at most `TARGET_FALSE_NON_MATCH` with a bound of at most
    `MAX_FALSE_NON_MATCH`, which gives fewer false matches. The strict threshold uses up
    `MAX_FALSE_NON_MATCH`, so that chance makes fewer comparisons of exclusive datasets inconclusive. Where
    both models scored the calibration pairs, a strict match needs both (see
    `medsanitize.verifiers.reid.overlap.joint_threshold.joint_threshold`).

    Parameters
    ----------
    scores : Calibration
        Of the deciding score.
    distances : Calibration or None
        Of the negated distance, where a verification model decides.
    verified : bool
        Whether the deciding score is that of a verification model.
    target : float
        Requested false match rate, per pair of patients.
    source : str
        See `Thresholds`.
    every : bool
        Whether a verification model scores every pair, so that the search misses nothing.
    overlooked : float
        Upper bound of the share of nearest images that an approximate search does not find.
    pairs : CalibrationPairs, optional
        The pairs behind ``scores``, where a verification model decides.

    Raises
    ------
    UsageError
        If ``target`` is not between 0 and 1.
    """
    floor = scores.for_false_match(target)
    point = scores.at(max(floor.threshold, _strictest(scores)))
    within, miss = _found_within(point, distances, overlooked, verified=verified, every=every)
    both = joint_threshold(pairs, MAX_FALSE_NON_MATCH - miss, point.threshold) if pairs is not None else None
    both = both or JointThreshold(_strict(scores, point, MAX_FALSE_NON_MATCH - miss), math.inf)
    return Thresholds(
        permissive=point,
        strict=both.point,
        strict_max_distance=both.distance,
        within=within,
        search_miss_bound=miss,
        pairs=scores.pairs,
        source=source,
        insufficient_data=floor.insufficient_data,
    )


def _found_within(
    point: OperatingPoint, distances: Calibration | None, overlooked: float, *, verified: bool, every: bool
) -> tuple[float, float]:
    """Search distance that covers shared patients, and the bound of the share that it misses."""
    # The score is the negated distance: the permissive threshold is the search distance.
    if not verified:
        return -point.threshold, overlooked
    if every:
        return math.inf, 0.0
    # Fail closed: without a calibration of the distance, the search may miss every shared patient.
    if distances is None:
        return math.inf, 1.0
    near = distances.for_false_non_match(_CANDIDATE_MISS)
    return -near.threshold, min(1.0, overlooked + near.false_non_match.upper)


def _strictest(scores: Calibration) -> float:
    """Highest threshold that misses few enough patients, proven where the number of patients allows it."""
    count = len(scores.genuine)
    errors = min(
        math.floor(TARGET_FALSE_NON_MATCH * count + 1e-9), max(max_errors(count, MAX_FALSE_NON_MATCH), 0)
    )
    return scores.genuine[min(errors, count - 1)]


def _strict(scores: Calibration, point: OperatingPoint, budget: float) -> OperatingPoint:
    """Highest threshold that misses at most ``budget``, with its bound; ``point`` if there is none."""
    errors = max_errors(len(scores.genuine), budget) if budget > 0 else -1
    if errors < 0:
        return point
    return scores.at(max(point.threshold, scores.genuine[min(errors, len(scores.genuine) - 1)]))


def thresholds_by_modality(
    datasets: Sequence[DatasetFingerprint],
    models: Models,
    given: Mapping[Modality, Calibration],
    target: float,
) -> dict[Modality, Thresholds]:
    """Choose the thresholds of every modality that has a calibration.

    Calibrations are tried in order of closeness to the data: the given one, the compared images if enough of
    their patients have two images, the one stored with the model, and the compared images with too few
    patients.

    Parameters
    ----------
    datasets : sequence of DatasetFingerprint
        The compared datasets.
    models : Models
        Models of the comparison, with their stored calibrations.
    given : mapping of Modality to Calibration
        Calibrations that the caller names.
    target : float
        Requested false match rate, per pair of patients.
    """
    found = {}
    seen = {
        modality: [one.vectors[modality] for one in datasets if modality in one.vectors]
        for modality in Modality
    }
    for modality in Modality:
        every = is_exhaustive([len(one.images) for one in seen[modality]])
        verifier = models.verification.get(modality)
        own = _own(datasets, modality, verifier)
        distances = own[0] if own else models.distances.get(modality)
        stored = models.scores.get(modality) if verifier else models.distances.get(modality)
        for calibration, source in (
            (given.get(modality), "given"),
            (own[1] if own and _promises(own[1]) else None, _COMPARED_IMAGES),
            (stored, "model"),
            (own[1] if own else None, _COMPARED_IMAGES),
        ):
            if calibration is not None:
                found[modality] = choose_thresholds(
                    calibration,
                    distances,
                    verified=verifier is not None,
                    target=target,
                    source=source,
                    every=every,
                    overlooked=max((one.search.overlooked for one in seen[modality]), default=0.0),
                    pairs=own[2] if own and verifier and source == _COMPARED_IMAGES else None,
                )
                break
    return found


def _promises(calibration: Calibration) -> bool:
    """Whether there are enough patients to prove `MAX_FALSE_NON_MATCH` if none of them is missed."""
    return len(calibration.genuine) >= samples_needed(MAX_FALSE_NON_MATCH)


def _own(
    datasets: Sequence[DatasetFingerprint], modality: Modality, verifier: Verification | None
) -> tuple[Calibration, Calibration, CalibrationPairs] | None:
    """Calibrations from pairs within each dataset: of the negated distance and of the deciding score."""
    import numpy as np

    parts = [
        part
        for number, dataset in enumerate(datasets)
        if modality in dataset.vectors
        for part in _pairs_within(dataset, dataset.vectors[modality], verifier, number)
    ]
    if not parts:
        return None
    distances, scores, first, second = (np.concatenate(one) for one in zip(*parts, strict=True))
    try:
        calibrated = calibrate(-distances, first, second), calibrate(scores, first, second)
    except UsageError:
        # Too few patients with two images: the next calibration is tried.
        return None
    return *calibrated, CalibrationPairs(distances, scores, first, second)


def _pairs_within(
    dataset: DatasetFingerprint, vectors: Embeddings, verifier: Verification | None, number: int
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Distances, scores and patients of pairs of images within one dataset, of known patients only.

    Copies are left out: one exposure twice says nothing about two exposures of a patient, and under two
    patient IDs nothing about different patients.
    """
    import numpy as np

    # Two unknown patients may be one: their pairs are neither genuine nor impostor.
    known = np.array([bool(dataset.names[patient]) for patient in vectors.patients])
    rows = np.flatnonzero(known)[:_OWN_IMAGES]
    if len(rows) < 2:
        return
    chosen = Embeddings(
        vectors.images[rows],
        vectors.patients[rows],
        VectorSearch(vectors.first[rows]),
        None if vectors.second is None else vectors.second[rows],
    )
    scored = score_all_within(chosen, verifier)
    images = chosen.images.tolist()
    copies = near_duplicate_pairs(dataset, dataset)
    kept = [
        not _copy(dataset, images[i], images[j], copies)
        for i, j in zip(scored.first.tolist(), scored.second.tolist(), strict=True)
    ]
    # Numbered apart by dataset: whether two datasets share a patient is the question to answer.
    names = chosen.patients * 2 + 1 + (number << 40)
    where = np.array(kept, bool)
    first, second = names[scored.first[where]], names[scored.second[where]]
    if len(first):
        yield scored.distance[where], scored.score[where], first, second


def _copy(dataset: DatasetFingerprint, one: int, other: int, copies: Mapping[tuple[int, int], int]) -> bool:
    if dataset.pixels[one] is not None and dataset.pixels[one] == dataset.pixels[other]:
        return True
    return dataset.patients[one] == dataset.patients[other] and (one, other) in copies
