"""Accounting of differential privacy: known values, agreement of accountants, ceilings."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.training.privacy_accounting import (
    PrivacyBudget,
    PrivacyPlan,
    SampledGaussian,
    Spent,
    affordable_steps,
    is_within,
    noise_for,
    plan_training,
    require_agreement,
    spent_by,
)
from scipy.optimize import brentq
from scipy.stats import norm

pytestmark = pytest.mark.dp

BUDGET = PrivacyBudget(2.0, 1e-5)


def exact_epsilon(noise: float, steps: int, delta: float) -> float:
    """Epsilon of Gaussian mechanisms without sampling (Balle and Wang 2018, theorem 8)."""
    alone = noise / math.sqrt(steps)

    def missing(epsilon: float) -> float:
        first = norm.cdf(1 / (2 * alone) - epsilon * alone)
        return float(first - math.exp(epsilon) * norm.cdf(-1 / (2 * alone) - epsilon * alone) - delta)

    return float(brentq(missing, 0, 50))


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (4.0, 1), (8.0, 50)])
def test_epsilon_without_sampling_is_that_of_the_analytic_gaussian_mechanism(
    noise: float, steps: int
) -> None:
    spent = spent_by(SampledGaussian(1.0, noise), steps, 1e-5)
    assert spent.pld == pytest.approx(exact_epsilon(noise, steps, 1e-5), rel=2e-3)


# Noise multiplier, epochs and epsilon in tutorials/README.md of TensorFlow Privacy (MNIST: 60,000 images, 256
# a step, delta 1e-5). Its Rényi accountant has the looser conversion of Mironov 2017.
@pytest.mark.parametrize(
    ("noise", "epochs", "published"), [(1.12, 60, 2.92), (0.6, 30, 9.74), (1.2, 10, 1.20)]
)
def test_epsilon_of_published_trainings_is_below_the_published_bound(
    noise: float, epochs: int, published: float
) -> None:
    spent = spent_by(SampledGaussian(256 / 60_000, noise), epochs * 60_000 // 256, 1e-5)
    assert 0.5 * published < spent.pld < spent.rdp <= published


def test_accountants_of_privacy_loss_agree_and_the_looser_one_is_above() -> None:
    spent = spent_by(SampledGaussian(0.1, 2.0), 200, 1e-5)
    assert spent.pld == pytest.approx(spent.prv, rel=0.02)
    assert spent.pld < spent.rdp < 1.15 * spent.pld


@pytest.mark.parametrize(
    "wrong",
    [Spent(1.0, 1.06, 1.2), Spent(1.0, 0.94, 1.2), Spent(1.0, 1.0, 0.99), Spent(1.0, math.nan, 1.2)],
    ids=["above", "below", "looser one below", "no number"],
)
def test_accountants_that_contradict_each_other_refuse(wrong: Spent) -> None:
    with pytest.raises(IntegrityError, match="contradict each other"):
        require_agreement(wrong)


@pytest.mark.parametrize(
    "epsilon", [pytest.param(0.02, marks=pytest.mark.slow), 0.5, pytest.param(8.0, marks=pytest.mark.slow)]
)
def test_derived_noise_is_within_the_budget_and_hardly_larger_than_needed(epsilon: float) -> None:
    budget = PrivacyBudget(epsilon, 1e-5)
    noise = noise_for(budget, 0.1, 100)
    spent = spent_by(SampledGaussian(0.1, noise), 100, 1e-5).pld
    assert 0.98 * epsilon < spent <= epsilon


def test_steps_end_before_the_first_that_would_exceed_the_ceiling() -> None:
    mechanism = SampledGaussian(0.1, 1.5)
    steps = affordable_steps(mechanism, BUDGET, 10_000)
    assert spent_by(mechanism, steps, 1e-5).pld <= 2.0 < spent_by(mechanism, steps + 2, 1e-5).pld + 0.01


def test_a_plan_with_given_noise_ends_at_the_ceiling() -> None:
    plan = plan_training(BUDGET, patients=100, expected=10, steps=10_000, clip=1.0, noise=1.5)
    assert plan.steps < 10_000
    assert plan.facts()["spent"]["pld"] <= 2.0


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: PrivacyBudget(0.009, 1e-5), "Epsilon is outside"),
        (lambda: PrivacyBudget(math.inf, 1e-5), "Epsilon is outside"),
        (lambda: PrivacyBudget(math.nan, 1e-5), "Epsilon is outside"),
        (lambda: PrivacyBudget(1, 1.0), "Delta is outside"),
        (lambda: PrivacyBudget(1, 0.01).check_patients(100), "one in the number of patients"),
        (lambda: plan_training(PrivacyBudget(0.1, 1e-5), 10, 10, 100, 1.0, noise=0.5), "allows no step"),
        (lambda: noise_for(PrivacyBudget(0.01, 1e-9), 1.0, 10**9), "No noise"),
    ],
)
def test_budgets_that_protect_nobody_are_refused(made: Callable[[], object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        made()


def test_a_statement_holds_for_the_ceiling_and_for_patients_only() -> None:
    facts = plan_training(BUDGET, 100, 10, 20, 1.0).facts()
    assert is_within(facts, 2.0)
    assert not is_within(facts, 1.9)
    assert not is_within({**facts, "unit": "image"}, 2.0)
    assert not is_within(None, 2.0)


def test_a_larger_share_of_patients_takes_more_noise() -> None:
    assert noise_for(BUDGET, 0.2, 20) > noise_for(BUDGET, 0.1, 20)


def test_the_sum_is_divided_by_the_patients_that_are_expected() -> None:
    plan = PrivacyPlan(BUDGET, SampledGaussian(0.1, 2.0), clip=1.0, patients=100, steps=20)
    assert plan.expected == pytest.approx(10)
