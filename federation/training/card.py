"""A job that makes the dataset card of all sites: one sum of counts, to which each site adds noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.federation.training.job import check_only_round
from medsanitize.federation.training.summed_vectors import joined_vector, separated, vector_length
from medsanitize.policies.dataset_card import CardSection
from medsanitize.release.canonical_json import document_json
from medsanitize.release.dataset_card.budget import CardBudget, Spending
from medsanitize.release.dataset_card.documents import card_facts, card_markdown, croissant_record_set
from medsanitize.release.dataset_card.joint_card import (
    JointTerms,
    joint_card,
    joint_limits,
    joint_statement,
    noisy_counts,
)
from medsanitize.release.dataset_card.noisy_tables import DatasetCard
from medsanitize.release.dataset_card.tables import REGIONS, CardCounts, TableShape, card_shapes

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.federation.training.invitation import Invitation
    from medsanitize.verifiers.reid.training.sums import State, Summed
    from numpy.typing import NDArray

CARD, CROISSANT, FACTS = "dataset-card.md", "croissant.json", "card.json"
_START, _COUNTS = "phase", "counts"
# Larger than any number of patients and its noise: the numbers are whole.
_BOUND: Final = 2.0**50


@dataclass(frozen=True, slots=True, repr=False)
class CardSite:
    """What a site needs for a joint card.

    Attributes
    ----------
    counts
        Exact counts of its released patients.
    key
        Secret from which its share of the noise follows.
    budget, ceiling
        Its ledger of dataset cards, and the most that all of them may spend.
    """

    counts: CardCounts
    key: bytes
    budget: CardBudget
    ceiling: float


@dataclass(frozen=True, slots=True)
class FederatedCard:
    """The round of a joint card, as `medsanitize.federation.training.job.FederatedJob`."""

    invitation: Invitation

    @property
    def section(self) -> CardSection:
        """The tables of the card."""
        return CardSection.model_validate(self.invitation.terms["card"], strict=False)

    @property
    def shapes(self) -> tuple[TableShape, ...]:
        """The tables, with their categories."""
        return card_shapes(self.section, REGIONS)

    @property
    def terms(self) -> JointTerms:
        """What the sites agree on."""
        return JointTerms(
            str(self.invitation.terms["name"]),
            # Two jobs are two cards, whatever their name: each spends its own epsilon.
            self.invitation.digest[:16],
            str(self.section.epsilon),
            len(self.invitation.sites),
            self.invitation.aggregation(0).threshold,
        )

    def start(self) -> State:
        """Return the state before the round."""
        import numpy as np

        return {_START: np.array(0.0)}

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed: all counts with noise; nothing afterwards."""
        from medsanitize.verifiers.reid.training.sums import Summed

        rows = sum(len(shape.categories) for shape in self.shapes)
        return {} if _COUNTS in state else {_COUNTS: Summed((1 + rows,), _BOUND)}

    def contribution(self, state: State, site: Any, number: int) -> NDArray[np.uint64]:
        """Record what the card spends at a site, and return its counts with its share of the noise.

        Raises
        ------
        UsageError
            The ceiling of the site does not allow the card, or its tables are others.
        IntegrityError
            The server asks for a second sum.
        """
        import numpy as np

        # Sums of the same noise over other sites: their difference would have one share of it only.
        check_only_round(number)
        own: CardSite = site
        terms = self.terms
        if own.counts.shapes != self.shapes:
            raise UsageError(
                "The tables of this site are others than those of the card", "Name the same ones"
            )
        # Before anything leaves: a vector that was sent cannot be taken back.
        spending = Spending(terms.name, terms.version, terms.epsilon, self.invitation.digest, published=True)
        if own.budget.spend(spending, own.ceiling) is not None:
            raise UsageError(
                f"The dataset cards of this site would spend more than its ceiling, epsilon {own.ceiling:g}",
                "Decline the job, or raise release.card.ceiling of the release's policy",
            )
        noisy = np.array(noisy_counts(own.counts, terms, own.key), np.float64)
        return joined_vector({_COUNTS: noisy}, self.asked(state), terms.sites)

    def length(self, state: State) -> int:
        """Return the length of the vector."""
        return vector_length(self.asked(state))

    def following(self, state: State, total: NDArray[np.uint64]) -> State:
        """Return the state with the sums."""
        return {**state, **separated(total, self.asked(state))}

    def card(self, state: State) -> DatasetCard:
        """Return the card of the last state."""
        return joint_card(self.shapes, [round(one) for one in state[_COUNTS].tolist()], self.terms)

    def save(self, state: State, output: Path, statement: str) -> str:
        """Write the card as text, as Croissant and as facts, and return the digest of all."""
        from medsanitize.release.croissant import card_document
        from medsanitize.verifiers.reid.models.model_folder import Names, write_folder

        card, said, left = self.card(state), joint_statement(self.terms), (*joint_limits(), statement)
        document = card_document(card.name, card.version, croissant_record_set(card, said, left))
        facts = {**card_facts(card), "sites": self.terms.sites, "statement": said, "limits": list(left)}
        names = frozenset({CARD, CROISSANT, FACTS})
        content = {
            CARD: card_markdown(card, said, left).encode(),
            CROISSANT: document_json(document),
            FACTS: document_json(facts),
        }
        return write_folder(output, content, Names(names, names))
