"""What the gate promises, and what it is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import CONFIDENCE, samples_needed

LABEL: Final = "no match found by these attacks at this bound"
"""What a set of images that passes is called. It is no statement of law."""

ALPHA: Final = round(1 - CONFIDENCE, 9)
"""How often what is claimed may be wrong, in all: the bounds behind one claim share it (Bonferroni)."""
CLAIMED: Final = 1 - ALPHA / 2
"""Confidence of either bound behind the copy rate and the residual: of what is missed, and of matches."""
TESTS: Final = 3
"""Tests that may turn on an honest generator: closeness, membership, restoration. They share ALPHA too."""
TESTED: Final = 1 - ALPHA / TESTS
FALSE_POSITIVE: Final = 0.01
"""Share of people not trained on whom the membership attack may call members."""
FEWEST_MEMBERS: Final = round(1 / FALSE_POSITIVE)
"""Patients on either split without whom such a share cannot be seen."""
MISSED: Final = 0.01
MOST: Final = 0.001
FLOOR: Final = 0.0
"""Score of a pair that the search overlooks: the lowest there is."""


@dataclass(frozen=True, slots=True)
class GateParameters:
    """What may be chosen.

    Attributes
    ----------
    missed
        Share of patients whose images the threshold may overlook (the false non-match rate, beta).
    most
        Highest upper bound of the share of images that match a patient (u*).
    strength
        Of the image-to-image copies among the positive controls.

    Raises
    ------
    UsageError
        If one of them is not between 0 and 1.
    """

    missed: float = MISSED
    most: float = MOST
    strength: float = 0.2

    def __post_init__(self) -> None:
        if not all(0 < one < 1 for one in (self.missed, self.most, self.strength)):
            raise UsageError(
                "A rate or a strength that the gate is given is not between 0 and 1", "Give one such as 0.001"
            )


def images_needed(most: float = MOST) -> int:
    """How many images without a match it takes for an upper bound of ``most``: 2,995 for 0.1 %."""
    return samples_needed(most)


def patients_needed(missed: float = MISSED) -> int:
    """How many patients without a miss it takes to calibrate a threshold: 299 for 1 %."""
    return samples_needed(missed)
