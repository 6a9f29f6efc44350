"""The joint dataset card: shares of several hospitals add up to the noise that one card would have."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from medsanitize.policies.dataset_card import CardSection
from medsanitize.release.dataset_card.discrete_laplace import KeyedBits, discrete_laplace, laplace_share
from medsanitize.release.dataset_card.documents import card_markdown
from medsanitize.release.dataset_card.joint_card import (
    JointTerms,
    joint_card,
    joint_error,
    joint_limits,
    joint_statement,
    noisy_counts,
)
from medsanitize.release.dataset_card.noisy_tables import largest_error
from medsanitize.release.dataset_card.tables import CardCounts, card_shapes

pytestmark = pytest.mark.card

SECTION = CardSection(epsilon=1.0)
SHAPES = card_shapes(SECTION, ("head", "chest"))
TERMS = JointTerms("region", "0" * 16, "2.0", 3, 3)


def counted(patients: int) -> CardCounts:
    rows = ((patients - patients // 3, patients // 3, *[0] * (len(one.categories) - 2)) for one in SHAPES)
    return CardCounts(SHAPES, patients, tuple(rows))


def summed(patients: int, sites: int, terms: JointTerms, first: int = 0) -> list[int]:
    vectors = [
        noisy_counts(counted(patients), terms, bytes([site]) * 32) for site in range(first, first + sites)
    ]
    return [sum(column) for column in zip(*vectors, strict=True)]


@pytest.mark.parametrize("shares", [2, 3, 7])
def test_shares_of_a_geometric_number_add_up_to_it(shares: int) -> None:
    """By the exact coefficients: a share has C(n + r - 1, n) q^n, the sum q^n, whatever q is."""
    most, one = 40, [Fraction(1)]
    for n in range(1, most):
        one.append(one[-1] * (n - 1 + Fraction(1, shares)) / n)
    total = [Fraction(1)] + [Fraction(0)] * (most - 1)
    for _ in range(shares):
        total = [sum((total[k] * one[n - k] for k in range(n + 1)), Fraction(0)) for n in range(most)]
    assert total == [Fraction(1)] * most


def test_the_sum_of_drawn_shares_is_discrete_laplace() -> None:
    """Chi-square of 6,000 sums of three shares against the distribution of one discrete Laplace number."""
    from scipy.stats import chisquare

    scale, draws, shares = Fraction(5, 2), 6000, 3
    bits = KeyedBits(bytes(32))
    found = Counter(sum(laplace_share(bits, scale, shares) for _ in range(shares)) for _ in range(draws))
    q = math.exp(-1 / scale)
    values = range(-8, 9)
    inside = [(1 - q) / (1 + q) * q ** abs(value) for value in values]
    seen = [found[value] for value in values]
    expected = [*(draws * one for one in inside), draws * (1 - sum(inside))]
    assert chisquare([*seen, draws - sum(seen)], expected).pvalue > 0.01


def test_a_single_share_is_far_less_than_the_noise() -> None:
    bits = KeyedBits(bytes(32))
    shares = [abs(laplace_share(bits, Fraction(20), 5)) for _ in range(1000)]
    whole = [abs(discrete_laplace(bits, Fraction(20))) for _ in range(1000)]
    assert sum(shares) < 0.5 * sum(whole)


@pytest.mark.parametrize(("scale", "alpha"), [(3.0, 0.05), (40.0, 0.05), (40.0, 0.001)])
def test_the_error_of_enough_shares_is_that_of_one_card(scale: float, alpha: float) -> None:
    assert joint_error(scale, alpha, shares=Fraction(1)) == largest_error(scale, alpha)
    assert joint_error(scale, alpha, shares=Fraction(3, 2)) > largest_error(scale, alpha)


def test_sums_of_three_hospitals_are_within_the_stated_errors() -> None:
    exact = counted(400)
    card = joint_card(SHAPES, summed(400, 3, TERMS), TERMS)
    assert abs(card.patients - 1200) <= 2 * card.error
    for table, rows in zip(card.tables, exact.rows, strict=True):
        assert all(
            abs(count - 3 * true) <= 2 * table.joint_error
            for (_, count), true in zip(table.rows, rows, strict=True)
        )
    partitions = [
        sum(count for _, count in table.rows)
        for table, shape in zip(card.tables, SHAPES, strict=True)
        if shape.partition
    ]
    assert set(partitions) == {card.patients}


def test_noise_follows_from_secret_job_and_counts() -> None:
    own = noisy_counts(counted(50), TERMS, bytes(32))
    assert own == noisy_counts(counted(50), TERMS, bytes(32))
    other = JointTerms("region", "1" * 16, "2.0", 3, 3)
    for changed in (noisy_counts(counted(50), other, bytes(32)), noisy_counts(counted(50), TERMS, b"1" * 32)):
        assert changed != own


def test_the_card_says_what_it_promises() -> None:
    card = joint_card(SHAPES, summed(50, 3, TERMS), TERMS)
    text = card_markdown(card, joint_statement(TERMS), joint_limits())
    assert "Numbers of patients of 3 hospitals with differential privacy: epsilon 2.0" in text
    assert "the shares of 2 hospitals are enough" in text
    assert "A patient of two hospitals counts at both" in text
    assert "The manifest states" not in text
