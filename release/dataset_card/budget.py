"""The ledger of what dataset cards have spent of their patients' privacy; a file of the holder.

Versions of a release share patients, so that the epsilons of their cards add up (sequential composition). A
run reserves its epsilon before it publishes; a reservation that was never published is replaced by the next
run of that version.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path

from medsanitize.errors import IntegrityError
from medsanitize.release.atomic_io import file_lock, storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.release.dataset_card.noisy_tables import DatasetCard

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Spending:
    """One card: release, epsilon as a decimal number, digest of the figures, and whether anyone saw it."""

    name: str
    version: str
    epsilon: str
    card: str
    published: bool


@dataclass(frozen=True, slots=True)
class CardBudget:
    """The ledger of one set of patients."""

    path: Path

    def entries(self) -> tuple[Spending, ...]:
        """Return all cards, in the order in which they were made.

        Raises
        ------
        IntegrityError
            The ledger is damaged.
        """
        with storage_errors():
            if not self.path.exists():
                return ()
            data = self.path.read_bytes()
        try:
            facts = json.loads(data)
            found = tuple(Spending(**one) for one in facts["cards"])
            if facts["format"] != _FORMAT or any(Fraction(one.epsilon) <= 0 for one in found):
                raise ValueError
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            raise IntegrityError(
                "The ledger of the dataset cards is damaged", "Restore it from a backup"
            ) from None
        return found

    def reserve(self, card: DatasetCard, ceiling: float) -> Fraction | None:
        """Reserve the epsilon of a card that is to be published; see `spend`."""
        return self.spend(_spending(card, published=False), ceiling)

    def spend(self, one: Spending, ceiling: float) -> Fraction | None:
        """Reserve an epsilon, or record that it is spent.

        Returns
        -------
        Fraction or None
            None if it is reserved; otherwise what all cards together would spend, which is above ``ceiling``.
        """
        with self._locked():
            entries = self.entries()
            others = _without(entries, one)
            total = sum((Fraction(other.epsilon) for other in others), Fraction(one.epsilon))
            if replace(one, published=True) in entries:
                return None
            if total > Fraction(str(ceiling)):
                return total
            self._write([*others, one])
        return None

    def publish(self, card: DatasetCard) -> None:
        """Record that a reserved card is published, before anyone can see it."""
        with self._locked():
            one, entries = _spending(card, published=True), self.entries()
            # A card that is published already costs nothing when it is shown again.
            if one not in entries:
                self._write([*_without(entries, one), one])

    def spent(self) -> Fraction:
        """Return the epsilon of all cards together."""
        return sum((Fraction(one.epsilon) for one in self.entries()), Fraction(0))

    def _locked(self) -> AbstractContextManager[None]:
        return file_lock(self.path.with_name(f".{self.path.name}.lock"))

    def _write(self, entries: Sequence[Spending]) -> None:
        facts = {"format": _FORMAT, "cards": [asdict(one) for one in entries]}
        write_atomic(self.path, document_json(facts), sync=True, private=True)


def _spending(card: DatasetCard, *, published: bool) -> Spending:
    return Spending(card.name, card.version, card.epsilon, card.digest, published)


def _without(entries: Sequence[Spending], card: Spending) -> list[Spending]:
    """Return the entries without unpublished ones of the same version, which this card replaces."""
    return [one for one in entries if one.published or (one.name, one.version) != (card.name, card.version)]
