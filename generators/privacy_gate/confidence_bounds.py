"""Match threshold and exact bounds of matches and copies.

The threshold is the lowest score of any copy of a calibration patient. The share of patients whose copies
score lower is bounded for any distribution of scores (Wilks 1941): with no error among ``n`` patients, it is
at most ``1 - alpha ** (1 / n)``. The share of images that reach the threshold is bounded after Clopper and
Pearson. Together they bound the share of copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.generators.privacy_gate.parameters import FLOOR, LARGEST_MATCH_RATE, GateParameters
from medsanitize.verifiers.reid.calibration import Rate, clopper_pearson

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
        Number of calibration patients, one score each (n).
    missed
        Upper bound of the share of patients with a copy that scores lower (beta); 1 without patients.
    """

    value: float
    patients: int
    missed: float


@dataclass(frozen=True, slots=True)
class MatchBound:
    """Bounds that follow from the number of matches among the generated images.

    Attributes
    ----------
    images, matches
        Number of generated images (N) and of those that match a patient (k).
    lower, upper
        One-sided bounds of the share of matching images, each at the confidence of the claim (U is the
        upper).
    copy_rate
        Upper bound of the share of copies among all images that the generator makes.
    residual, residual_at_least
        Bound of the share of copies among the images left after matches are removed, from the upper and from
        the lower bound of matches. `copy_rate` and `residual` hold jointly with the miss rate of the
        threshold, provided that copied patients are like the calibration patients.
    """

    images: int
    matches: int
    lower: float
    upper: float
    copy_rate: float
    residual: float
    residual_at_least: float


def lowest_scores(controls: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Lowest score of each patient over all positive controls, ``(patients,)``.

    A threshold that holds for the minimum holds for each kind, without a multiple-testing correction.
    """
    import numpy as np

    return np.asarray(np.minimum.reduce(list(controls.values())))


def miss_rate(patients: int, confidence: float) -> float:
    """Upper bound of the share of missed patients if none of ``patients`` is missed; 1 without patients."""
    return 1 - (1 - confidence) ** (1 / patients) if patients else 1.0


def threshold(scores: NDArray[np.float64], confidence: float) -> MatchThreshold:
    """Lowest score of all patients, and the bound of the share of patients that it misses.

    The number of patients who may be below it is 0, fixed beforehand: a number chosen after the scores were
    seen would void the bound.

    Parameters
    ----------
    scores
        One score per patient, from `lowest_scores`.
    confidence
        Confidence of the bound.
    """
    # Without patients every image matches, so that nothing can be claimed.
    value = float(scores.min()) if len(scores) else FLOOR
    return MatchThreshold(value, len(scores), miss_rate(len(scores), confidence))


def bound(images: int, matches: int, missed: float, confidence: float) -> MatchBound:
    """Bound the share of matches, of copies, and of copies left after matches are removed.

    Of a share ``c`` of copies, at least ``c (1 - missed)`` match: ``c`` is at most the bound of matches
    divided by ``1 - missed``. A share ``c missed`` of copies remains among at least ``1 - matches`` of the
    images.

    Parameters
    ----------
    images, matches
        Number of images, and of those that match.
    missed
        Upper bound of the miss rate of the threshold.
    confidence
        Confidence of each bound of the share of matches.
    """
    lower, upper = clopper_pearson(matches, images, confidence)
    copies = upper / (1 - missed) if missed < 1 else 1.0
    left, least = residual_of(upper, missed), residual_of(lower, missed)
    return MatchBound(images, matches, lower, upper, min(copies, 1.0), left, least)


def residual_of(matched: float, missed: float) -> float:
    """Share of copies left after matches are removed: ``matched missed / ((1 - missed)(1 - matched))``."""
    if missed >= 1 or matched >= 1:
        return 1.0
    return min(matched * missed / ((1 - missed) * (1 - matched)), 1.0)


def largest_match_rate(residual: float, missed: float) -> float:
    """Share of matches whose `residual_of` is ``residual``."""
    odds = residual * (1 - missed) / missed
    return odds / (1 + odds)


def permitted_match_rate(residual: float, missed: float) -> float:
    """Largest bound of the share of matches that passes: `largest_match_rate`, or `LARGEST_MATCH_RATE`."""
    return min(largest_match_rate(residual, missed), LARGEST_MATCH_RATE)


def keeps(found: MatchBound, terms: GateParameters) -> bool:
    """Whether the bounds establish that few enough images match, and few enough copies are left."""
    return found.residual <= terms.residual and found.upper <= LARGEST_MATCH_RATE


def exceeds(found: MatchBound, terms: GateParameters) -> bool:
    """Whether more images could not establish it."""
    return found.residual_at_least > terms.residual or found.lower > LARGEST_MATCH_RATE


def share_of(flags: NDArray[np.bool_]) -> Rate:
    """Share of flags that are set, with exact one-sided bounds."""
    return rate(int(flags.sum()), len(flags))


def rate(errors: int, of: int) -> Rate:
    """A share with exact one-sided bounds; with ``of`` 0 the bounds are 0 and 1."""
    if not of:
        return Rate(0.0, 0, 0, 0.0, 1.0)
    return Rate(errors / of, errors, of, *clopper_pearson(errors, of))
