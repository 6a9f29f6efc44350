"""Review items of the sanitizer: each stored once, encrypted, with the objects it occurs in."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from typing import Final

from medsanitize.pipeline.state.database import State
from medsanitize.sanitize.result import ReviewItem


@dataclass(frozen=True, slots=True)
class SealedReviewItem:
    """An encrypted review item; ``value`` is empty if its worker has sent the item before.

    ``rank`` is 0 for content that was kept, 1 for changed pixels, 2 for the rest.
    """

    name: bytes
    location: str
    rule: str
    rank: int
    value: bytes


@dataclass(frozen=True, slots=True)
class QueueSize:
    """Number of stored review items, and their total size in bytes."""

    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class UndecidedItem:
    """A review item without a decision, the number of objects it occurs in, and the first of them."""

    name: bytes
    objects: int
    first: int


def queue_size(state: State) -> QueueSize:
    """Return the size of the queue."""
    count, size = state.db.execute("SELECT count(*), total(length(value)) FROM review_items").fetchone()
    return QueueSize(int(count), int(size))


def has_item(state: State, name: bytes) -> bool:
    """Report whether a review item is stored."""
    return state.db.execute("SELECT 1 FROM review_items WHERE name = ?", (name,)).fetchone() is not None


def add_item(state: State, item: SealedReviewItem) -> None:
    """Store a review item within the open batch."""
    row = (item.name, item.location, item.rule, item.rank, item.value)
    state.write("INSERT INTO review_items VALUES (?, ?, ?, ?, ?)", [row])


def assign_item(state: State, number: int, name: bytes) -> None:
    """Assign a review item to an object, within the open batch."""
    state.write("INSERT OR IGNORE INTO review_item_objects VALUES (?, ?)", [(number, name)])


def place_of(item: SealedReviewItem) -> tuple[int, bytes]:
    """Return what review items are ordered by: the least certain first, then their names."""
    return item.rank, item.name


def first_beyond(state: State, items: int, size: int) -> tuple[int, bytes] | None:
    """Return the place of the first stored item beyond a number of items and of bytes; None if all fit."""
    rows = state.db.execute("SELECT rank, name, length(value) FROM review_items ORDER BY rank, name")
    for rank, name, length in rows:
        items, size = items - 1, size - length
        if items < 0 or size < 0:
            return rank, bytes(name)
    return None


def remove_items_from(state: State, place: tuple[int, bytes]) -> None:
    """Remove the items from a place on, within the open batch; count them as left out of their objects."""
    gone = "name IN (SELECT name FROM review_items WHERE (rank, name) >= (?, ?))"
    state.write(
        "INSERT INTO review_items_left_out SELECT id, count(*) FROM review_item_objects"  # noqa: S608
        f" WHERE {gone} GROUP BY id ON CONFLICT (id) DO UPDATE SET count = count + excluded.count",
        [place],
    )
    state.write(f"DELETE FROM review_item_objects WHERE {gone}", [place])  # noqa: S608
    state.write("DELETE FROM review_items WHERE (rank, name) >= (?, ?)", [place])


def store_left_out(state: State, number: int, count: int) -> None:
    """Store how many review items of an object were left out, within the open batch."""
    state.write("INSERT OR REPLACE INTO review_items_left_out VALUES (?, ?)", [(number, count)])


def count_left_out(state: State) -> int:
    """Count the review items that were left out."""
    return int(state.db.execute("SELECT total(count) FROM review_items_left_out").fetchone()[0])


def open_item(state: State, name: bytes) -> ReviewItem:
    """Decrypt a review item."""
    location, rule, value = state.db.execute(
        "SELECT location, rule, value FROM review_items WHERE name = ?", (name,)
    ).fetchone()
    text, before, after = json.loads(state.seal.open(value, b"review item"))
    return ReviewItem(location, rule, text, b64decode(before), b64decode(after))


# Objects of a review item on whose location nobody decided, and which may be released.
_OPEN: Final = (
    "SELECT item_objects.id FROM review_item_objects AS item_objects JOIN objects USING (id)"
    " WHERE item_objects.name = review_items.name AND outcome <> 'dropped' AND objects.rule IS NOT 'review'"
    " AND NOT EXISTS (SELECT 1 FROM decisions"
    "  WHERE decisions.id = item_objects.id AND decisions.location = review_items.location)"
)


def undecided_items(state: State, first: int = 0, limit: int = -1) -> list[UndecidedItem]:
    """List the review items without a decision, the least certain first; all, or a page of them."""
    # The index gives the order, so that only the items of the page are counted.
    rows = state.db.execute(
        f"SELECT name, (SELECT count(*) FROM ({_OPEN})), (SELECT min(id) FROM ({_OPEN})) FROM review_items"  # noqa: S608
        f" WHERE EXISTS ({_OPEN}) ORDER BY rank, rule, name LIMIT ? OFFSET ?",
        (limit, first),
    )
    return [UndecidedItem(bytes(name), int(count), int(number)) for name, count, number in rows]


def count_undecided(state: State) -> int:
    """Count the review items without a decision."""
    row = state.db.execute(f"SELECT count(*) FROM review_items WHERE EXISTS ({_OPEN})").fetchone()  # noqa: S608
    return int(row[0])
