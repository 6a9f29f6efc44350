"""Parameters and error budget of the privacy gate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.calibration import CONFIDENCE

# The label of images that pass. It describes the tests and makes no statement of law.
LABEL: Final = "no match found by these attacks at this bound"

# Total error probability of the claims on the same patients, over all tries.
ALPHA: Final = round(1 - CONFIDENCE, 9)
# Excess, nearest neighbor, membership and restoration test: those that could reject an honest generator.
TESTS: Final = 4
TEST_CONFIDENCE: Final = 1 - ALPHA / TESTS
# False positive rate at which membership inference is measured, if the holdout is large enough for it.
FALSE_POSITIVE: Final = 0.01
# Share of the training patients that an attack must be able to notice; otherwise it is inconclusive.
NOTICEABLE: Final = 0.25
RESIDUAL: Final = 0.001
# Largest bound of the share of matches, whatever the residual allows: matches are removed, so that the
# residual alone would let a generator pass that copies one image of a hundred and is always found.
LARGEST_MATCH_RATE: Final = 0.0065
# Smaller images of different patients are too alike: crops, mirrors and halves are no longer told apart.
SMALLEST_IMAGES: Final = 128
# Images that are judged at least: with fewer, the vetoes could not notice a generator that copies one of
# twenty images, which the residual alone allows if there are many calibration patients.
FEWEST_JUDGED: Final = 1_000
# Images that are judged at most: each takes a sampling run.
MOST_JUDGED: Final = 10_000
# Lowest possible score; used for pairs that the search did not compare.
FLOOR: Final = 0.0


def alpha_of_try(number: int) -> float:
    """Error probability of a try: ``ALPHA * 6 / (pi ** 2 * number ** 2)``, which sums to ``ALPHA``.

    Parameters
    ----------
    number
        Number of the try on the same patients, from 1.

    Notes
    -----
    Alpha-spending: whoever samples until the gate passes has an error probability of at most ``ALPHA`` over
    all tries, however many there are, because the sum of ``1 / i ** 2`` is ``pi ** 2 / 6``.
    """
    return ALPHA * 6 / (math.pi**2 * number**2)


@dataclass(frozen=True, slots=True)
class GateParameters:
    """Parameters of a verdict.

    Attributes
    ----------
    residual
        Permitted upper bound of the share of copies that is left after matches are removed.
    strength
        Strength of the image-to-image positive controls.
    inconclusive
        Whether an attack that the splits are too small for is accepted.
    reidentification
        Permitted excess of images that could be taken for a training patient over real strangers; None
        reports the exposure without a limit.
    attempt
        Number of the try on the same training patients, from 1.

    Raises
    ------
    UsageError
        If a rate or strength is not between 0 and 1, exclusive, or the number of the try is not positive.
    """

    residual: float = RESIDUAL
    strength: float = 0.2
    inconclusive: bool = False
    reidentification: float | None = None
    attempt: int = 1

    def __post_init__(self) -> None:
        rates = (
            self.residual,
            self.strength,
            0.5 if self.reidentification is None else self.reidentification,
        )
        if not all(0 < one < 1 for one in rates):
            raise UsageError(
                "A rate or strength of the gate is not between 0 and 1", "Use a value such as 0.001"
            )
        if self.attempt < 1:
            raise UsageError("The number of a try is not positive", "Count tries from 1")

    @property
    def alpha(self) -> float:
        """Error probability of this try."""
        return alpha_of_try(self.attempt)

    @property
    def confidence(self) -> float:
        """Confidence of each of the two bounds behind the claims, which share `alpha` (Bonferroni)."""
        return 1 - self.alpha / 2
