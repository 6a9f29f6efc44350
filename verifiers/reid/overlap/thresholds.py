"""Thresholds of a comparison and their error rates: those of strangers within the compared datasets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.calibration import (
    Calibration,
    OperatingPoint,
    calibrate_strangers,
    max_errors,
    samples_needed,
)
from medsanitize.verifiers.reid.exchangeability import difference
from medsanitize.verifiers.reid.overlap.compare_pairs import is_exhaustive
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import Embeddings
from medsanitize.verifiers.reid.overlap.joint_threshold import (
    CalibrationPairs,
    JointThreshold,
    joint_threshold,
)
from medsanitize.verifiers.reid.overlap.own_pairs import OwnPairs, joined

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.models.protocols import Verification

# Share of shared patients that the permissive threshold may miss, where the model separates well enough.
TARGET_FALSE_NON_MATCH: Final = 0.0025
# With a higher bound of the false non-match rate, the absence of matches proves nothing.
MAX_FALSE_NON_MATCH: Final = 0.05
# Small against MAX_FALSE_NON_MATCH, which search and threshold have to share.
_CANDIDATE_MISS: Final = 0.001
COMPARED_IMAGES: Final = "compared_images"


@dataclass(frozen=True, slots=True)
class StoredCalibrations:
    """Calibrations of other images, for one modality.

    Attributes
    ----------
    given
        The one that the caller names.
    model
        The one stored with the model of the deciding score.
    distances
        The one of the negated distance stored with the retrieval model.
    """

    given: Calibration | None = None
    model: Calibration | None = None
    distances: Calibration | None = None


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
        Pairs of strangers within the compared datasets behind the false match rates.
    source
        Origin of the false non-match rates: ``given``, ``compared_images`` or ``model``.
    insufficient_data
        What a proof of the target rate would need; empty where the target is proven.
    unquoted
        Why a stored calibration does not hold for these images; empty where it does or none was tried.
    both_sides
        Whether strangers of both datasets are behind the rates. Otherwise the thresholds only order pairs
        for review, and support no verdict.
    """

    permissive: OperatingPoint
    strict: OperatingPoint
    within: float
    search_miss_bound: float
    pairs: int
    source: str
    insufficient_data: str = ""
    strict_max_distance: float = math.inf
    unquoted: str = ""
    both_sides: bool = True

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
        Of the deciding score; its strangers are those of the compared images.
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
    if distances is None or not distances.genuine:
        return math.inf, 1.0
    near = distances.for_false_non_match(_CANDIDATE_MISS)
    return -near.threshold, min(1.0, overlooked + near.false_non_match.upper)


def _strictest(scores: Calibration) -> float:
    """Highest threshold that misses few enough patients, proven where the number of patients allows it."""
    count = len(scores.genuine)
    if not count:
        return -math.inf
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


def thresholds_of(
    sides: Sequence[Embeddings],
    own: Sequence[OwnPairs | None],
    verifier: Verification | None,
    stored: StoredCalibrations,
    target: float,
) -> Thresholds | None:
    """Choose the thresholds for the images of one modality in two datasets.

    False match rates are those of strangers within these datasets. False non-match rates are those of the
    patients of these datasets if enough of them have two images, else those of the calibration that the
    caller gives or of the one stored with the model, if `difference` finds none, else again those of these
    patients.

    Parameters
    ----------
    sides : sequence of Embeddings
        The compared images of each dataset.
    own : sequence of OwnPairs or None
        Pairs within each dataset; see `pairs_within`.
    verifier : Verification or None
        The verification model, where one decides.
    stored : StoredCalibrations
        Calibrations of other images.
    target : float
        Requested false match rate, per pair of patients.

    Returns
    -------
    Thresholds or None
        None if no two patients are known apart in either dataset.
    """
    pairs = joined(tuple(one for one in own if one is not None))
    if pairs is None:
        return None
    within = pairs.pairs
    strangers = calibrate_strangers(within.score, within.first, within.second)
    distances = calibrate_strangers(-within.distance, within.first, within.second)
    calibration, source, unquoted = with_misses(strangers, stored)
    searched = distances if distances.genuine else stored.distances
    found = choose_thresholds(
        calibration,
        searched if searched is not None and not (searched is stored.distances and unquoted) else None,
        verified=verifier is not None,
        target=target,
        source=source,
        every=is_exhaustive([len(one.images) for one in sides]),
        overlooked=max((one.search.overlooked for one in sides), default=0.0),
        pairs=within if verifier and source == COMPARED_IMAGES and calibration.genuine else None,
    )
    # Strangers of one dataset say nothing about the images of the other.
    return replace(found, unquoted=unquoted, both_sides=all(one is not None for one in own))


def with_misses(own: Calibration, stored: StoredCalibrations) -> tuple[Calibration, str, str]:
    """Calibration, source of its false non-match rates, and why a stored one does not give them."""
    if len(own.genuine) >= samples_needed(MAX_FALSE_NON_MATCH):
        return own, COMPARED_IMAGES, ""
    why = ""
    for calibration, source in ((stored.given, "given"), (stored.model, "model")):
        if calibration is None:
            continue
        reason = difference(own, calibration)
        if not reason:
            return replace(own, genuine=calibration.genuine), source, ""
        why = why or reason
    return own, COMPARED_IMAGES, why
