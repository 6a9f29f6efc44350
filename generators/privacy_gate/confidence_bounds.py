"""Match threshold and exact bounds of matches and copies.

The threshold is an order statistic of one score per patient, so that the share of patients below it is
bounded for any distribution of scores (Wilks 1941). The share of images that reach it is bounded after
Clopper and Pearson. Together they bound the share of copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.generators.privacy_gate.parameters import CLAIM_CONFIDENCE, FLOOR, patients_needed
from medsanitize.verifiers.reid.calibration import clopper_pearson, max_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class MatchThreshold:
    """Score from which on two images match.

    Attributes
    ----------
    value
        Scores at or above it are matches.
    patients
        Number of calibration patients, one score each.
    overlooked
        Number of their scores that may be below it while the false non-match rate is kept.
    missed
        Upper bound of the share of missed patients, at the confidence `CLAIM_CONFIDENCE`.
    needed
        Data missing for a calibration, or empty. If not empty, `value` is an estimate without a guarantee.
    """

    value: float
    patients: int
    overlooked: int
    missed: float
    needed: str = ""


@dataclass(frozen=True, slots=True)
class MatchBound:
    """Bounds that follow from the number of matches among the generated images.

    Attributes
    ----------
    images, matches
        Number of generated images and of those that match a patient.
    lower, upper
        One-sided 95 % bounds of the share of matching images.
    copy_rate
        Upper bound of the share of copies among all images that the generator makes.
    residual
        Upper bound of the share of copies among the images left after matches are removed. Both bounds hold
        jointly with the miss rate of the threshold in 95 % of cases, provided that copies are found as often
        as the positive controls.
    """

    images: int
    matches: int
    lower: float
    upper: float
    copy_rate: float
    residual: float


def lowest_scores(
    genuine: NDArray[np.float64], controls: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Lowest score of each patient over real pairs and all positive controls, ``(patients,)``.

    A threshold that holds for the minimum holds for each kind, without a multiple-testing correction.
    """
    import numpy as np

    return np.asarray(np.minimum.reduce([genuine, *controls.values()]))


def threshold(scores: NDArray[np.float64], missed: float) -> MatchThreshold:
    """Highest score that misses at most a share of patients, at 95 % confidence.

    With ``r`` of ``n`` scores below it, the share of the population below is Beta(r + 1, n - r) distributed
    for any continuous distribution; ties make it smaller.

    Parameters
    ----------
    scores
        One score per patient, from `lowest_scores`.
    missed
        Permitted share of missed patients.
    """
    import numpy as np

    count = len(scores)
    overlooked = max_errors(count, missed)
    ascending = np.sort(scores)
    if overlooked < 0:
        # Too few patients for a guarantee: the estimate serves the report, `needed` blocks a pass.
        estimate = float(ascending[int(missed * count)]) if count else FLOOR
        needed = (
            f"{patients_needed(missed):,} calibration patients with two or more images (available: {count:,})"
        )
        return MatchThreshold(estimate, count, 0, 1.0, needed)
    # max_errors() may allow every score to be below; the threshold must remain one of the scores.
    overlooked = min(overlooked, count - 1)
    bound = clopper_pearson(overlooked, count, CLAIM_CONFIDENCE)[1]
    return MatchThreshold(float(ascending[overlooked]), count, overlooked, bound)


def bound(images: int, matches: int, missed: float) -> MatchBound:
    """Bound the share of matches, of copies, and of copies left after matches are removed.

    Of a share ``c`` of copies, at least ``c (1 - missed)`` match: ``c`` is at most the bound of matches
    divided by ``1 - missed``. A share ``c missed`` of copies remains among at least ``1 - matches`` of the
    images.
    """
    lower, upper = clopper_pearson(matches, images)
    # Each of the two bounds behind a claim takes half of alpha (Bonferroni).
    claimed = clopper_pearson(matches, images, CLAIM_CONFIDENCE)[1]
    copies = claimed / (1 - missed) if missed < 1 else 1.0
    left = claimed * missed / ((1 - missed) * (1 - claimed)) if missed < 1 and claimed < 1 else 1.0
    return MatchBound(images, matches, lower, upper, min(copies, 1.0), min(left, 1.0))
