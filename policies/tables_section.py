"""Policy sections for accompanying tables and their k-anonymity."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from medsanitize.policies.base import Section, Slug, Text
from pydantic import Field


class TableSection(Section):
    """An accompanying table. Columns not named here are dropped."""

    name: Slug
    """Name of the released table."""
    file: Path
    """CSV or Parquet."""
    patient: Text
    """Column with the PatientID."""
    issuer: Text | None = None
    """Column with the issuer of the PatientID."""
    study: Text | None = None
    """Column with the Study Instance UID."""
    instance: Text | None = None
    """Column with the SOP Instance UID."""
    accession: Text | None = None
    """Column with the accession number."""
    dates: tuple[Text, ...] = ()
    """Columns with dates, changed like all dates of the patient; a time of day in the cell is removed."""
    times: dict[Text, Text] = Field(default_factory=dict)
    """Columns with times of day -> the column of their date, one of ``dates``. They are treated as
    ``dicom.dates.times`` sets, and written as HHMMSS."""
    ages: tuple[Text, ...] = ()
    """Columns with ages in years; over 89 becomes 90."""
    zip_codes: tuple[Text, ...] = ()
    """Columns with ZIP codes, cut to three digits, 000 for small areas."""
    keep: tuple[Text, ...] = ()
    """Columns released as they are."""


class KAnonymity(Section):
    """k-anonymity: how many patients must share each combination of values in all tables."""

    k: Annotated[int, Field(ge=2, le=1000)] = 5
    """Required group size (k); patients of smaller groups are counted."""
    action: Literal["flag", "fail"] = "flag"
    """Action if there are smaller groups: ``flag`` states it in the release, ``fail`` publishes nothing."""
