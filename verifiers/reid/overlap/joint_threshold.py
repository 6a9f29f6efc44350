"""Joint score and distance threshold with one exact bound on the combined false non-match rate.

Impostors that a verification model scores as similar are seldom near for a retrieval model, so that a pair
that reaches both thresholds is less often a false match than one that reaches either. Two thresholds that are
chosen independently need two bounds. Here they cut the sample one after the other: below an order statistic
of the score, then, among the remaining patients, beyond an order statistic of the distance. For any
distribution, the probability that a new patient falls outside depends only on the number k of statistically
equivalent blocks that were cut off (Tukey 1947): for n patients it is Beta(k, n - k + 1), the bound of k - 1
errors in n trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize.verifiers.reid.calibration import (
    OperatingPoint,
    Rate,
    calibrate,
    clopper_pearson,
    max_errors,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationPairs:
    """Pairs of images of known patients; all arrays have one entry per pair.

    Attributes
    ----------
    distance
        Distance of the embeddings of the retrieval model.
    score
        Score of the verification model.
    first, second
        Patient of each image.
    """

    distance: NDArray[np.float64]
    score: NDArray[np.float64]
    first: NDArray[Any]
    second: NDArray[Any]


@dataclass(frozen=True, slots=True)
class JointThreshold:
    """Score threshold with its error rates, and the largest distance of a match.

    In ``point``, ``false_non_match`` counts the patients that miss either threshold; its ``upper`` is the
    bound for the number of blocks cut off minus one, which may be larger than the number of errors.
    """

    point: OperatingPoint
    distance: float


def joint_threshold(pairs: CalibrationPairs, budget: float, least: float) -> JointThreshold | None:
    """Choose the strictest pair of thresholds that misses at most ``budget`` of the patients.

    Parameters
    ----------
    pairs : CalibrationPairs
        Genuine and impostor pairs.
    budget : float
        Allowed share of missed patients, including its bound.
    least : float
        Lowest allowed score threshold.

    Returns
    -------
    JointThreshold or None
        None if there are too few patients, or the score threshold would be below ``least``.
    """
    import numpy as np

    same = pairs.first == pairs.second
    names, owners = np.unique(pairs.first[same], return_inverse=True)
    # A patient passes only if all their pairs do: the lowest score and the largest distance count.
    low, far = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    np.minimum.at(low, owners, pairs.score[same])
    np.maximum.at(far, owners, pairs.distance[same])
    errors = max_errors(len(names), budget) if budget > 0 else -1
    # At least two blocks, one for each threshold.
    if errors < 1:
        return None
    # A threshold with n patients beyond it cuts off n + 1 blocks: two leave errors - 1 patients in all.
    below = (errors - 1) // 2
    order = np.argsort(low, kind="stable")
    threshold = float(low[order[below]])
    # Only among patients above the score threshold: the bound requires blocks to be cut one after the other.
    distance = float(np.sort(far[order[below + 1 :]])[::-1][errors - 1 - below])
    if threshold < least:
        return None
    both = (pairs.score >= threshold) & (pairs.distance <= distance)
    # Scored 1 where both thresholds are reached, so that the calibration counts joint false matches.
    chance = calibrate(both.astype(np.float64), pairs.first, pairs.second).at(1.0).false_match
    missed = int(((low < threshold) | (far > distance)).sum())
    upper = clopper_pearson(errors, len(names))[1]
    lower = clopper_pearson(missed, len(names))[0]
    misses = Rate(missed / len(names), missed, len(names), lower, upper)
    return JointThreshold(OperatingPoint(threshold, chance, misses), distance)
