"""Database operations that make objects pending again, to be sanitized another time."""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Connection

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.objects import rule_out

REQUEUED = "requeued"
"""Rule of an object that is to be sanitized again; no run ends with it."""
REVIEW = "review"
"""Rule of an object that a person quarantined."""
CLEARED = (
    "outcome = NULL, rule = NULL, staged = 0, p_patient = NULL, p_study = NULL, p_series = NULL,"
    " p_instance = NULL, bytes = NULL, sha256 = NULL, native = NULL, pixels = NULL, pixels_check = 0,"
    " flags = '', audited = 0, payload = NULL"
)
"""Every column that sanitizing or a later stage fills: a stale value would pass for a result."""


def count_requeued(state: State) -> int:
    """Return the number of objects that are to be sanitized again."""
    return state.count(f"outcome = 'quarantined' AND rule = '{REQUEUED}'")


def mark_requeued(state: State, numbers: Iterable[int]) -> None:
    """Mark objects to be sanitized again, within the open transaction."""
    rule_out(state, numbers, "quarantined", REQUEUED)


def requeue_ruled_out(state: State) -> None:
    """Requeue objects ruled out by decisions on the whole set, and clear all flags (open transaction)."""
    db = state.db
    # Only objects with a pseudonym were sanitized; the others were ruled out for a reason of their own.
    db.execute(
        "UPDATE objects SET outcome = 'quarantined', rule = ?"
        " WHERE p_instance NOT NULL"
        " AND (outcome IN ('dropped', 'quarantined') OR id IN (SELECT id FROM synthetics))",
        (REQUEUED,),
    )
    db.execute("UPDATE objects SET flags = '' WHERE flags <> ''")


def reopen_requeued(state: State) -> None:
    """Make requeued objects pending, within the open transaction."""
    db = state.db
    _remove_synthetics(db)
    db.execute("UPDATE objects SET requeued = 0 WHERE requeued")
    db.execute(f"UPDATE objects SET requeued = 1, {CLEARED} WHERE rule = ?", (REQUEUED,))  # noqa: S608
    # A decision to release applied to the earlier result of sanitizing, not to the new one.
    db.execute(
        "DELETE FROM decisions WHERE verdict = 'release' AND id IN (SELECT id FROM objects WHERE requeued)"
    )


def reopen_all(state: State) -> None:
    """Make every sanitized object pending, within the open transaction."""
    db = state.db
    _remove_synthetics(db)
    db.execute(f"UPDATE objects SET {CLEARED} WHERE p_instance NOT NULL OR rule = ?", (REQUEUED,))  # noqa: S608


def quarantine_decided(state: State) -> None:
    """Quarantine pending objects by decision of a review, within the open transaction."""
    state.db.execute(
        "UPDATE objects SET outcome = 'quarantined', rule = ? WHERE outcome IS NULL"
        " AND id IN (SELECT id FROM decisions WHERE verdict = 'quarantine')",
        (REVIEW,),
    )


def _remove_synthetics(db: Connection) -> None:
    # Their row numbers are reused when the images are generated again, possibly in another number.
    db.execute("DELETE FROM objects WHERE id IN (SELECT id FROM synthetics)")
    db.execute("DELETE FROM synthetics")


# -- results of stages, of objects that are sanitized again -------------------------------


def remove_review_items(state: State) -> None:
    """Remove the review items of pending objects, within the open transaction."""
    _remove_pending(state, "review_item_objects", "review_items_left_out")


def remove_findings(state: State) -> None:
    """Remove the findings of the audit on pending objects, within the open transaction."""
    _remove_pending(state, "findings", "excerpts", "chance_findings")


def remove_fingerprints(state: State) -> None:
    """Remove the fingerprints of pending objects, within the open transaction."""
    _remove_pending(state, "fingerprints")


def _remove_pending(state: State, *tables: str) -> None:
    for table in tables:
        state.db.execute(
            f"DELETE FROM {table} WHERE id IN (SELECT id FROM objects WHERE outcome IS NULL)"  # noqa: S608
        )
