"""Queries for objects that state one SOP Instance UID."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.pipeline.state.reset import CLEARED, REQUEUED, mark_requeued

CONTESTED, OWN_UID = 1, 2
"""Values of the column ``contested``: another object states the UID; the object gets a UID of its own."""
# By pseudonym, not by row: which copy is kept must not depend on the order of the inputs.
_ORDER = "p_patient, p_study, p_series, p_instance, id"


@dataclass(frozen=True, slots=True, repr=False)
class Contender:
    """One of the objects that state the same SOP Instance UID; ``pixels`` is None if not compared."""

    id: int
    kind: str
    patient: bytes
    outcome: str | None
    sha256: bytes | None
    pixels: bytes | None

    def __repr__(self) -> str:
        return f"Contender({self.id})"


@dataclass(frozen=True, slots=True)
class Survivor:
    """A released object whose files have temporary names; ``names`` are the pseudonyms and the suffix."""

    id: int
    parts: str
    names: tuple[str, ...]


def index_pseudonyms(state: State) -> None:
    """Create the index used to read released objects in order."""
    state.db.execute(
        "CREATE INDEX IF NOT EXISTS objects_order ON objects (p_patient, p_study, p_series, p_instance)"
    )


def contested_uids(state: State) -> Iterator[bytes]:
    """Yield the keyed SOP Instance UIDs that several objects state."""
    after = b""
    while True:
        row = state.db.execute(
            "SELECT min(sop) FROM objects WHERE contested = ? AND sop > ?", (CONTESTED, after)
        ).fetchone()
        if row[0] is None:
            return
        after = bytes(row[0])
        yield after


def contenders(state: State, sop: bytes) -> list[Contender]:
    """List the objects that state a SOP Instance UID and have no UID of their own, by pseudonym."""
    rows = state.db.execute(
        "SELECT id, kind, patient, outcome, sha256, pixels FROM objects"  # noqa: S608
        f" WHERE sop = ? AND contested = ? ORDER BY {_ORDER}",
        (sop, CONTESTED),
    )
    return [Contender(*row) for row in rows.fetchall()]


def contested_images(state: State) -> Iterator[Survivor]:
    """Yield the released contested DICOM images whose pixels have no digest yet, by row."""
    after = -1
    while rows := state.db.execute(
        "SELECT id, p_parts, p_patient, p_study, p_series, p_instance, p_suffix FROM objects"
        " WHERE staged = 2 AND outcome = 'released' AND kind = 'dicom' AND native NOT NULL"
        " AND pixels_check = 0 AND id > ? ORDER BY id LIMIT ?",
        (after, PAGE),
    ).fetchall():
        yield from (Survivor(number, parts, tuple(names)) for number, parts, *names in rows)
        after = rows[-1][0]


def give_own_uids(state: State, numbers: Sequence[int]) -> None:
    """Mark objects to be sanitized again with UIDs of their own, within the open transaction."""
    mark_requeued(state, numbers)
    state.db.executemany(
        "UPDATE objects SET contested = ? WHERE id = ?", [(OWN_UID, number) for number in numbers]
    )


def reopen_own_uids(state: State) -> None:
    """Make the marked objects pending, once their staged files are removed."""
    with state.transaction():
        state.db.execute(
            f"UPDATE objects SET {CLEARED} WHERE rule = ? AND contested = ?",  # noqa: S608
            (REQUEUED, OWN_UID),
        )


def count_own_uids(state: State) -> int:
    """Count the released objects that got a UID of their own."""
    return state.count(f"contested = {OWN_UID} AND outcome = 'released'")


def quarantine_equal_pseudonyms(state: State) -> None:
    """Quarantine released objects that share a pseudonym, because different UIDs never share one."""
    state.db.execute(
        "UPDATE objects SET outcome = 'quarantined', rule = 'sop-instance-conflict'"
        " WHERE outcome = 'released' AND p_instance IN (SELECT p_instance FROM objects"
        "  WHERE outcome = 'released' GROUP BY p_instance HAVING count(*) > 1)"
    )


def unnamed_survivors(state: State) -> Iterator[list[Survivor]]:
    """Yield pages of survivors with temporary names.

    Each page is marked as renamed when the next one is requested.
    """
    while True:
        rows = state.db.execute(
            "SELECT id, p_parts, p_patient, p_study, p_series, p_instance, p_suffix FROM objects"
            " WHERE staged = 2 AND outcome = 'released' LIMIT ?",
            (PAGE,),
        ).fetchall()
        if not rows:
            break
        yield [Survivor(number, parts, tuple(names)) for number, parts, *names in rows]
        # Marked page by page: after a kill, the remaining files are renamed by the next run.
        state.write("UPDATE objects SET staged = 1 WHERE id = ?", [(row[0],) for row in rows])
    state.commit()
