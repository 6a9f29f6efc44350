"""Review items of the sanitizer: each stored once, sealed, with the objects it is of."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass

from medsanitize.pipeline.state.database import State
from medsanitize.sanitize.result import ReviewItem


@dataclass(frozen=True, slots=True)
class SealedDoubt:
    """A review item on its way into the state; ``value`` is empty where its worker sent it lately.

    ``rank`` is 0 for what was left as it was, 1 for what was changed in pixels, 2 for the rest.
    """

    name: bytes
    place: str
    rule: str
    rank: int
    value: bytes


@dataclass(frozen=True, slots=True)
class QueueSize:
    """How many review items are stored, and how many bytes they take."""

    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class UndecidedItem:
    """A review item without a decision, and how many objects it is of."""

    name: bytes
    objects: int


def queue_size(state: State) -> QueueSize:
    """Size of the queue."""
    count, size = state.db.execute("SELECT count(*), total(length(value)) FROM doubts").fetchone()
    return QueueSize(int(count), int(size))


def has_item(state: State, name: bytes) -> bool:
    """Whether a review item is stored."""
    return state.db.execute("SELECT 1 FROM doubts WHERE name = ?", (name,)).fetchone() is not None


def add_item(state: State, item: SealedDoubt) -> None:
    """Store a review item within the open batch."""
    row = (item.name, item.place, item.rule, item.rank, item.value)
    state.write("INSERT INTO doubts VALUES (?, ?, ?, ?, ?)", [row])


def assign_item(state: State, number: int, name: bytes) -> None:
    """State that a review item is of an object, within the open batch."""
    state.write("INSERT OR IGNORE INTO doubted VALUES (?, ?)", [(number, name)])


def store_left_out(state: State, number: int, count: int) -> None:
    """Store how many review items of an object were not kept, within the open batch."""
    state.write("INSERT OR REPLACE INTO unseen VALUES (?, ?)", [(number, count)])


def count_left_out(state: State) -> int:
    """Number of review items that were not kept."""
    return int(state.db.execute("SELECT total(count) FROM unseen").fetchone()[0])


def open_doubt(state: State, name: bytes) -> ReviewItem:
    """Open a review item."""
    place, rule, value = state.db.execute(
        "SELECT place, rule, value FROM doubts WHERE name = ?", (name,)
    ).fetchone()
    text, before, after = json.loads(state.seal.open(value, b"doubt"))
    return ReviewItem(place, rule, text, b64decode(before), b64decode(after))


def undecided_items(state: State) -> list[UndecidedItem]:
    """Every review item without a decision, the least certain first."""
    rows = state.db.execute(
        "SELECT name, count(*) FROM doubted JOIN doubts USING (name) JOIN objects USING (id)"
        " WHERE outcome <> 'dropped' AND objects.rule IS NOT 'review' AND NOT EXISTS"
        "  (SELECT 1 FROM decisions WHERE decisions.id = doubted.id AND decisions.place = doubts.place)"
        " GROUP BY name ORDER BY rank, doubts.rule, count(*) DESC, name"
    )
    return [UndecidedItem(bytes(name), int(count)) for name, count in rows]
