"""How many images are judged: computed before any of them is sampled.

The number depends on the calibration patients and on how often images of real strangers match, never on the
synthetic images: a number that depended on their matches would void the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from medsanitize.generators.privacy_gate.confidence_bounds import miss_rate, permitted_match_rate
from medsanitize.generators.privacy_gate.parameters import FEWEST_JUDGED, MOST_JUDGED, GateParameters
from medsanitize.verifiers.reid.calibration import Rate, clopper_pearson

# Probability that a generator whose images match as often as strangers passes with the planned number.
_POWER: Final = 0.9
_LEAST_EXPECTED: Final = 0.0005


@dataclass(frozen=True, slots=True)
class DrawPlan:
    """Number of images to judge.

    Attributes
    ----------
    images
        Images to sample and to judge.
    least
        Images that suffice if none of them matches.
    largest
        Largest upper bound of the share of matches that keeps the residual (U).
    expected
        Expected share of matches: that of the strangers, and at least one of 2,000. Only the number of images
        rests on it, no bound does.
    capped
        Whether more images would be needed for a generator whose images match as often as strangers.
    """

    images: int
    least: int
    largest: float
    expected: float
    capped: bool

    @property
    def possible(self) -> bool:
        """Whether the number of images that is judged at most can establish the residual."""
        return self.least <= MOST_JUDGED


def plan_draw(patients: int, strangers: Rate, terms: GateParameters) -> DrawPlan:
    """Compute the number of images to judge.

    Parameters
    ----------
    patients
        Number of calibration patients.
    strangers
        Share of the holdout's images that match a training patient.
    terms
        Parameters of the verdict.
    """
    missed = miss_rate(patients, terms.confidence)
    # A small holdout without a match must not plan for the largest rate that it could have overlooked.
    expected = max(strangers.share, _LEAST_EXPECTED) if strangers.of else 0.5
    if missed >= 1:
        return DrawPlan(0, MOST_JUDGED + 1, 0.0, expected, capped=True)
    largest = permitted_match_rate(terms.residual, missed)
    least = images_for(0, largest, terms.confidence)
    images, capped = _planned(largest, expected, terms.confidence)
    return DrawPlan(min(max(images, least, FEWEST_JUDGED), MOST_JUDGED), least, largest, expected, capped)


def images_for(matches: int, upper: float, confidence: float) -> int:
    """Smallest number of images whose bound is at most ``upper`` with ``matches`` matches.

    Numbers above `MOST_JUDGED` matter only as such: without a match they are exact, otherwise the result is
    `MOST_JUDGED` + 1.
    """
    if not matches:
        return math.ceil(math.log(1 - confidence) / math.log1p(-upper) - 1e-9)
    low, high = matches, MOST_JUDGED + 1
    while low < high:
        middle = (low + high) // 2
        if clopper_pearson(matches, middle, confidence)[1] <= upper:
            high = middle
        else:
            low = middle + 1
    return low


def patients_for(matched: float, residual: float, confidence: float) -> int:
    """Smallest number of calibration patients with which a bound of matches keeps the residual."""
    if matched >= 1:
        return 0
    odds = residual * (1 - matched) / matched
    return math.ceil(math.log(1 - confidence) / math.log1p(-odds / (1 + odds)) - 1e-9)


def _planned(largest: float, expected: float, confidence: float) -> tuple[int, bool]:
    from scipy.stats import binom  # type: ignore[import-untyped]

    # Strangers match more often than images may: only a generator that matches less can pass, and a large
    # number would not help it.
    if expected >= largest:
        return 0, True
    # Matches and images grow together: the first number of matches that is rarely exceeded is enough.
    matches = 0
    while True:
        images = images_for(matches, largest, confidence)
        if images > MOST_JUDGED:
            break
        if binom.cdf(matches, images, expected) >= _POWER:
            return images, False
        matches += 1
    return MOST_JUDGED, True
