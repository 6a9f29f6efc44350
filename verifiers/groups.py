"""Disclosure risk of a released table: how many patients share all that it says of them (k-anonymity).

Sweeney, k-anonymity: a model for protecting privacy (2002). Whoever knows of somebody what the columns say
finds a group of k patients in the table; in a group of one, the patient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from medsanitize.release.duck import connected, identifier

FEW: Final = 5
"""Patients of smaller groups are counted as being at risk."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Patients grouped by what a table says of them.

    Attributes
    ----------
    patients, groups
        How many there are.
    smallest
        Patients of the smallest group (k); 0 where there is no patient.
    few
        Patients in groups of fewer than `FEW`.
    """

    patients: int
    groups: int
    smallest: int
    few: int


def groups_of(table: Path, patient: str, columns: Sequence[str]) -> Groups:
    """Group the patients of a table.

    A patient of several rows is grouped by the set of them. Needs 1 GB of memory at most, and disk beside the
    table for what is beyond.

    Parameters
    ----------
    table : Path
        Parquet.
    patient : str
        Column that names the patient.
    columns : sequence of str
        What somebody may know of a patient; one at least.

    Raises
    ------
    EnvironmentFailure
        When the disk is full or fails.
    """
    who = identifier(patient)
    # One text of all columns, none mistaken for another: each with its length, or a sign for nothing.
    said = " || ".join(f"coalesce(length({one}) || ':' || {one}, '-')" for one in map(identifier, columns))
    query = f"""
        WITH rows AS (SELECT DISTINCT {who} AS who, hash({said}) AS said FROM read_parquet(?)),
        persons AS (SELECT bit_xor(said) AS said, count(*) AS rows FROM rows GROUP BY who),
        groups AS (SELECT count(*) AS size FROM persons GROUP BY said, rows)
        SELECT coalesce(sum(size), 0), count(*), coalesce(min(size), 0),
               coalesce(sum(size) FILTER (size < {FEW}), 0) FROM groups
    """  # noqa: S608  names are quoted, and the number is a constant
    with connected(table.parent) as db:
        found = db.execute(query, [str(table)]).fetchone() or (0, 0, 0, 0)
    return Groups(*map(int, found))
