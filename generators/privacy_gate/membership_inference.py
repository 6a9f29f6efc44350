"""The membership attack: whose images were trained on, told from the synthetic images alone.

After RMIA (Zarifzadeh, Liu and Shokri 2024) with the images in place of the model's likelihood: how much
nearer somebody's image is to a synthetic one than to one of other real people. What is near to everything is
no member for that. RMIA then counts the people whose ratio is smaller; that keeps the order, and the order is
all that a rate needs, so the ratio itself is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.parameters import FALSE_POSITIVE, FEWEST_MEMBERS, TESTED
from medsanitize.verifiers.reid.calibration import clopper_pearson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NEAREST: Final = 1e-6
"""A copy is at no distance; this stands for it."""


@dataclass(frozen=True, slots=True)
class MembershipInference:
    """What the attack reaches at one false positive in a hundred.

    Attributes
    ----------
    patients
        Of either split, members and others.
    recognised
        Members called members, with at most 1 % of the others called so.
    rate, lower, upper
        Their share (the true positive rate), and one-sided exact bounds of it, split among the tests.
    chance
        How often as many are recognised where nothing was learned of anybody, exactly.
    needed
        Empty, or what it would take to make the attack.
    """

    patients: int
    recognised: int
    rate: float
    lower: float
    upper: float
    chance: float
    needed: str = ""

    @property
    def veto(self) -> bool:
        """Whether it recognises more members than chance."""
        return self.chance <= 1 - TESTED


def likelihood_ratio(synthetic: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much nearer the nearest synthetic image is than the nearest of other people, as a logarithm."""
    import numpy as np

    return np.asarray(np.log(np.maximum(others, _NEAREST)) - np.log(np.maximum(synthetic, _NEAREST)))


def membership_inference(members: NDArray[np.float64], others: NDArray[np.float64]) -> MembershipInference:
    """Attack with one number a patient: members are called who exceed all but 1 % of the others.

    Without any learning, of ``n`` others the share of people above the (r + 1)-th highest is a
    Beta(r + 1, n - r) variable, and so the number of members above it beta-binomial.
    """
    import numpy as np

    count = min(len(members), len(others))
    if count < FEWEST_MEMBERS:
        needed = f"{FEWEST_MEMBERS} patients in training and in holdout each, and the smaller has {count:,}"
        return MembershipInference(count, 0, 0.0, 0.0, 1.0, 1.0, needed)
    from scipy.stats import betabinom  # type: ignore[import-untyped]

    allowed = int(FALSE_POSITIVE * len(others) + 1e-9)
    limit = np.sort(others)[::-1][allowed]
    recognised = int((members > limit).sum())
    lower, upper = clopper_pearson(recognised, len(members), TESTED)
    chance = float(betabinom.sf(recognised - 1, len(members), allowed + 1, len(others) - allowed))
    return MembershipInference(len(members), recognised, recognised / len(members), lower, upper, chance)
