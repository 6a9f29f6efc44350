"""Membership inference attack: which patients were in the training data, from the synthetic images only?

After RMIA (Zarifzadeh, Liu and Shokri 2024), with distances to the synthetic images instead of the model's
likelihood: how much nearer an image is to a synthetic image than to images of other patients. An image that
is near to everything is thus not called a member. RMIA ranks the ratio among a population, which preserves
the order; a rate depends on the order only, so the ratio is used directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.parameters import FALSE_POSITIVE, FEWEST_MEMBERS, TEST_CONFIDENCE
from medsanitize.verifiers.reid.calibration import clopper_pearson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Stands for the distance 0 of an exact copy, which has no logarithm.
_MIN_DIST: Final = 1e-6


@dataclass(frozen=True, slots=True)
class MembershipInference:
    """Result of the attack at a false positive rate of 1 %.

    Attributes
    ----------
    patients
        Number of patients per split.
    recognized
        Training patients called members while at most 1 % of the holdout patients are.
    rate, lower, upper
        True positive rate, with exact one-sided bounds at the confidence `TEST_CONFIDENCE`.
    chance
        Exact p-value: probability of this many if nothing was memorized.
    needed
        Data missing for the attack, or empty.
    """

    patients: int
    recognized: int
    rate: float
    lower: float
    upper: float
    chance: float
    needed: str = ""

    @property
    def veto(self) -> bool:
        """Whether more members are recognized than chance explains."""
        return self.chance <= 1 - TEST_CONFIDENCE


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
    Beta(r + 1, n - r) distributed, so the number of members above it is beta-binomial.
    """
    import numpy as np

    count = min(len(members), len(others))
    if count < FEWEST_MEMBERS:
        needed = f"{FEWEST_MEMBERS} patients each in training and holdout (the smaller has {count:,})"
        return MembershipInference(count, 0, 0.0, 0.0, 1.0, 1.0, needed)
    from scipy.stats import betabinom  # type: ignore[import-untyped]

    # The epsilon keeps 0.01 * 100 from being truncated to 0.
    allowed = int(FALSE_POSITIVE * len(others) + 1e-9)
    limit = np.sort(others)[::-1][allowed]
    # Strictly above: tied members are not recognized, so that ties do not inflate the rate.
    recognized = int((members > limit).sum())
    lower, upper = clopper_pearson(recognized, len(members), TEST_CONFIDENCE)
    chance = float(betabinom.sf(recognized - 1, len(members), allowed + 1, len(others) - allowed))
    return MembershipInference(len(members), recognized, recognized / len(members), lower, upper, chance)
