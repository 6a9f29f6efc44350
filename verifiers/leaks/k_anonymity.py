"""k-anonymity of released tables: how many patients share each combination of values.

L. Sweeney, k-anonymity: a model for protecting privacy, 2002. Anyone who knows the values of a person finds a
group of k patients in the tables; in a group of one, the patient. All tables of a release use the same
pseudonyms, so their values are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medsanitize.release.duckdb_session import duckdb_session, quote_identifier, table_rows


@dataclass(frozen=True, slots=True)
class QuasiIdentifiers:
    """A table (Parquet), its column with the patient, and its columns with quasi-identifiers (texts)."""

    table: Path
    patient: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EquivalenceClasses:
    """Patients grouped by their combination of values.

    Attributes
    ----------
    patients, groups : int
        Number of patients and of groups.
    smallest : int
        Size of the smallest group (k); 0 without patients.
    few : int
        Patients in groups smaller than the required size.
    """

    patients: int
    groups: int
    smallest: int
    few: int


def equivalence_classes(tables: Sequence[QuasiIdentifiers], least: int) -> EquivalenceClasses:
    """Group the patients of tables by their combined values.

    A patient with several rows is grouped by the set of these rows. Uses at most 1 GB of memory, and beyond
    that disk space next to the first table.

    Parameters
    ----------
    tables : sequence of QuasiIdentifiers
        At least one table, all of the same release.
    least : int
        Required group size; patients of smaller groups are counted in ``few``.

    Returns
    -------
    EquivalenceClasses
        Number and sizes of the groups.

    Raises
    ------
    EnvironmentFailure
        The disk is full or fails.
    """
    rows = " UNION ALL ".join(_rows(number, one) for number, one in enumerate(tables))
    # XOR is independent of row order, and each row occurs once, so equal sets have equal values.
    query = f"""
        WITH rows AS ({rows}),
        persons AS (SELECT bit_xor(quasi_identifiers) AS quasi_identifiers, count(*) AS rows
            FROM rows GROUP BY patient),
        groups AS (SELECT count(*) AS size FROM persons GROUP BY quasi_identifiers, rows)
        SELECT coalesce(sum(size), 0), count(*), coalesce(min(size), 0),
               coalesce(sum(size) FILTER (size < $1), 0) FROM groups
    """  # noqa: S608  names are quoted
    with duckdb_session(tables[0].table.parent) as db:
        for number, one in enumerate(tables):
            db.register(f"table_{number}", table_rows(one.table))
        found = db.execute(query, [least]).fetchone() or (0, 0, 0, 0)
    return EquivalenceClasses(*map(int, found))


def _rows(number: int, table: QuasiIdentifiers) -> str:
    """Select each patient and row once; the hash includes the length of each value, which separates them."""
    columns = map(quote_identifier, table.columns)
    values = " || ".join(f"coalesce(length({one}) || ':' || {one}, '-')" for one in columns)
    patient = quote_identifier(table.patient)
    # Names are quoted; values are never part of the query.
    return (
        f"SELECT DISTINCT {patient} AS patient, hash('{number} ' || {values}) AS quasi_identifiers"  # noqa: S608
        f" FROM table_{number}"
    )
