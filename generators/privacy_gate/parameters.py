"""Parameters and error budget of the privacy gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import CONFIDENCE, samples_needed

# The label of images that pass. It describes the tests and makes no statement of law.
LABEL: Final = "no match found by these attacks at this bound"

# Total error probability of a claim; the bounds behind one claim share it (Bonferroni).
ALPHA: Final = round(1 - CONFIDENCE, 9)
# Two bounds are behind the copy rate and the residual: that of misses and that of matches.
CLAIM_CONFIDENCE: Final = 1 - ALPHA / 2
# Nearest neighbor, membership and restoration test: those that could reject an honest generator.
TESTS: Final = 3
TEST_CONFIDENCE: Final = 1 - ALPHA / TESTS
# False positive rate at which membership inference is measured.
FALSE_POSITIVE: Final = 0.01
# Patients per split below which this false positive rate cannot be measured.
FEWEST_MEMBERS: Final = round(1 / FALSE_POSITIVE)
MAX_MISS_RATE: Final = 0.01
MAX_MATCH_RATE: Final = 0.001
# Lowest possible score; used for pairs that the search did not compare.
FLOOR: Final = 0.0


@dataclass(frozen=True, slots=True)
class GateParameters:
    """Parameters that a policy may set.

    Attributes
    ----------
    missed
        Permitted false non-match rate of the threshold, by patient (beta).
    most
        Permitted upper bound of the share of images that match a patient (u*).
    strength
        Strength of the image-to-image positive controls.

    Raises
    ------
    UsageError
        If a value is not between 0 and 1, exclusive.
    """

    missed: float = MAX_MISS_RATE
    most: float = MAX_MATCH_RATE
    strength: float = 0.2

    def __post_init__(self) -> None:
        if not all(0 < one < 1 for one in (self.missed, self.most, self.strength)):
            raise UsageError(
                "A rate or strength of the gate is not between 0 and 1", "Use a value such as 0.001"
            )


def images_needed(most: float = MAX_MATCH_RATE) -> int:
    """Images without a match needed for an upper bound of ``most``: 2,995 for 0.1 %."""
    return samples_needed(most)


def patients_needed(missed: float = MAX_MISS_RATE) -> int:
    """Patients without a miss needed to calibrate a threshold: 299 for 1 %."""
    return samples_needed(missed)
