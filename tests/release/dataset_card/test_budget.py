"""The ledger of the dataset cards: epsilons of all versions add up, and the ceiling refuses."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from medsanitize.errors import IntegrityError
from medsanitize.release.dataset_card.budget import CardBudget
from medsanitize.release.dataset_card.noisy_tables import DatasetCard


def a_card(version: str, epsilon: str = "1.0", patients: int = 10) -> DatasetCard:
    return DatasetCard("chest-ct", version, epsilon, patients, 3, ())


def publish(budget: CardBudget, card: DatasetCard, ceiling: float = 3) -> Fraction | None:
    refused = budget.reserve(card, ceiling)
    if refused is None:
        budget.publish(card)
    return refused


@pytest.fixture
def budget(tmp_path: Path) -> CardBudget:
    return CardBudget(tmp_path / "cards.budget")


def test_epsilons_of_versions_add_up_and_the_ceiling_refuses(budget: CardBudget) -> None:
    assert publish(budget, a_card("1")) is None
    assert publish(budget, a_card("2", "1.5")) is None
    assert budget.spent() == Fraction(5, 2)
    assert publish(budget, a_card("3")) == Fraction(7, 2)
    assert budget.spent() == Fraction(5, 2)
    assert publish(budget, a_card("3", "0.5")) is None


def test_ten_tenths_are_one(budget: CardBudget) -> None:
    refusals = [publish(budget, a_card(str(number), "0.1"), 1) for number in range(11)]
    assert refusals == [*[None] * 10, Fraction(11, 10)]


def test_the_same_card_again_spends_nothing(budget: CardBudget) -> None:
    assert [publish(budget, a_card("1"), 1) for _ in range(3)] == [None] * 3
    assert budget.spent() == 1


def test_other_figures_of_one_version_are_another_query(budget: CardBudget) -> None:
    publish(budget, a_card("1"))
    publish(budget, a_card("1", patients=11))
    assert budget.spent() == 2


def test_a_reservation_counts_until_the_version_is_made_again(budget: CardBudget) -> None:
    assert budget.reserve(a_card("1"), 1) is None
    assert budget.reserve(a_card("2"), 1) == 2
    assert budget.reserve(a_card("1", patients=11), 1) is None
    assert budget.spent() == 1


def test_a_damaged_ledger_stops_everything(budget: CardBudget) -> None:
    publish(budget, a_card("1"))
    for damage in ("", "{}", '{"format": 1, "cards": [{"name": "a"}]}', "[]"):
        budget.path.write_text(damage)
        with pytest.raises(IntegrityError):
            budget.reserve(a_card("2"), 3)


def test_the_ledger_is_readable_by_its_owner_only(budget: CardBudget) -> None:
    publish(budget, a_card("1"))
    assert budget.path.stat().st_mode & 0o777 == 0o600
