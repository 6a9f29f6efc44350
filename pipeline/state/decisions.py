"""Decisions of a review on objects, findings and review items."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.reset import REQUEUED
from medsanitize.pipeline.state.review_queue import open_item
from medsanitize.sanitize.context import ReviewDecision

# Objects that a decision applies to, and the location in each; "" stands for the whole object.
Targets = list[tuple[int, str]]

# By increasing severity.
_SEVERITY: Final = "release chance keep blank quarantine"
_DECIDED_BY_PERSONS: Final = ("decisions", "chance", "judgments", "decision_log")


@dataclass(frozen=True, slots=True)
class DecisionCounts:
    """Number of decisions and of objects that they apply to."""

    decisions: int
    objects: int


def decisions_on(state: State, number: int) -> tuple[ReviewDecision, ...]:
    """Return the decisions on locations in one object, ordered by location."""
    rows = state.db.execute(
        "SELECT location, verdict FROM decisions WHERE id = ? AND location <> '' ORDER BY location", (number,)
    )
    return tuple(ReviewDecision(location, verdict) for location, verdict in rows)


def any_decision(state: State) -> bool:
    """Report whether there is any decision."""
    return bool(
        state.db.execute("SELECT EXISTS (SELECT 1 FROM decisions UNION SELECT 1 FROM chance)").fetchone()[0]
    )


def decision_counts(state: State) -> DecisionCounts:
    """Count the decisions and their objects."""
    decisions, objects = state.db.execute("SELECT count(*), count(DISTINCT id) FROM decisions").fetchone()
    chance = state.db.execute("SELECT count(*) FROM chance").fetchone()[0]
    return DecisionCounts(int(decisions) + int(chance), int(objects))


def decisions_digest(state: State) -> str:
    """Compute a digest of all decisions; empty if there are none."""
    digest = sha256()
    # In a fixed order: the digest binds the release to these decisions.
    rows = state.db.execute("SELECT id, location, verdict FROM decisions ORDER BY id, location")
    empty = True
    for row in rows:
        digest.update(json.dumps(row).encode() + b"\n")
        empty = False
    # The names are keyed digests; the reasons do not change the release.
    for (name,) in state.db.execute("SELECT name FROM chance ORDER BY name"):
        digest.update(bytes(name) + b"\n")
        empty = False
    return "" if empty else digest.hexdigest()


def keep_decisions_only(state: State) -> None:
    """Empty the state, except for decisions that hold for any result of sanitizing (open transaction)."""
    rows = state.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in rows:
        if table not in _DECIDED_BY_PERSONS:
            state.db.execute(f"DELETE FROM {table}")  # noqa: S608
    # Created when an inventory is complete, as in a new state.
    rows = state.db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL"
        " AND tbl_name IN ('objects', 'patients', 'demographics')"
        " AND name NOT IN ('objects_outcome', 'objects_flagged')"
    ).fetchall()
    for (index,) in rows:
        state.db.execute(f"DROP INDEX {index}")
    state.db.execute("DELETE FROM decisions WHERE verdict = 'release'")
    # An error that a new rule corrects is none; if it does not, a person finds it again.
    state.db.execute("DELETE FROM judgments WHERE verdict = 'error'")


def drop_kept_texts(state: State, holds: Callable[[str], bool]) -> None:
    """Remove decisions to keep what a person now lists as a never-word, within the open transaction."""
    rows = state.db.execute(
        "SELECT DISTINCT name, location FROM review_items JOIN review_item_objects USING (name)"
        " JOIN decisions USING (id, location) WHERE verdict = 'keep'"
    ).fetchall()
    for name, location in rows:
        if holds(open_item(state, name).text):
            state.db.execute(
                "DELETE FROM decisions WHERE verdict = 'keep' AND location = ?"
                " AND id IN (SELECT id FROM review_item_objects WHERE name = ?)",
                (location, name),
            )


# -- objects that a decision applies to ----------------------------------------------------


def targets_of_object(state: State, number: int) -> Targets:
    """Return the object, if it is to be released or waits to be sanitized again."""
    return state.db.execute(
        "SELECT id, '' FROM objects WHERE id = ? AND (outcome = 'released' OR rule = ?)", (number, REQUEUED)
    ).fetchall()


def targets_of_finding(state: State, location: str, rule: str) -> Targets:
    """Return the objects with a finding of the audit that are not dropped."""
    return state.db.execute(
        "SELECT id, '' FROM findings JOIN objects USING (id)"
        " WHERE location = ? AND findings.rule = ? AND outcome <> 'dropped'",
        (location, rule),
    ).fetchall()


def targets_of_item(state: State, name: bytes) -> Targets:
    """Return the objects with a review item, and the item's location."""
    return state.db.execute(
        "SELECT id, location FROM review_item_objects JOIN review_items USING (name) WHERE name = ?", (name,)
    ).fetchall()


SCOPES: Final = ("alike", "series", "device")
"""What a decision may hold for beyond its item: the same text at the same place; the same place in a series
or in all images of a type of device. A decision to quarantine holds for whole series and devices."""


_COLUMNS: Final = {"series": "source_series", "device": "device"}


def widened(state: State, targets: Targets, scope: str, verdict: str, name: bytes | None = None) -> Targets:
    """Return the targets of a decision in a wider scope.

    Parameters
    ----------
    targets : list of (int, str)
        The targets of the decision itself.
    scope : str
        One of `SCOPES`.
    verdict : str
        The decision.
    name : bytes or None
        The review item that it is on; None for a whole object.
    """
    alike = _alike(state, name) if name is not None else targets
    if scope == "alike":
        return alike
    wider: set[tuple[int, str]] = set(targets)
    column = _COLUMNS[scope]
    for value in _names_of(state, targets, column):
        if verdict == "quarantine":
            rows = state.db.execute(
                f"SELECT id, '' FROM objects WHERE {column} = ? AND (outcome = 'released' OR rule = ?)",  # noqa: S608
                (value, REQUEUED),
            )
        else:
            rows = state.db.execute(
                "SELECT id, location FROM review_item_objects JOIN review_items USING (name)"  # noqa: S608
                f" JOIN objects USING (id) WHERE objects.{column} = ? AND (location, review_items.rule) ="
                "  (SELECT location, rule FROM review_items WHERE name = ?)",
                (value, name),
            )
        found = {(int(number), str(location)) for number, location in rows}
        # What a person has not seen is kept only if it says the same.
        wider |= found & set(alike) if verdict == "keep" else found
    return sorted(wider)


def _names_of(state: State, targets: Targets, column: str) -> list[bytes]:
    """Return the keyed names of the series or devices of objects; an object without one is alone."""
    rows = (
        state.db.execute(f"SELECT {column} FROM objects WHERE id = ?", (number,)).fetchone()  # noqa: S608
        for number in sorted({number for number, _ in targets})
    )
    return sorted({bytes(value) for (value,) in rows if value})


def _alike(state: State, name: bytes) -> Targets:
    """Return the objects with the same text at the same place, whatever the image around it shows."""
    text = open_item(state, name).text
    # What was not read may be anything: without a text, only equal pictures are alike.
    rows = state.db.execute(
        "SELECT other.name FROM review_items AS one JOIN review_items AS other"
        " ON other.location = one.location AND other.rule = one.rule"
        " WHERE one.name = ? AND (other.name = one.name OR ?) ORDER BY other.name",
        (name, bool(text)),
    ).fetchall()
    alike = [bytes(other) for (other,) in rows if open_item(state, other).text == text]
    return sorted({target for other in alike for target in targets_of_item(state, other)})


def store_decision(state: State, targets: Targets, verdict: str, reviewer: str = "") -> None:
    """Store one decision for all its objects, within the open transaction.

    A person may correct decisions of his own; of those of two persons, the more severe one holds.
    """
    name = state.seal.name("reviewer", reviewer)
    state.db.executemany(
        "INSERT INTO decisions (id, location, verdict, reviewer) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET verdict = excluded.verdict, reviewer = excluded.reviewer"
        " WHERE reviewer = excluded.reviewer OR instr(?, excluded.verdict) >= instr(?, verdict)",
        [(*row, verdict, name, _SEVERITY, _SEVERITY) for row in targets],
    )


def withdraw_decision(state: State, targets: Targets, reviewer: str) -> None:
    """Remove a person's own decision from all its objects, within the open transaction.

    Raises
    ------
    UsageError
        None of them has a decision of this person.
    """
    name = state.seal.name("reviewer", reviewer)
    before = state.db.total_changes
    state.db.executemany(
        "DELETE FROM decisions WHERE id = ? AND location = ? AND reviewer = ?",
        [(*row, name) for row in targets],
    )
    if state.db.total_changes == before:
        raise UsageError(
            "This decision is not of the person who withdraws it", "Ask the person who made it to withdraw it"
        )


# -- the sample -----------------------------------------------------------------------------


def sample_candidates(state: State) -> Iterator[int]:
    """Yield the objects from which the sample is drawn."""
    rows = state.db.execute("SELECT id FROM objects WHERE outcome = 'released' OR rule = 'review'")
    yield from (int(number) for (number,) in rows)


def changed_after_review(state: State, limit: int) -> list[int]:
    """List released objects that were sanitized again after the last review, by row; at most ``limit``."""
    rows = state.db.execute(
        "SELECT id FROM objects WHERE outcome = 'released' AND requeued ORDER BY id LIMIT ?", (limit,)
    )
    return [int(number) for (number,) in rows]


def is_undecided(state: State, number: int) -> bool:
    """Report whether an object is to be released and has no decision on the whole object."""
    row = state.db.execute(
        "SELECT outcome = 'released' AND NOT EXISTS"
        " (SELECT 1 FROM decisions WHERE decisions.id = objects.id AND location = '')"
        " FROM objects WHERE id = ?",
        (number,),
    ).fetchone()
    return bool(row[0])


@dataclass(frozen=True, slots=True)
class SampledObject:
    """A sampled object's facts for the review page."""

    changed: bool
    equal_pixels: int


def sampled_object(state: State, number: int) -> SampledObject:
    """Report whether an object changed after the last review, and count released objects with its pixels."""
    changed, equal = state.db.execute(
        "SELECT requeued, (SELECT count(*) FROM objects AS other WHERE other.pixels = objects.pixels"
        "  AND other.id <> objects.id AND other.outcome = 'released') FROM objects WHERE id = ?",
        (number,),
    ).fetchone()
    return SampledObject(bool(changed), int(equal))
