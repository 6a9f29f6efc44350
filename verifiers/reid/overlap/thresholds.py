"""The threshold of a comparison and what it costs: from a calibration, never from a number of our own."""

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
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings
from medsanitize.verifiers.reid.overlap.exact_matches import near_duplicate_pairs
from medsanitize.verifiers.reid.overlap.joint_threshold import (
    CalibrationPairs,
    JointThreshold,
    joint_threshold,
)
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.score_pairs import is_exhaustive, score_all_within

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

TARGET_FALSE_NON_MATCH: Final = 0.0025
"""Share of shared patients that a threshold may overlook, where the model can do that."""
MAX_FALSE_NON_MATCH: Final = 0.05
"""Above this bound of the miss rate, finding nothing proves nothing."""
_CANDIDATE_MISS: Final = 0.001
_OWN: Final = "compared_images"
_OWN_IMAGES: Final = 1_500
"""Images of a dataset that serve to calibrate; pairs grow with the square of it."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which score on two images may show one patient, from which on they do, and what that costs.

    Attributes
    ----------
    permissive
        From this score on a pair is possibly of one patient, and a person should look.
    strict
        The strictest score under which nobody is overlooked too often for a claim: what reaches it counts
        against one. Not below ``permissive``.
    strict_max_distance
        Distance up to which such a pair must lie as well; infinite where nothing was calibrated together.
    within
        Distance up to which pairs were given to the verification model; infinite where all were, and for
        scores that are distances.
    search_miss_bound
        Upper bound of the share of shared patients whose pairs lie farther apart than that, or whom a search
        that does not look at every vector does not find.
    pairs
        Pairs of patients behind the shares of false matches.
    source
        Where the calibration comes from: ``given``, ``compared_images`` or ``model``.
    insufficient_data
        What would be needed to promise the target; empty where it is promised.
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
        """Whether a pair shows one patient for sure."""
        return score >= self.strict.threshold and distance <= self.strict_max_distance

    def miss(self, point: OperatingPoint) -> float:
        """Upper bound of the chance that a shared patient does not reach one of the two."""
        return min(1.0, point.false_non_match.upper + self.search_miss_bound)

    def false_match_estimate(self, point: OperatingPoint) -> float:
        """Chance that two different patients reach it: the middle of what the counted pairs allow."""
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

    The first is the lowest one that keeps to the target, or the highest one that overlooks no more than
    `TARGET_FALSE_NON_MATCH` and can still be bounded by `MAX_FALSE_NON_MATCH`, if that is higher: where the
    model tells patients apart with room to spare, there are fewer false matches. The second uses up what
    `MAX_FALSE_NON_MATCH` allows, so that two datasets that share nobody are the less often left in doubt by
    chance; where pairs are there that both models scored, they have to agree (see ``overlap.agreed``).

    Parameters
    ----------
    scores : Calibration
        Of the score that decides.
    distances : Calibration or None
        Of the negated distance, where a verification model decides.
    verified : bool
        Whether the score is that of a verification model.
    target : float
        Wanted false match rate of two patients.
    source : str
        See `Thresholds`.
    every : bool
        Whether a verification model scores every pair, so that the search overlooks nobody.
    overlooked : float
        Upper bound of the share of nearest images that the search itself does not find.
    pairs : CalibrationPairs, optional
        What ``scores`` was made of, where a verification model decides.
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
    """Up to which distance no pair may be left out, and how many shared patients are overlooked by that."""
    if not verified:
        return -point.threshold, overlooked
    if every:
        return math.inf, 0.0
    if distances is None:
        return math.inf, 1.0
    near = distances.for_false_non_match(_CANDIDATE_MISS)
    return -near.threshold, min(1.0, overlooked + near.false_non_match.upper)


def _strictest(scores: Calibration) -> float:
    """The highest threshold that overlooks few enough patients, and proves it where there are enough."""
    count = len(scores.genuine)
    errors = min(
        math.floor(TARGET_FALSE_NON_MATCH * count + 1e-9), max(max_errors(count, MAX_FALSE_NON_MATCH), 0)
    )
    return scores.genuine[min(errors, count - 1)]


def _strict(scores: Calibration, point: OperatingPoint, room: float) -> OperatingPoint:
    """The highest threshold that overlooks at most ``room``, with its bound; ``point`` if there is none."""
    errors = max_errors(len(scores.genuine), room) if room > 0 else -1
    if errors < 0:
        return point
    return scores.at(max(point.threshold, scores.genuine[min(errors, len(scores.genuine) - 1)]))


def thresholds_by_modality(
    datasets: Sequence[DatasetFingerprint],
    models: Models,
    given: Mapping[Modality, Calibration],
    target: float,
) -> dict[Modality, Thresholds]:
    """The limit of every modality that can have one.

    A calibration that is given comes first; then these images themselves, where enough patients have two of
    them; then what came with the model. The nearer a calibration is to the data, the more it promises.
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
            (own[1] if own and _promises(own[1]) else None, _OWN),
            (stored, "model"),
            (own[1] if own else None, _OWN),
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
                    pairs=own[2] if own and verifier and source == _OWN else None,
                )
                break
    return found


def _promises(calibration: Calibration) -> bool:
    """Whether there are patients enough for a claim, should none of them be overlooked."""
    return len(calibration.genuine) >= samples_needed(MAX_FALSE_NON_MATCH)


def _own(
    datasets: Sequence[DatasetFingerprint], modality: Modality, verifier: Verification | None
) -> tuple[Calibration, Calibration, CalibrationPairs] | None:
    """Calibrations from pairs within each dataset: of the negated distance, and of the score that decides."""
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
        return None
    return *calibrated, CalibrationPairs(distances, scores, first, second)


def _pairs_within(
    dataset: DatasetFingerprint, vectors: Embeddings, verifier: Verification | None, number: int
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Distances, scores and patients of pairs of images whose patients are known.

    A copy of one exposure under the same patient says nothing of two exposures, and a copy under two patients
    nothing of different patients: both are left out.
    """
    import numpy as np

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
    # Patients of two sides are never compared here: whether they are the same is the question.
    names = chosen.patients * 2 + 1 + (number << 40)
    where = np.array(kept, bool)
    first, second = names[scored.first[where]], names[scored.second[where]]
    if len(first):
        yield scored.distance[where], scored.score[where], first, second


def _copy(dataset: DatasetFingerprint, one: int, other: int, copies: Mapping[tuple[int, int], int]) -> bool:
    if dataset.pixels[one] is not None and dataset.pixels[one] == dataset.pixels[other]:
        return True
    return dataset.patients[one] == dataset.patients[other] and (one, other) in copies
