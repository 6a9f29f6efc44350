"""Objects of a run: counts, outcomes, and the sources of pending objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths

# Condition for objects found in the inputs; the others are synthetic images of this run.
FOUND = "id NOT IN (SELECT id FROM synthetics)"


@dataclass(frozen=True, slots=True)
class OutcomeTotal:
    """Number of objects with one outcome and rule; the outcome is None for pending objects."""

    outcome: str | None
    rule: str | None
    objects: int
    source_bytes: int
    released_bytes: int


# -- counts ---------------------------------------------------------------------------------


def count_objects(state: State) -> int:
    """Count the objects, synthetic images included."""
    return state.count()


def count_found(state: State) -> int:
    """Count the objects found in the inputs."""
    return state.count(FOUND)


def count_pending(state: State) -> int:
    """Count the objects without an outcome."""
    return state.count("outcome IS NULL")


def count_released(state: State) -> int:
    """Count the objects to be released."""
    return state.count("outcome = 'released'")


def count_flagged(state: State, flag: str) -> int:
    """Count the released objects with a flag."""
    row = state.db.execute(
        "SELECT count(*) FROM objects WHERE outcome = 'released' AND flags LIKE ?", (f"%{flag}%",)
    ).fetchone()
    return int(row[0])


def outcome_counts(state: State) -> dict[str, int]:
    """Count the objects found in the inputs by outcome; all three outcomes are present."""
    # All three outcomes, so that readers need not handle missing ones.
    counts = dict.fromkeys(("released", "dropped", "quarantined"), 0)
    counts.update(
        state.db.execute(
            f"SELECT outcome, count(*) FROM objects WHERE outcome NOT NULL AND {FOUND} GROUP BY outcome"  # noqa: S608
        )
    )
    return counts


def rule_counts(state: State, outcome: str) -> dict[str, int]:
    """Count the objects found in the inputs with one outcome, by rule."""
    rows = state.db.execute(
        f"SELECT rule, count(*) FROM objects WHERE outcome = ? AND {FOUND} GROUP BY rule ORDER BY rule",  # noqa: S608
        (outcome,),
    )
    return {str(rule): int(count) for rule, count in rows}


def outcome_totals(state: State) -> list[OutcomeTotal]:
    """Count the objects found in the inputs, and their sizes, by outcome and rule."""
    rows = state.db.execute(
        "SELECT outcome, rule, count(*), sum(size), sum(coalesce(bytes, 0))"  # noqa: S608
        f" FROM objects WHERE {FOUND} GROUP BY outcome, rule"
        " ORDER BY coalesce(outcome, 'pending'), coalesce(rule, '')"
    )
    return [OutcomeTotal(*row) for row in rows.fetchall()]


# -- rows -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class PendingSource:
    """Encrypted paths, size, stamp and keyed patient of an object without an outcome."""

    source: bytes
    size: int
    stamp: bytes
    patient: bytes

    def __repr__(self) -> str:
        return "PendingSource(...)"


def pending_sources(state: State, page: int) -> Iterator[list[PendingSource]]:
    """Yield pages of the sources still to be sanitized."""
    rows = state.db.execute("SELECT source, size, stamp, patient FROM objects WHERE outcome IS NULL")
    while found := rows.fetchmany(page):
        yield [PendingSource(*row) for row in found]


def accounted_files(state: State) -> Iterator[tuple[bytes, str, str, str]]:
    """Yield address, kind, outcome and rule of every file of the inputs, in the order of the walk."""
    rows = state.db.execute(
        "SELECT source, kind, coalesce(outcome, ''), coalesce(rule, '')"  # noqa: S608
        f" FROM objects WHERE {FOUND} ORDER BY id"
    )
    for source, kind, outcome, rule in rows:
        for path in open_paths(state.seal, source):
            yield path, kind, outcome, rule


def released_sources(state: State) -> Iterator[tuple[tuple[bytes, ...], bytes]]:
    """Yield the addresses of the files of every released object, and its stamp, in the order of the walk."""
    rows = state.db.execute(
        f"SELECT source, stamp FROM objects WHERE outcome = 'released' AND {FOUND} ORDER BY id"  # noqa: S608
    )
    for source, stamp in rows:
        yield tuple(open_paths(state.seal, source)), bytes(stamp)


# -- verdicts -------------------------------------------------------------------------------


def rule_out(state: State, numbers: Iterable[int], outcome: str, rule: str) -> None:
    """Give objects an outcome other than released, within the open transaction."""
    state.db.executemany(
        "UPDATE objects SET outcome = ?, rule = ? WHERE id = ?",
        [(outcome, rule, number) for number in numbers],
    )


def add_flag(state: State, numbers: Iterable[int], flag: str) -> None:
    """Flag objects, within the open transaction."""
    state.db.executemany(
        "UPDATE objects SET flags = flags || ? WHERE id = ?", [(f"{flag},", number) for number in numbers]
    )
