"""Decisions of a review: what a person decided of objects, findings and review items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.reset import AGAIN
from medsanitize.sanitize.context import ReviewDecision

Concerned = list[tuple[int, str]]
"""Objects that a decision is about, and the location in each; "" is the whole object."""


@dataclass(frozen=True, slots=True)
class DecisionCounts:
    """How many decisions there are, on how many objects."""

    decisions: int
    objects: int


def decisions_on(state: State, number: int) -> tuple[ReviewDecision, ...]:
    """What a person decided of locations in one object, by location."""
    rows = state.db.execute(
        "SELECT place, verdict FROM decisions WHERE id = ? AND place <> '' ORDER BY place", (number,)
    )
    return tuple(ReviewDecision(place, verdict) for place, verdict in rows)


def any_decision(state: State) -> bool:
    """Whether a person decided anything."""
    return state.db.execute("SELECT 1 FROM decisions LIMIT 1").fetchone() is not None


def decision_counts(state: State) -> DecisionCounts:
    """Count the decisions and their objects."""
    return DecisionCounts(*state.db.execute("SELECT count(*), count(DISTINCT id) FROM decisions").fetchone())


def decisions_digest(state: State) -> str:
    """Digest of everything that was decided; empty when nothing was."""
    digest = sha256()
    rows = state.db.execute("SELECT id, place, verdict FROM decisions ORDER BY id, place")
    empty = True
    for row in rows:
        digest.update(json.dumps(row).encode() + b"\n")
        empty = False
    return "" if empty else digest.hexdigest()


# -- what a decision is about ---------------------------------------------------------------


def concerned_by_object(state: State, number: int) -> Concerned:
    """The object itself, if it is to be released or waits to be sanitized again."""
    return state.db.execute(
        "SELECT id, '' FROM objects WHERE id = ? AND (outcome = 'released' OR rule = ?)", (number, AGAIN)
    ).fetchall()


def concerned_by_finding(state: State, place: str, rule: str) -> Concerned:
    """Objects with a finding of the audit that are not dropped."""
    return state.db.execute(
        "SELECT id, '' FROM findings JOIN objects USING (id)"
        " WHERE place = ? AND findings.rule = ? AND outcome <> 'dropped'",
        (place, rule),
    ).fetchall()


def concerned_by_item(state: State, name: bytes) -> Concerned:
    """Objects with a review item, and its location."""
    return state.db.execute(
        "SELECT id, place FROM doubted JOIN doubts USING (name) WHERE name = ?", (name,)
    ).fetchall()


def store_decision(state: State, concerned: Concerned, verdict: str) -> None:
    """Store one decision for every object it is about, within the open transaction."""
    state.db.executemany(
        "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?)", [(*row, verdict) for row in concerned]
    )


# -- the sample -----------------------------------------------------------------------------


def sample_candidates(state: State) -> Iterator[int]:
    """Yield the objects that the sample is drawn from."""
    rows = state.db.execute("SELECT id FROM objects WHERE outcome = 'released' OR rule = 'review'")
    yield from (int(number) for (number,) in rows)


def changed_after_review(state: State, limit: int) -> list[int]:
    """Released objects that were sanitized again after the last review, by row; at most ``limit``."""
    rows = state.db.execute(
        "SELECT id FROM objects WHERE outcome = 'released' AND again ORDER BY id LIMIT ?", (limit,)
    )
    return [int(number) for (number,) in rows]


def is_undecided(state: State, number: int) -> bool:
    """Whether an object is to be released and no decision is about the whole of it."""
    row = state.db.execute(
        "SELECT outcome = 'released' AND NOT EXISTS"
        " (SELECT 1 FROM decisions WHERE decisions.id = objects.id AND place = '')"
        " FROM objects WHERE id = ?",
        (number,),
    ).fetchone()
    return bool(row[0])


@dataclass(frozen=True, slots=True)
class SampledObject:
    """What the review page notes of a sampled object."""

    changed: bool
    equal_pixels: int


def sampled_object(state: State, number: int) -> SampledObject:
    """Whether an object changed after the last review, and how many released objects have its pixels."""
    changed, equal = state.db.execute(
        "SELECT again, (SELECT count(*) FROM objects AS other WHERE other.pixels = objects.pixels"
        "  AND other.id <> objects.id AND other.outcome = 'released') FROM objects WHERE id = ?",
        (number,),
    ).fetchone()
    return SampledObject(bool(changed), int(equal))
