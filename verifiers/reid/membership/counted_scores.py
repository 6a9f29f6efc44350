"""Membership from counts of scores, which can be added over sites: how many members an attacker recognizes.

Each site scores its own patients, those that trained the model and others, and counts the scores by bin. No
score of a patient leaves; the counts of all sites give the threshold, and who exceeds it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.reid.calibration import clopper_pearson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BINS: Final = 512


@dataclass(frozen=True, slots=True)
class Recognized:
    """Members above the score that a share of other patients exceeds.

    Attributes
    ----------
    members, others
        Number of patients that trained the model, and of others.
    mistaken
        Others above the threshold.
    recognized
        Members above it.
    upper
        Exact upper 95 % bound of the share of members above it or in its bin: which of these a finer
        threshold would recognize, counts do not say.
    chance
        Exact p-value: probability of this many if the model does not know its members.
    """

    members: int
    others: int
    mistaken: int
    recognized: int
    upper: float
    chance: float

    @property
    def share(self) -> float:
        """Share of the members who are recognized."""
        return self.recognized / max(self.members, 1)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {**asdict(self), "share": self.share}


def count_patients(scores: NDArray[np.float64], lowest: float, highest: float) -> NDArray[np.float64]:
    """Count patients by the bin of their score, ``(BINS,)``; the outer bins hold what is beyond the range."""
    import numpy as np

    places = np.floor((scores - lowest) / (highest - lowest) * BINS)
    bins = np.clip(places, 0, BINS - 1).astype(np.intp)
    return np.bincount(bins, minlength=BINS).astype(np.float64)


def recognized(members: NDArray[np.float64], others: NDArray[np.float64], mistaken: float) -> Recognized:
    """Judge the counts of all sites.

    Parameters
    ----------
    members, others
        Counts by bin, from `count_patients`.
    mistaken
        Largest share of other patients above the threshold.

    Notes
    -----
    Without memorization the share of people above the (r + 1)-th highest of ``n`` others is
    Beta(r + 1, n - r) distributed, so that the number of members above it is beta-binomial, for any ``n``.
    """
    import numpy as np
    from scipy.stats import betabinom  # type: ignore[import-untyped]

    own, theirs = round(float(members.sum())), round(float(others.sum()))
    # The epsilon keeps 0.1 * 30 from being truncated to 2.
    allowed = int(mistaken * theirs + 1e-9)
    above = np.rint(np.cumsum(others[::-1]))
    # Whole bins: as many from the top as hold no more others than allowed.
    bins = int((above <= allowed).sum())
    found = round(float(members[::-1][:bins].sum()))
    most = round(float(members[::-1][: bins + 1].sum()))
    wrong = int(above[bins - 1]) if bins else 0
    if not own or not theirs:
        return Recognized(own, theirs, 0, 0, 1.0, 1.0)
    chance = float(betabinom.sf(found - 1, own, allowed + 1, theirs - allowed))
    return Recognized(own, theirs, wrong, found, clopper_pearson(most, own)[1], chance)
