"""Consistent totals: the nearest numbers of patients that can belong to one dataset.

Noise makes counts negative and gives each table another total. The figures that are published are the
constrained least squares: not negative, and the same total for all tables in which each patient is once. They
are computed from noisy figures only, so that they cost no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Weighted:
    """Noisy rows of a table, and one over the variance of its noise."""

    rows: tuple[int, ...]
    weight: Fraction


def common_total(stated: int, weight: Fraction, tables: Sequence[Weighted]) -> int:
    """Return the total, not negative, that fits a noisy total and all tables best.

    Parameters
    ----------
    stated : int
        The noisy total.
    weight : Fraction
        One over the variance of its noise.
    tables : sequence of Weighted
        Tables in which each patient is once.
    """

    def cost(total: int) -> Fraction:
        squares = (one.weight * _distance(one.rows, nearest_rows(one.rows, total)) for one in tables)
        return weight * (stated - total) ** 2 + sum(squares, Fraction(0))

    low, high = 0, max(stated, 0, *(sum(max(row, 0) for row in one.rows) for one in tables))
    # The cost is convex in the total: the first total from which on it does not fall is the best one.
    while low < high:
        middle = (low + high) // 2
        if cost(middle + 1) < cost(middle):
            low = middle + 1
        else:
            high = middle
    return low


def nearest_rows(rows: Sequence[int], total: int) -> tuple[Fraction, ...]:
    """Return the nearest rows that are not negative and add up to ``total`` (projection on a simplex)."""
    ordered, sums = sorted(rows, reverse=True), 0
    excess = Fraction(0)
    for number, row in enumerate(ordered, 1):
        sums += row
        candidate = Fraction(sums - total, number)
        # Rows that would fall below zero do not take part.
        if row - candidate > 0 or number == 1:
            excess = candidate
    return tuple(max(row - excess, Fraction(0)) for row in rows)


def whole_rows(rows: Sequence[Fraction], total: int) -> tuple[int, ...]:
    """Round rows to integers with the same total: the largest remainders are rounded up."""
    whole = [row.numerator // row.denominator for row in rows]
    order = sorted(range(len(rows)), key=lambda number: (whole[number] - rows[number], number))
    for number in order[: total - sum(whole)]:
        whole[number] += 1
    return tuple(whole)


def clipped_rows(rows: Sequence[int], total: int) -> tuple[int, ...]:
    """Return the nearest rows from 0 to ``total``, for a table in which a patient may be several times."""
    return tuple(min(max(row, 0), total) for row in rows)


def _distance(rows: Sequence[int], others: Sequence[Fraction]) -> Fraction:
    return sum(((one - other) ** 2 for one, other in zip(rows, others, strict=True)), Fraction(0))
