"""RMIA (Zarifzadeh, Liu and Shokri 2024): how much likelier a model finds a patient than others do.

The score of a patient is Pr(x | model) / Pr(x), with Pr(x) as the mean over reference models, half of which
were trained on the patient. RMIA ranks this ratio among the ratios of a population, which preserves the
order; the rates here depend on the order only, so the ratio is used directly.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.reid.calibration import clopper_pearson
from medsanitize.verifiers.reid.evaluation.bootstrap import intervals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALSE_POSITIVE_RATES: Final = (0.001, 0.01)
# Each bound of a two-sided interval at 95 %.
_EACH_BOUND: Final = 0.975
# Probability that chance is taken for success.
_FALSE_ALARM: Final = 0.05
_TINY: Final = 1e-30


@dataclass(frozen=True, slots=True)
class RateAt:
    """Members recognized at a false positive rate.

    Attributes
    ----------
    false_positive_rate
        The rate.
    false_positives
        Other patients who may be called members: none of fewer than one in the rate.
    members, recognized
        Number of members, and of those called so.
    lower, upper
        Exact 95 % interval of the true positive rate.
    chance
        Exact p-value: probability of this many if the model does not know its members.
    """

    false_positive_rate: float
    false_positives: int
    members: int
    recognized: int
    lower: float
    upper: float
    chance: float

    @property
    def share(self) -> float:
        """True positive rate."""
        return self.recognized / self.members

    @property
    def above_chance(self) -> bool:
        """Whether more members are recognized than chance explains."""
        return self.chance <= _FALSE_ALARM


@dataclass(frozen=True, slots=True)
class Membership:
    """Success of the attack on one model; each patient counts once.

    Attributes
    ----------
    members, others
        Number of patients that trained the model, and of others.
    auc, auc_interval
        Probability that a member scores higher than another patient, with its 95 % interval over patients.
    rates
        One entry per false positive rate.
    """

    members: int
    others: int
    auc: float
    auc_interval: tuple[float, float]
    rates: tuple[RateAt, ...]

    @property
    def above_chance(self) -> bool:
        """Whether any figure exceeds chance, with the probability of a false alarm split among them."""
        # A lower bound above 0.5 has half of it, as that of one side.
        each = _FALSE_ALARM / 2 / len(self.rates)
        return self.auc_interval[0] > 0.5 or any(one.chance <= each for one in self.rates)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        rates = [{**asdict(one), "share": one.share} for one in self.rates]
        return {**asdict(self), "rates": rates, "above_chance": self.above_chance}


def patient_scores(
    target: NDArray[np.float64], references: NDArray[np.float64], members: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Compute the log ratio of each patient.

    Parameters
    ----------
    target
        Likelihood of each patient under the attacked model, ``(patients,)``.
    references
        The same under each reference model, ``(models, patients)``.
    members
        Whether the patient trained the reference model, ``(models, patients)``; each patient trained some of
        them, and others not.
    """
    import numpy as np

    inside, outside = (
        (references * chosen).sum(axis=0) / chosen.sum(axis=0) for chosen in (members, ~members)
    )
    return np.asarray(np.log(target + _TINY) - np.log((inside + outside) / 2 + _TINY))


def membership(members: NDArray[np.float64], others: NDArray[np.float64]) -> Membership:
    """Judge the scores of patients that trained a model and of others.

    Notes
    -----
    Without memorization the share of people above the (r + 1)-th highest of ``n`` other patients is
    Beta(r + 1, n - r) distributed, so that the number of members above it is beta-binomial, for any ``n``.
    """
    import numpy as np

    above = np.sign(members[:, None] - others[None, :]) / 2 + 0.5
    split = len(members)
    drawn = intervals(
        split + len(others),
        lambda draws: {"auc": _weighted(draws[:, :split], above, draws[:, split:])},
    )
    rates = tuple(_rate_at(rate, members, others) for rate in FALSE_POSITIVE_RATES)
    return Membership(split, len(others), float(above.mean()), drawn["auc"], rates)


def _weighted(
    rows: NDArray[np.float64], above: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """AUC of each draw of patients; NaN if it drew members or others only."""
    import numpy as np
    from medsanitize.verifiers.reid.evaluation.bootstrap import ratio

    won = np.einsum("ij,ij->i", rows @ above, columns)
    return ratio(won, rows.sum(axis=1) * columns.sum(axis=1))


def _rate_at(rate: float, members: NDArray[np.float64], others: NDArray[np.float64]) -> RateAt:
    import numpy as np
    from scipy.stats import betabinom  # type: ignore[import-untyped]

    # The epsilon keeps 0.01 * 100 from being truncated to 0.
    allowed = int(rate * len(others) + 1e-9)
    limit = np.sort(others)[::-1][allowed]
    # Strictly above: tied members are not recognized, so that ties do not inflate the rate.
    recognized = int((members > limit).sum())
    lower, upper = clopper_pearson(recognized, len(members), _EACH_BOUND)
    # sf(k - 1) is P(X >= k).
    chance = float(betabinom.sf(recognized - 1, len(members), allowed + 1, len(others) - allowed))
    return RateAt(rate, allowed, len(members), recognized, lower, upper, chance)
