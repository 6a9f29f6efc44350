"""Policy section for the dataset card: tables about the patients, with differential privacy."""

from __future__ import annotations

from typing import Annotated

from medsanitize.policies.base import Section, Slug, Text
from pydantic import Field, StringConstraints

OLDEST = 90
"""The last age group begins at this age at the latest: ages over 89 are one category."""
# Modalities of images (PS3.3 C.7.3.1.1.1) in the order of a catalog of a hospital.
MODALITIES = tuple("CR DX CT MR US MG PT NM XA RF IO PX OP OPT ES XC SM OT".split())
Epsilon = Annotated[float, Field(ge=0.01, le=10, allow_inf_nan=False)]
MostOfAPatient = Annotated[int, Field(ge=1, le=50)]


class CardFindings(Section):
    """One table of findings on the dataset card."""

    table: Slug
    """Name of the accompanying table."""
    column: Text
    """Column with the finding, one per row. It need not be released."""
    values: Annotated[tuple[Text, ...], Field(min_length=1, max_length=200)]
    """The findings that are counted. A value that is not listed counts as `other value`: the data must not
    decide which rows the card has."""
    per_patient: MostOfAPatient = 1
    """Most findings that count of one patient; the first ones in the order of ``values``. The error grows
    with it."""


class CardSection(Section):
    """The dataset card: numbers of patients with differential privacy. Needs the extra ``card``."""

    epsilon: Epsilon
    """Epsilon of this version's card for one patient; its tables share it equally. Smaller protects more."""
    ceiling: Epsilon = 3
    """Most that the cards of all versions may spend together, since versions share patients. A card beyond it
    refuses the release."""
    ages: Annotated[tuple[Annotated[int, Field(ge=0, le=OLDEST)], ...], Field(min_length=1)] = tuple(
        range(0, OLDEST + 1, 10)
    )
    """Youngest age of each age group, ascending from 0; ages over 89 are always one group."""
    modalities: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[A-Z0-9]{2,16}$")], ...], Field(min_length=1)
    ] = MODALITIES
    """Modalities that are counted; all others count as `other`."""
    per_patient: MostOfAPatient = 2
    """Most modalities, and most body regions, that count of one patient; the first ones in the order of the
    list. The error grows with it."""
    findings: Annotated[tuple[CardFindings, ...], Field(max_length=20)] = ()
    """Tables of findings, from accompanying tables."""
