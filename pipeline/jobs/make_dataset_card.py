"""The dataset card of a published release, from the state of its holder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline.resume import open_for_reading, scope_of
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.pipeline.runtime.workspace import card_budget
from medsanitize.pipeline.stages.dataset_card import card_of, check_findings, count_patients
from medsanitize.pipeline.state.database import translated_errors
from medsanitize.pipeline.state.stage_results import PUBLISHED
from medsanitize.policies.dataset_card import CardSection
from medsanitize.policies.model import Policy
from medsanitize.policies.release_key import read_release_key
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.dataset_card.noisy_tables import DatasetCard
from medsanitize.release.dataset_card.tables import CardCounts
from medsanitize.sanitize.pseudonyms import derive_sub_keys


@dataclass(frozen=True, slots=True)
class CardResult:
    """A card, or None if the ceiling refused it; what all cards have spent, and the ceiling."""

    card: DatasetCard | None
    spent: float
    ceiling: float


@translated_errors()
def make_dataset_card(policy: Policy, epsilon: float | None) -> CardResult:
    """Make a card of the published release of a policy, and record what it spends.

    The same card again is the same query: it has the same figures and spends nothing.

    Parameters
    ----------
    policy : Policy
        The policy of the release.
    epsilon : float or None
        What the card spends; by default that of the policy.

    Raises
    ------
    UsageError
        The release is anonymous or not published, epsilon is missing, or the extra is not installed.
    IntegrityError
        The state or the ledger is damaged.
    """
    section = _section(policy, epsilon)
    counts = released_counts(policy, section)
    subkeys = derive_sub_keys(read_release_key(policy.keys), scope=scope_of(policy))
    card = card_of(counts, policy.release.name, policy.release.version, section.epsilon, subkeys)
    budget = card_budget(policy)
    refused = budget.reserve(card, section.ceiling) is not None
    if not refused:
        budget.publish(card)
    return CardResult(None if refused else card, float(budget.spent()), section.ceiling)


@translated_errors()
def released_counts(policy: Policy, section: CardSection) -> CardCounts:
    """Count the patients of the published release of a policy, in the tables of a card.

    Raises
    ------
    UsageError
        The release is anonymous or not published, a table is missing, or the extra is not installed.
    """
    if policy.release.mode == "anonymous":
        raise _anonymous()
    check_extra("card")
    missing = {one.table for one in section.findings} - {table.name for table in policy.tables}
    if missing:
        raise UsageError("The policy has no table for findings of the card", "Name it in the section tables")
    check_findings(section, policy.tables)
    state = open_for_reading(policy)
    try:
        if not PUBLISHED.is_set(state):
            raise UsageError("The release is not published yet", "Run the policy first")
        return count_patients(state, section, policy.tables)
    finally:
        state.close()


def _anonymous() -> UsageError:
    return UsageError(
        "An anonymous release keeps no state from which patients could be counted",
        "Write release.card.epsilon into the policy: the run then makes the card",
    )


def _section(policy: Policy, epsilon: float | None) -> CardSection:
    if policy.release.mode == "anonymous":
        raise _anonymous()
    section = policy.release.card
    if epsilon is None:
        if section is None:
            raise UsageError("Epsilon is missing", "Give it with --epsilon, for example --epsilon 1")
        return section
    if section is None:
        return CardSection(epsilon=epsilon)
    return section.model_copy(update={"epsilon": epsilon})


def published_card(release: Path) -> str:
    """Return the card that a release contains.

    Raises
    ------
    UsageError
        It is no release, or has no card.
    """
    if not (release / layout.ROOT).is_file():
        raise UsageError("There is no release at this path", "Name a policy, or the folder of a release")
    path = release / layout.CARD
    if not path.is_file():
        raise UsageError(
            "The release contains no dataset card", "Its holder can make one: medsanitize release card POLICY"
        )
    with storage_errors():
        return path.read_text("utf-8")
