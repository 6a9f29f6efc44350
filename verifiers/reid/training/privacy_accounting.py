"""Accounting of differential privacy: noise from a budget, and what a training has spent of it.

The mechanism is the sampled Gaussian one (DP-SGD, Abadi et al. 2016): in each step every patient takes part
with the same probability, independently (Poisson sampling), and adds at most the clipping bound. Two
databases are neighbors if one has one patient more, with all images of that patient.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from medsanitize.errors import IntegrityError, UsageError

UNIT = "patient"
# Accountants that compute the same number in different ways may differ by this share.
AGREEMENT = 0.05
# No training with more noise than this learns anything, and none with less protects.
_LEAST_NOISE, _MOST_NOISE = 0.3, 1e4
# Of the noise multiplier: a finer search changes no decision.
_PRECISION = 1e-3
# Rényi orders. Below 2 the series of dp-accounting may not converge.
_ORDERS = (*(2 + step / 4 for step in range(57)), *range(17, 65), *(1 << power for power in range(7, 11)))
# Steps of the privacy loss: fine for the statement, coarser for the search. Both round epsilon up.
_FINE, _COARSE = 1e-4, 1e-3
# Less takes steps of the privacy loss that fill the memory; more protects nobody.
_LEAST_EPSILON, _MOST_EPSILON = 0.01, 100.0


@dataclass(frozen=True, slots=True)
class PrivacyBudget:
    """The most that a training may spend: epsilon at delta, for one patient.

    Raises
    ------
    UsageError
        If epsilon is not from 0.01 to 100, or delta is not between 0 and 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not _LEAST_EPSILON <= self.epsilon <= _MOST_EPSILON:
            raise UsageError(
                f"Epsilon is outside [{_LEAST_EPSILON:g}, {_MOST_EPSILON:g}]",
                "Use 8 for weak and 1 for strong protection",
            )
        if not 0 < self.delta < 1:
            raise UsageError("Delta is outside (0, 1)", "Use 1e-5")

    def check_patients(self, patients: int) -> None:
        """Raise UsageError if delta would allow the images of one patient to be published as they are."""
        # A mechanism that publishes one of n patients at random has epsilon 0 and delta 1 / n.
        if self.delta * patients >= 1:
            raise UsageError(
                "Delta is not smaller than one in the number of patients: it would allow one of them to be"
                " published",
                f"Use at most {0.1 / patients:.0e}",
            )


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """One step: share of the patients that take part, and noise relative to the clipping bound."""

    rate: float
    noise: float


@dataclass(frozen=True, slots=True)
class Spent:
    """Epsilon that steps have spent, by three accountants.

    Attributes
    ----------
    pld
        Privacy loss distributions (dp-accounting), rounded up: the bound.
    prv
        Privacy random variables (opacus, Gopi et al. 2021): the same number, computed in another way.
    rdp
        Rényi divergences (dp-accounting, Mironov 2017): looser by construction.
    """

    pld: float
    prv: float
    rdp: float


@lru_cache(maxsize=64)
def spent_by(mechanism: SampledGaussian, steps: int, delta: float) -> Spent:
    """Compute the epsilon of some steps with all accountants.

    Raises
    ------
    IntegrityError
        If they contradict each other.
    """
    if not steps:
        return Spent(0.0, 0.0, 0.0)
    spent = Spent(*(one(mechanism, steps, delta) for one in (_pld, _prv, _rdp)))
    require_agreement(spent)
    return spent


def require_agreement(spent: Spent) -> None:
    """Check accountants against each other; a bound that only one of them supports is none.

    Raises
    ------
    IntegrityError
        If PLD and PRV differ by more than 5 %, or if RDP, which is looser, is below PLD.
    """
    numbers = (spent.pld, spent.prv, spent.rdp)
    sound = all(math.isfinite(one) and one > 0 for one in numbers)
    if not sound or abs(spent.pld - spent.prv) > AGREEMENT * spent.pld or spent.rdp < spent.pld:
        raise IntegrityError(
            "The privacy accountants contradict each other, so that no bound can be stated",
            "Use an epsilon between 0.1 and 20, and the tested versions of opacus and dp-accounting",
        )


def noise_for(budget: PrivacyBudget, rate: float, steps: int) -> float:
    """Find the least noise multiplier with which some steps stay within a budget.

    Raises
    ------
    UsageError
        If no reasonable noise does.
    """
    low, high = _LEAST_NOISE, 1.0
    while high < _MOST_NOISE and not _within(SampledGaussian(rate, high), steps, budget):
        low, high = high, high * 2
    if high >= _MOST_NOISE:
        raise UsageError("No noise keeps so many steps within epsilon", "Use a larger epsilon")
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        within = _within(SampledGaussian(rate, middle), steps, budget)
        low, high = (low, middle) if within else (middle, high)
    # The upper end of the search is within the budget; its middle need not be.
    return high


def affordable_steps(mechanism: SampledGaussian, budget: PrivacyBudget, most: int) -> int:
    """Count the steps, at most ``most``, after which a training must stop."""
    if _within(mechanism, most, budget):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        within = _within(mechanism, middle, budget)
        low, high = (middle, high) if within else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class PrivacyPlan:
    """Everything about a private training that determines its bound.

    Attributes
    ----------
    budget
        The ceiling.
    mechanism
        One step.
    clip
        Largest norm of the gradient of a patient in a step.
    patients
        Patients of the training. This number is public.
    steps
        Steps after which the training ends.
    """

    budget: PrivacyBudget
    mechanism: SampledGaussian
    clip: float
    patients: int
    steps: int

    @property
    def expected(self) -> float:
        """Expected number of patients in a step."""
        return self.mechanism.rate * self.patients

    def facts(self) -> dict[str, Any]:
        """Return the statement that a model carries, as plain data; raises as ``spent_by``."""
        spent = spent_by(self.mechanism, self.steps, self.budget.delta)
        return {
            "unit": UNIT,
            "neighbors": "one patient more or less",
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "clip": self.clip,
            "noise_multiplier": self.mechanism.noise,
            "sampling_rate": self.mechanism.rate,
            "patients": self.patients,
            "steps": self.steps,
            "spent": {name: round(value, 4) for name, value in asdict(spent).items()},
        }


def plan_training(
    budget: PrivacyBudget, patients: int, expected: int, steps: int, clip: float, noise: float | None = None
) -> PrivacyPlan:
    """Plan a private training.

    Parameters
    ----------
    budget
        The ceiling.
    patients
        Number of patients.
    expected
        Patients per step, in the mean.
    steps
        Steps of the recipe.
    clip
        Largest norm of the gradient of a patient.
    noise
        Noise multiplier, where somebody else sets it; the training then ends at the ceiling. By default the
        least one with which all steps are within it.

    Raises
    ------
    UsageError
        If delta is too large for the patients, if no noise keeps the budget, or if it allows no step.
    IntegrityError
        If the accountants contradict each other.
    """
    budget.check_patients(patients)
    rate = min(1.0, expected / patients)
    mechanism = SampledGaussian(rate, noise if noise is not None else noise_for(budget, rate, steps))
    within = affordable_steps(mechanism, budget, steps)
    if not within:
        raise UsageError("Epsilon allows no step of the training", "Use a larger epsilon, or more noise")
    plan = PrivacyPlan(budget, mechanism, clip, patients, within)
    # Before the training, not after it: its result could not be used.
    plan.facts()
    return plan


def is_within(privacy: Mapping[str, Any] | None, epsilon: float) -> bool:
    """Whether the statement of a model promises each patient at most this epsilon."""
    if privacy is None or privacy["unit"] != UNIT:
        return False
    return max(float(privacy["epsilon"]), float(privacy["spent"]["pld"])) <= epsilon


def _within(mechanism: SampledGaussian, steps: int, budget: PrivacyBudget) -> bool:
    # Far from the budget, a distribution of the privacy loss would fill the memory; Rényi divergences do not.
    if _rdp(mechanism, steps, budget.delta) > 3 * budget.epsilon + 1:
        return False
    coarse = _pld_in_steps(mechanism, steps, budget.delta, _COARSE)
    # A small epsilon needs small steps, or their rounding would use it up; but they take long.
    if coarse <= budget.epsilon or coarse > max(1.0, 2 * budget.epsilon):
        return coarse <= budget.epsilon
    fine = min(_COARSE, budget.epsilon / 20_000)
    return _pld_in_steps(mechanism, steps, budget.delta, fine) <= budget.epsilon


def _pld(mechanism: SampledGaussian, steps: int, delta: float) -> float:
    found = _pld_in_steps(mechanism, steps, delta, _FINE)
    return found if found >= 1 else _pld_in_steps(mechanism, steps, delta, max(found, _LEAST_EPSILON) * _FINE)


def _pld_in_steps(mechanism: SampledGaussian, steps: int, delta: float, grain: float) -> float:
    from dp_accounting.pld import PLDAccountant

    # Pessimistic: every rounding makes epsilon larger.
    accountant = PLDAccountant(value_discretization_interval=grain)
    return float(accountant.compose(_event(mechanism), steps).get_epsilon(delta))


def _rdp(mechanism: SampledGaussian, steps: int, delta: float) -> float:
    from dp_accounting.rdp import RdpAccountant

    return float(RdpAccountant(_ORDERS).compose(_event(mechanism), steps).get_epsilon(delta))


def _prv(mechanism: SampledGaussian, steps: int, delta: float) -> float:
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(mechanism.noise, mechanism.rate, steps)]
    with warnings.catch_warnings():
        # Its domain comes from Rényi orders up to 64: a wider domain than necessary, not a wrong result.
        warnings.simplefilter("ignore")
        # A hundredth of the result, which PLD knows: a fixed error would be too coarse for a small epsilon.
        error = max(_pld(mechanism, steps, delta), 1e-3) / 100
        return float(accountant.get_epsilon(delta, eps_error=error, delta_error=delta / 1000))


def _event(mechanism: SampledGaussian) -> Any:
    from dp_accounting import dp_event

    return dp_event.PoissonSampledDpEvent(mechanism.rate, dp_event.GaussianDpEvent(mechanism.noise))
