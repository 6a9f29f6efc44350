"""What several parts of a run ask of its state."""

from __future__ import annotations

from collections.abc import Iterator

from medsanitize.pipeline.state.database import PAGE, State
from medsanitize.sanitize.context import ReviewDecision

FOUND = "id NOT IN (SELECT id FROM synthetics)"
"""Of objects that were found in the inputs; the others are synthetic images of this run."""


def released_rows(state: State, columns: str) -> Iterator[tuple[object, ...]]:
    """Yield columns of released objects in the order of their pseudonyms (the first four columns)."""
    names = "p_patient, p_study, p_series, p_instance"
    after = ("", "", "", "")
    while True:
        page = state.db.execute(
            f"SELECT {names}, {columns} FROM objects WHERE outcome = 'released'"  # noqa: S608
            f" AND ({names}) > (?, ?, ?, ?) ORDER BY {names} LIMIT ?",
            (*after, PAGE),
        ).fetchall()
        if not page:
            return
        yield from page
        after = page[-1][:4]


def outcome_counts(state: State) -> dict[str, int]:
    """Objects found by outcome; every outcome is named. Synthetic images were not found anywhere."""
    counts = dict.fromkeys(("released", "dropped", "quarantined"), 0)
    counts.update(
        state.db.execute(
            f"SELECT outcome, count(*) FROM objects WHERE outcome NOT NULL AND {FOUND} GROUP BY outcome"  # noqa: S608
        )
    )
    return counts


def rule_counts(state: State, outcome: str) -> dict[str, int]:
    """Objects found of one outcome by rule."""
    rows = state.db.execute(
        f"SELECT rule, count(*) FROM objects WHERE outcome = ? AND {FOUND} GROUP BY rule ORDER BY rule",  # noqa: S608
        (outcome,),
    )
    return {str(rule): int(count) for rule, count in rows}


def decisions_on(state: State, number: int) -> tuple[ReviewDecision, ...]:
    """What a person decided of places in one object, by place."""
    rows = state.db.execute(
        "SELECT place, verdict FROM decisions WHERE id = ? AND place <> '' ORDER BY place", (number,)
    )
    return tuple(ReviewDecision(place, verdict) for place, verdict in rows)
