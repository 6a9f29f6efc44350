"""Disclosure risk of released tables: how many patients share all that they say of them (k-anonymity).

Sweeney, k-anonymity: a model for protecting privacy (2002). Whoever knows of somebody what the columns say
finds a group of k patients in the tables; in a group of one, the patient. Tables of one release name their
patients alike, so what they say adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medsanitize.release.duckdb_session import duckdb_session, quote_identifier, table_rows


@dataclass(frozen=True, slots=True)
class QuasiIdentifiers:
    """A table (Parquet), its column that names the patient, and what it says of patients: texts."""

    table: Path
    patient: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EquivalenceClasses:
    """Patients grouped by what tables say of them.

    Attributes
    ----------
    patients, groups
        How many there are.
    smallest
        Patients of the smallest group (k); 0 where there is no patient.
    few
        Patients in groups of fewer than were asked for.
    """

    patients: int
    groups: int
    smallest: int
    few: int


def equivalence_classes(tables: Sequence[QuasiIdentifiers], least: int) -> EquivalenceClasses:
    """Group the patients of tables by all that these say of them together.

    A patient of several rows is grouped by the set of them. Needs 1 GB of memory at most, and disk beside the
    first table for what is beyond.

    Parameters
    ----------
    tables : sequence of QuasiIdentifiers
        Of one release; one at least.
    least : int
        Patients of smaller groups are counted in ``few``.

    Raises
    ------
    EnvironmentFailure
        When the disk is full or fails.
    """
    rows = " UNION ALL ".join(_rows(number, one) for number, one in enumerate(tables))
    query = f"""
        WITH rows AS ({rows}),
        persons AS (SELECT bit_xor(said) AS said, count(*) AS rows FROM rows GROUP BY who),
        groups AS (SELECT count(*) AS size FROM persons GROUP BY said, rows)
        SELECT coalesce(sum(size), 0), count(*), coalesce(min(size), 0),
               coalesce(sum(size) FILTER (size < $1), 0) FROM groups
    """  # noqa: S608  names are quoted
    with duckdb_session(tables[0].table.parent) as db:
        for number, one in enumerate(tables):
            db.register(f"table_{number}", table_rows(one.table))
        found = db.execute(query, [least]).fetchone() or (0, 0, 0, 0)
    return EquivalenceClasses(*map(int, found))


def _rows(number: int, told: QuasiIdentifiers) -> str:
    """Each patient and thing said, once: a text of all columns, each with its length, or a sign for none."""
    columns = map(quote_identifier, told.columns)
    said = " || ".join(f"coalesce(length({one}) || ':' || {one}, '-')" for one in columns)
    who = quote_identifier(told.patient)
    return f"SELECT DISTINCT {who} AS who, hash('{number} ' || {said}) AS said FROM table_{number}"  # noqa: S608
