"""Sanitizing objects again: after a review decided on them, a withdrawn release, or missing files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.objects import rule_out
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.stage_results import clear

AGAIN = "again"
"""Rule of an object that waits to be sanitised again; no run ends with it."""
REVIEW = "review"
"""Rule of an object that a person quarantined."""
_CLEARED = (
    "outcome = NULL, rule = NULL, staged = 0, p_patient = NULL, p_study = NULL, p_series = NULL,"
    " p_instance = NULL, bytes = NULL, sha256 = NULL, native = NULL, pixels = NULL, pixels_check = 0,"
    " flags = '', audited = 0, payload = NULL"
)


def count_requeued(state: State) -> int:
    """Number of objects that wait to be sanitized again."""
    return state.count(f"rule = '{AGAIN}'")


def mark_requeued(state: State, numbers: Iterable[int]) -> None:
    """Let objects wait to be sanitized again, within the open transaction."""
    rule_out(state, numbers, "quarantined", AGAIN)


def clear_set_decisions(state: State) -> None:
    """Clear what was decided of the whole set; what it ruled out waits to be sanitized again."""
    db = state.db
    db.execute(
        "UPDATE objects SET outcome = 'quarantined', rule = ?"
        " WHERE p_instance NOT NULL AND (outcome <> 'released' OR id IN (SELECT id FROM synthetics))",
        (AGAIN,),
    )
    db.execute("UPDATE objects SET flags = '' WHERE flags <> ''")
    clear(state, by="set")


def requeue(state: State, numbers: Iterable[int], staging: Path) -> None:
    """Queue objects again whose files are missing, and clear what was decided of the whole set."""
    with state.transaction():
        clear_set_decisions(state)
        mark_requeued(state, numbers)
    release_requeued(state, staging)


def release_requeued(state: State, staging: Path) -> None:
    """Make requeued objects pending again, as the review decided; after a kill, the next run finishes it."""
    if count_requeued(state):
        remove_unreleased(state, staging)
        with state.transaction() as db:
            _forget_synthetics(db)
            db.execute("UPDATE objects SET again = 0 WHERE again")
            db.execute(f"UPDATE objects SET again = 1, {_CLEARED} WHERE rule = ?", (AGAIN,))  # noqa: S608
            for table in ("doubted", "unseen", "findings", "looks"):
                db.execute(f"DELETE FROM {table} WHERE id IN (SELECT id FROM objects WHERE again)")  # noqa: S608
            # Who looked at an object has not looked at what it becomes now.
            db.execute(
                "DELETE FROM decisions WHERE verdict = 'release'"
                " AND id IN (SELECT id FROM objects WHERE again)"
            )
    with state.transaction() as db:
        db.execute(
            "UPDATE objects SET outcome = 'quarantined', rule = ? WHERE outcome IS NULL"
            " AND id IN (SELECT id FROM decisions WHERE verdict = 'quarantine')",
            (REVIEW,),
        )


def reset_all(state: State) -> None:
    """Make every object pending again: nothing is staged any more. What a review decided still holds."""
    with state.transaction() as db:
        clear_set_decisions(state)
        _forget_synthetics(db)
        db.execute(f"UPDATE objects SET {_CLEARED} WHERE p_instance NOT NULL OR rule = ?", (AGAIN,))  # noqa: S608
        for table in ("doubted", "unseen", "findings", "looks"):
            db.execute(f"DELETE FROM {table} WHERE id IN (SELECT id FROM objects WHERE outcome IS NULL)")  # noqa: S608
        clear(state, by="withdrawal")


def _forget_synthetics(db: Connection) -> None:
    """Synthetic images are made again, under the same numbers, once it is known how many are wanted."""
    db.execute("DELETE FROM objects WHERE id IN (SELECT id FROM synthetics)")
    db.execute("DELETE FROM synthetics")
