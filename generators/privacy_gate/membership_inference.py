"""Membership inference attack: which patients were in the training data, from the synthetic images only?

After RMIA (Zarifzadeh, Liu and Shokri 2024), with distances to the synthetic images instead of the model's
likelihood: how much nearer an image is to a synthetic image than to images of other patients. An image that
is near to everything is thus not called a member. RMIA ranks the ratio among a population, which preserves
the order; a rate depends on the order only, so the ratio is used directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.parameters import FALSE_POSITIVE, NOTICEABLE, TEST_CONFIDENCE
from medsanitize.verifiers.reid.calibration import clopper_pearson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Stands for the distance 0 of an exact copy, which has no logarithm.
_MIN_DIST: Final = 1e-6


@dataclass(frozen=True, slots=True)
class MembershipInference:
    """Result of the attack at a false positive rate of at most 1 %.

    Attributes
    ----------
    patients
        Number of patients per split.
    false_positives
        Holdout patients who may be called members: 1 % of them, and none of fewer than 100.
    recognized
        Training patients called members at that number.
    rate, lower, upper
        True positive rate, with exact one-sided bounds at the confidence `TEST_CONFIDENCE`.
    chance
        Exact p-value: probability of this many if nothing was memorized.
    noticed
        Training patients that must be recognized for a veto.
    """

    patients: int
    false_positives: int
    recognized: int
    rate: float
    lower: float
    upper: float
    chance: float
    noticed: int

    @property
    def veto(self) -> bool:
        """Whether more members are recognized than chance explains."""
        return self.chance <= 1 - TEST_CONFIDENCE

    @property
    def inconclusive(self) -> bool:
        """Whether the attack could only have noticed more than a quarter of the patients."""
        return self.noticed > NOTICEABLE * self.patients


def likelihood_ratio(synthetic: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log ratio of the distance to the nearest other patient and to the nearest synthetic image."""
    import numpy as np

    return np.asarray(np.log(np.maximum(others, _MIN_DIST)) - np.log(np.maximum(synthetic, _MIN_DIST)))


def membership_inference(members: NDArray[np.float64], others: NDArray[np.float64]) -> MembershipInference:
    """Call those members whose value exceeds all but 1 % of the holdout's; one value per patient.

    Parameters
    ----------
    members, others
        Highest log ratio of each patient of training and holdout.

    Notes
    -----
    Without memorization the share of people above the (r + 1)-th highest of ``n`` holdout values is
    Beta(r + 1, n - r) distributed, so the number of members above it is beta-binomial, for any ``n``. A
    holdout of fewer than 100 patients allows no false positive: the rate adapts to its size, and the
    p-value remains exact.
    """
    import numpy as np

    count = len(members)
    if not count or not len(others):
        return MembershipInference(count, 0, 0, 0.0, 0.0, 1.0, 1.0, count + 1)
    from scipy.stats import betabinom  # type: ignore[import-untyped]

    # The epsilon keeps 0.01 * 100 from being truncated to 0.
    allowed = int(FALSE_POSITIVE * len(others) + 1e-9)
    limit = np.sort(others)[::-1][allowed]
    # Strictly above: tied members are not recognized, so that ties do not inflate the rate.
    recognized = int((members > limit).sum())
    lower, upper = clopper_pearson(recognized, count, TEST_CONFIDENCE)
    # sf(k - 1) is P(X >= k).
    chances = betabinom.sf(np.arange(-1, count), count, allowed + 1, len(others) - allowed)
    noticed = int((chances > 1 - TEST_CONFIDENCE).sum())
    return MembershipInference(
        count, allowed, recognized, recognized / count, lower, upper, float(chances[recognized]), noticed
    )
