"""The stage dataset card: counts patients on the holder's side, and adds noise within the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Final

from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.stages.tables import check_tables, released_rows, table_with
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.records import open_record
from medsanitize.pipeline.state.released import released_objects
from medsanitize.pipeline.state.stage_results import CARD
from medsanitize.policies.dataset_card import CardFindings, CardSection
from medsanitize.policies.tables_section import TableSection
from medsanitize.release.dataset_card.budget import CardBudget
from medsanitize.release.dataset_card.noisy_tables import DatasetCard, make_card
from medsanitize.release.dataset_card.tables import (
    AGE,
    IMAGES,
    MODALITY,
    NO_ENTRY,
    REGION,
    REGIONS,
    SEX,
    CardCounter,
    CardCounts,
    TableShape,
    age_category,
    card_shapes,
    finding_name,
    images_category,
    listed_category,
    sex_category,
)
from medsanitize.release.summary import GateSummary
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import ObjectRecord
from medsanitize.verifiers.reid.images.body_regions import region_of

GATE: Final = "dataset card"


@dataclass(frozen=True, slots=True)
class DatasetCardStage(Stage):
    """Make the dataset card that is published with the release."""

    section: CardSection | None
    tables: tuple[TableSection, ...]
    release: str
    version: str
    budget: CardBudget

    name: ClassVar = "dataset card"
    phase: ClassVar[Phase] = "documents"
    invalidated_by: ClassVar = frozenset({"sanitize", "deduplicate", "overlap", "synthesize"})

    def check(self) -> None:
        """Refuse columns of findings that do not exist, and a damaged ledger."""
        if self.section is not None:
            check_findings(self.section, self.tables)
            self.budget.entries()

    def pending(self, state: State) -> int | None:
        """Return 0 without a card, else None, since every run makes it again."""
        return 0 if self.section is None else None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Make the card, and reserve its epsilon; beyond the ceiling there is no card."""
        section = self.section
        if section is None:
            return
        counts = count_patients(context.state, section, self.tables)
        card = card_of(counts, self.release, self.version, section.epsilon, context.subkeys)
        with context.state.transaction():
            CARD.remove(context.state)
            if self.budget.reserve(card, section.ceiling) is None:
                CARD.store(context.state, card)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the card."""
        CARD.remove(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide whether the budget of the patients allows the card; no gate without a card."""
        section = self.section
        if section is None:
            return ()
        if judged.is_plan:
            return (GateSummary(GATE, "not_run", "The dataset card is made by a run only."),)
        card = CARD.load(judged.state)
        if card is None:
            detail = f"{beyond(section.ceiling)} {REMEDY}"
            return (GateSummary(GATE, "failed", detail),)
        detail = f"Epsilon {card.epsilon} for one patient; all versions may spend {section.ceiling:g}."
        return (GateSummary(GATE, "passed", detail),)


REMEDY: Final = "Use a smaller release.card.epsilon, raise its ceiling, or publish without a card."


def beyond(ceiling: float) -> str:
    """Return the sentence that refuses a card."""
    return f"The dataset cards of all versions would spend more than the ceiling, epsilon {ceiling:g}."


def card_of(counts: CardCounts, release: str, version: str, epsilon: float, subkeys: SubKeys) -> DatasetCard:
    """Make a card under the key of the release; the run and the command make the same one."""
    return make_card(counts, release, version, epsilon, subkeys.lookup)


def check_findings(section: CardSection, tables: Sequence[TableSection]) -> None:
    """Check that the tables of the findings can be read and have their columns.

    Raises
    ------
    UsageError
        A table cannot be read, or a column is missing.
    """
    named = {table.name: table for table in tables}
    check_tables([table_with(named[one.table], one.column) for one in section.findings])


@dataclass(slots=True)
class _Patient:
    """What the objects of one patient state."""

    ages: set[int] = field(default_factory=set)
    sexes: set[str] = field(default_factory=set)
    modalities: set[str] = field(default_factory=set)
    regions: set[str] = field(default_factory=set)
    images: int = 0

    def add(self, record: ObjectRecord) -> None:
        age, sex, part = record.stated
        self.ages |= {age} if age is not None else set()
        self.sexes.add(sex)
        self.modalities.add(record.modality)
        self.regions.add(region_of([part]))
        self.images += 1

    def categories(self, section: CardSection, shapes: Mapping[str, TableShape]) -> dict[str, set[str]]:
        modality, region = shapes[MODALITY], shapes[REGION]
        return {
            AGE: {age_category(section, min(self.ages, default=None))},
            SEX: {sex_category(self.sexes)},
            IMAGES: {images_category(self.images)},
            MODALITY: {listed_category(modality, one) for one in self.modalities},
            REGION: {listed_category(region, one) for one in self.regions},
        }


def count_patients(state: State, section: CardSection, tables: Sequence[TableSection]) -> CardCounts:
    """Count the patients of the released objects; synthetic images have none.

    Parameters
    ----------
    state : State
        After the sanitized objects have their outcome.
    section : CardSection
        The categories.
    tables : sequence of TableSection
        The accompanying tables, for findings.
    """
    counter = CardCounter(card_shapes(section, REGIONS))
    shapes = {shape.name: shape for shape in counter.shapes}
    named = {table.name: table for table in tables}
    found = {
        finding_name(number): _findings(state, named[one.table], one, shapes[finding_name(number)])
        for number, one in enumerate(section.findings)
    }
    # Objects come in the order of their patients.
    for pseudonym, records in groupby(_records(state), key=lambda record: record.patient):
        patient = _Patient()
        for record in records:
            patient.add(record)
        listed = {name: values.get(pseudonym, {NO_ENTRY}) for name, values in found.items()}
        counter.add({**patient.categories(section, shapes), **listed})
    return counter.counts()


def _records(state: State) -> Iterator[ObjectRecord]:
    for row in released_objects(state):
        if row.label is None:
            yield open_record(state.seal, "released", row.names, row.payload)


def _findings(state: State, table: TableSection, one: CardFindings, shape: TableShape) -> dict[str, set[str]]:
    """Return the categories of each patient with a value."""
    found: dict[str, set[str]] = {}
    for pseudonym, value in released_rows(state, table, one.column):
        if value:
            found.setdefault(pseudonym, set()).add(listed_category(shape, value))
    return found
