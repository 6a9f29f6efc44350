"""What a dataset card counts: tables with fixed categories, and the patients in each category.

No category comes from the data: a row that exists because of one patient would reveal that patient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.policies.dataset_card import OLDEST, CardSection

AGE, SEX, IMAGES, MODALITY, REGION = "age", "sex", "images", "modality", "region"
UNKNOWN: Final = "unknown"
OTHER: Final = "other"
OTHER_VALUE: Final = "other value"
NO_ENTRY: Final = "no entry"
_SEXES: Final = {"F": "female", "M": "male", "O": OTHER}
REGIONS: Final = (
    *("head", "neck", "chest", "heart", "breast", "abdomen", "pelvis", "trunk", "spine", "arm", "leg"),
)
"""Body regions that are distinguished; trunk is several of chest, abdomen and pelvis."""
# Youngest member of each group of patients by their number of images.
_IMAGE_GROUPS: Final = (1, 2, 10, 100, 1000)


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table: everything about it that is public before anyone looks at the data.

    Attributes
    ----------
    name, title : str
        Name in machine-readable form, and the caption.
    categories : tuple of str
        The rows.
    per_patient : int
        Most categories that count of one patient: by so much one patient can change the table (L1).
    partition : bool
        Whether every patient is in exactly one category, so that the rows add up to the patients.
    """

    name: str
    title: str
    categories: tuple[str, ...]
    per_patient: int = 1
    partition: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class CardCounts:
    """Exact numbers of patients by table and category. Never published; those of several sites can be added.

    Attributes
    ----------
    shapes : tuple of TableShape
    patients : int
    rows : tuple of tuple of int
        Per table, in the order of its categories.
    """

    shapes: tuple[TableShape, ...]
    patients: int
    rows: tuple[tuple[int, ...], ...]

    def __repr__(self) -> str:
        return "CardCounts(...)"

    def __add__(self, other: CardCounts) -> CardCounts:
        if self.shapes != other.shapes:
            raise UsageError("Cards of different tables cannot be added", "Use the same settings")
        rows = (
            tuple(a + b for a, b in zip(one, two, strict=True))
            for one, two in zip(self.rows, other.rows, strict=True)
        )
        return CardCounts(self.shapes, self.patients + other.patients, tuple(rows))


@dataclass(slots=True)
class CardCounter:
    """Counts patients, each with at most ``per_patient`` categories of a table."""

    shapes: tuple[TableShape, ...]
    patients: int = 0
    _rows: list[list[int]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._rows = [[0] * len(shape.categories) for shape in self.shapes]

    def add(self, found: Mapping[str, Collection[str]]) -> None:
        """Count one patient; ``found`` has the categories of each table.

        Of more categories than the bound, the first ones in the order of the table count: which ones depends
        on this patient alone.
        """
        self.patients += 1
        for shape, row in zip(self.shapes, self._rows, strict=True):
            numbers = sorted(shape.categories.index(one) for one in set(found[shape.name]))
            for number in numbers[: shape.per_patient]:
                row[number] += 1

    def counts(self) -> CardCounts:
        """Return the counts so far."""
        return CardCounts(self.shapes, self.patients, tuple(map(tuple, self._rows)))


def card_shapes(section: CardSection, regions: Sequence[str]) -> tuple[TableShape, ...]:
    """Return the tables of a card.

    Parameters
    ----------
    section : CardSection
        The policy's settings.
    regions : sequence of str
        Body regions that are distinguished.
    """
    most = section.per_patient
    return (
        TableShape(AGE, "Age in years at the first image", (*_age_groups(section.ages), UNKNOWN)),
        TableShape(SEX, "Sex", (*_SEXES.values(), UNKNOWN)),
        TableShape(IMAGES, "Images of the patient", _image_groups()),
        TableShape(MODALITY, "Modality", _distinct(section.modalities, OTHER), most, partition=False),
        TableShape(REGION, "Body region", _distinct(regions, f"{OTHER} or {UNKNOWN}"), most, partition=False),
        *(
            TableShape(
                finding_name(number),
                f"{one.column} ({one.table})",
                _distinct(one.values, OTHER_VALUE, NO_ENTRY),
                one.per_patient,
                partition=one.per_patient == 1,
            )
            for number, one in enumerate(section.findings)
        ),
    )


def finding_name(number: int) -> str:
    """Return the name of a table of findings."""
    return f"findings-{number + 1}"


def age_category(section: CardSection, years: int | None) -> str:
    """Return the age group; None is an unknown age."""
    if years is None:
        return UNKNOWN
    starts = section.ages
    number = max(number for number, start in enumerate(starts) if start <= min(years, OLDEST))
    return _age_groups(starts)[number]


def sex_category(stated: Collection[str]) -> str:
    """Return the sex if all objects of a patient that state one state the same."""
    known = {one for one in stated if one in _SEXES}
    return _SEXES[known.pop()] if len(known) == 1 else UNKNOWN


def images_category(images: int) -> str:
    """Return the group of patients with so many images."""
    number = max(number for number, least in enumerate(_IMAGE_GROUPS) if least <= images)
    return _image_groups()[number]


def listed_category(shape: TableShape, value: str) -> str:
    """Return a value that is a category, else the category of all others."""
    return value if value in shape.categories else _others(shape)


def _others(shape: TableShape) -> str:
    return next(one for one in (OTHER_VALUE, f"{OTHER} or {UNKNOWN}", OTHER) if one in shape.categories)


def _distinct(values: Iterable[str], *more: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*values, *more)))


def _age_groups(starts: Sequence[int]) -> tuple[str, ...]:
    closed = (f"{one}" if next_ - 1 == one else f"{one} to {next_ - 1}" for one, next_ in pairwise(starts))
    return (*closed, f"{starts[-1]} and over")


def _image_groups() -> tuple[str, ...]:
    return _age_groups(_IMAGE_GROUPS)
