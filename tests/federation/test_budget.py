"""The budget of comparisons: who has asked how often, across restarts and clocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from medsanitize.errors import IntegrityError
from medsanitize.federation.private_overlap.budget import QUERIES, Query, pay, spent

DAY = 86_400.0


def query(session: int = 0, partner: str = "a" * 64) -> Query:
    return Query(partner, f"{session:032x}", "answered", {"pixels": 50}, {"pixels": 60})


def test_a_partner_is_answered_as_often_as_agreed_and_not_more(tmp_path: Path) -> None:
    paid = [pay(tmp_path, query(number), runs=3, days=30, now=1000.0) for number in range(5)]
    assert paid == [True, True, True, False, False]


def test_the_same_session_is_paid_for_once(tmp_path: Path) -> None:
    paid = [pay(tmp_path, query(7), runs=1, days=30, now=1000.0) for _ in range(3)]
    assert paid == [True, True, True]


@pytest.mark.parametrize(
    "changes",
    [{"role": "asked"}, {"own": {"near": 50}}, {"partner": "b" * 64}],
    ids=["the other way", "for other items", "by another partner"],
)
def test_the_name_of_a_session_that_was_paid_for_buys_no_other_comparison(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Its transcript would replace the first one's."""
    pay(tmp_path, query(7), runs=5, days=30, now=1000.0)
    assert not pay(tmp_path, replace(query(7), **changes), runs=5, days=30, now=1000.0)


def test_answers_about_images_are_counted_one_by_one_and_apart_from_comparisons(tmp_path: Path) -> None:
    asked = [
        pay(tmp_path, replace(query(number), answers=images), runs=100, days=30, now=1000.0)
        for number, images in enumerate((60, 41, 40, 1))
    ]
    assert asked == [True, False, True, False]
    assert spent(tmp_path, "a" * 64, days=30, now=1000.0, of_images=True) == 100
    assert spent(tmp_path, "a" * 64, days=30, now=1000.0) == 0
    assert pay(tmp_path, query(9), runs=1, days=30, now=1000.0)


def test_partners_have_budgets_of_their_own(tmp_path: Path) -> None:
    pay(tmp_path, query(1), runs=1, days=30, now=1000.0)
    assert pay(tmp_path, query(2, "b" * 64), runs=1, days=30, now=1000.0)


def test_a_comparison_is_forgotten_after_the_period(tmp_path: Path) -> None:
    pay(tmp_path, query(1), runs=1, days=30, now=0.0)
    assert spent(tmp_path, "a" * 64, days=30, now=31 * DAY) == 0


def test_a_clock_that_was_set_back_makes_no_room(tmp_path: Path) -> None:
    pay(tmp_path, query(1), runs=1, days=30, now=100 * DAY)
    assert not pay(tmp_path, query(2), runs=1, days=30, now=1 * DAY)


def test_a_damaged_record_stops_every_comparison(tmp_path: Path) -> None:
    pay(tmp_path, query(1), runs=3, days=30, now=0.0)
    with (tmp_path / QUERIES).open("ab") as file:
        file.write(b'{"partner": "a"')
    with pytest.raises(IntegrityError):
        pay(tmp_path, query(2), runs=3, days=30, now=0.0)
