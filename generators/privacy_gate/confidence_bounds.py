"""The threshold and what follows from it, by exact bounds.

The threshold is an order statistic of one score a patient, so that at most a share of patients lies below it
whatever the scores are distributed like (Wilks 1941). The share of images that reach it is bounded after
Clopper and Pearson. The two together bound how many images are copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.generators.privacy_gate.parameters import CLAIMED, FLOOR, patients_needed
from medsanitize.verifiers.reid.calibration import clopper_pearson, max_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class MatchThreshold:
    """From which score on two images count as a match.

    Attributes
    ----------
    value
        The score; at or above it is a match.
    patients
        Who calibrated it, one score each.
    overlooked
        How many of their scores may lie below it, so that at most the share asked for is missed.
    missed
        Upper bound of the share of patients who are missed, with the confidence of a claim of two bounds.
    needed
        Empty, or what it would take to calibrate it; the value is then an estimate that promises nothing.
    """

    value: float
    patients: int
    overlooked: int
    missed: float
    needed: str = ""


@dataclass(frozen=True, slots=True)
class MatchBound:
    """What so many matches among so many images mean.

    Attributes
    ----------
    images, matches
        Drawn, and those among them that match a patient.
    lower, upper
        One-sided 95 % bounds of the share of images that match.
    copy_rate
        Upper bound of the share of images that are copies of somebody's, of all that the generator makes.
    residual
        The same of those that are left when matches are removed. Both hold together with what the threshold
        misses in 95 % of cases, as far as copies are found as often as the controls are.
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
    """The lowest score of each patient, over real pairs and every kind of control, ``(patients,)``.

    A threshold that keeps to a rate for these keeps to it for each kind, and no bound is paid for a kind.
    """
    import numpy as np

    return np.asarray(np.minimum.reduce([genuine, *controls.values()]))


def threshold(scores: NDArray[np.float64], missed: float) -> MatchThreshold:
    """The highest score that overlooks at most a share of patients, at 95 %, from one score a patient.

    With ``r`` scores of ``n`` below it the share below is a Beta(r + 1, n - r) variable for any distribution
    without ties, and with ties it is smaller.
    """
    import numpy as np

    count = len(scores)
    overlooked = max_errors(count, missed)
    ascending = np.sort(scores)
    if overlooked < 0:
        estimate = float(ascending[int(missed * count)]) if count else FLOOR
        needed = (
            f"{patients_needed(missed):,} patients to calibrate on with two images or more, and there are"
            f" {count:,}"
        )
        return MatchThreshold(estimate, count, 0, 1.0, needed)
    overlooked = min(overlooked, count - 1)
    bound = clopper_pearson(overlooked, count, CLAIMED)[1]
    return MatchThreshold(float(ascending[overlooked]), count, overlooked, bound)


def bound(images: int, matches: int, missed: float) -> MatchBound:
    """Bound the share of matches, of copies and of copies that removing the matches leaves.

    Of a share ``c`` of copies at least ``c (1 - missed)`` match, so ``c`` is at most the bound of matches
    over ``1 - missed``; ``c missed`` copies stay among at least ``1 - matches`` of the images.
    """
    lower, upper = clopper_pearson(matches, images)
    claimed = clopper_pearson(matches, images, CLAIMED)[1]
    copies = claimed / (1 - missed) if missed < 1 else 1.0
    left = claimed * missed / ((1 - missed) * (1 - claimed)) if missed < 1 and claimed < 1 else 1.0
    return MatchBound(images, matches, lower, upper, min(copies, 1.0), min(left, 1.0))
