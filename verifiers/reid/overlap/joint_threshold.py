"""Two thresholds at once, of score and of distance, with one exact bound of what they overlook together.

Two people whom a verification model finds alike are seldom the ones whom a retrieval model finds near, so a
pair that reaches both thresholds is less often an accident than one that reaches either. Chosen one by one,
two thresholds would need two bounds. Here they cut a sample in turns: below an order statistic of the score,
and then, of the patients that are left, beyond one of the distance. Whatever the distribution, a new patient
lies outside with the chance of as many statistically equivalent blocks as were cut off (Tukey 1947): of
n patients and k blocks it is Beta(k, n - k + 1), the bound of k - 1 errors of n.
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
    """Pairs of images of known patients, each array of one length.

    Attributes
    ----------
    distance, score
        Of the retrieval model, and of the verification model.
    first, second
        Who they show.
    """

    distance: NDArray[np.float64]
    score: NDArray[np.float64]
    first: NDArray[Any]
    second: NDArray[Any]


@dataclass(frozen=True, slots=True)
class JointThreshold:
    """From which score and up to which distance both models agree, and what that costs.

    Of ``point``, ``false_non_match`` counts whom these thresholds miss; its ``upper`` is the bound of as many
    errors as blocks were cut off but one, which may be more.
    """

    point: OperatingPoint
    distance: float


def joint_threshold(pairs: CalibrationPairs, room: float, least: float) -> JointThreshold | None:
    """Choose the strictest thresholds that together overlook at most ``room`` of the patients.

    Parameters
    ----------
    pairs : CalibrationPairs
    room : float
        Share of patients.
    least : float
        The threshold of the score may not be lower.

    Returns
    -------
    Agreed or None
        None where there are too few patients, or the score's part in it would lie below ``least``.
    """
    import numpy as np

    same = pairs.first == pairs.second
    names, whose = np.unique(pairs.first[same], return_inverse=True)
    low, far = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    np.minimum.at(low, whose, pairs.score[same])
    np.maximum.at(far, whose, pairs.distance[same])
    errors = max_errors(len(names), room) if room > 0 else -1
    if errors < 1:
        return None
    # One block ends at each threshold, so that two of them leave one patient less below.
    below = (errors - 1) // 2
    order = np.argsort(low, kind="stable")
    threshold = float(low[order[below]])
    distance = float(np.sort(far[order[below + 1 :]])[::-1][errors - 1 - below])
    if threshold < least:
        return None
    both = (pairs.score >= threshold) & (pairs.distance <= distance)
    chance = calibrate(both.astype(np.float64), pairs.first, pairs.second).at(1.0).false_match
    missed = int(((low < threshold) | (far > distance)).sum())
    upper = clopper_pearson(errors, len(names))[1]
    lower = clopper_pearson(missed, len(names))[0]
    misses = Rate(missed / len(names), missed, len(names), lower, upper)
    return JointThreshold(OperatingPoint(threshold, chance, misses), distance)
