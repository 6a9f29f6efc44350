"""What the object function doubts, kept sealed for the review: each doubt once, and the objects it is of."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from medsanitize.pipeline.state.database import State
from medsanitize.sanitize.result import ReviewItem

if TYPE_CHECKING:
    from medsanitize.pipeline.engines.worker import Worker

PER_OBJECT = 32
"""Most doubts kept of one object."""
PER_RUN = 20_000
"""Most different doubts kept of a run, or of one of its shards."""
BYTES_PER_RUN = 2**30
"""Most bytes that the doubts of a run, or of one of its shards, may take."""
_PICTURE = 512 * 2**10
_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class SealedDoubt:
    """A doubt on its way into the state; ``value`` is empty where its worker sent it lately.

    ``rank`` is 0 for what was left as it was, 1 for what was changed in pixels, 2 for the rest.
    """

    name: bytes
    place: str
    rule: str
    rank: int
    value: bytes


@dataclass(slots=True)
class Room:
    """How much the state may still take; what is beyond it is counted, not kept."""

    doubts: int
    bytes: int

    @classmethod
    def left_in(cls, state: State) -> Room:
        """What is left of the bounds of a run."""
        count, size = state.db.execute("SELECT count(*), total(length(value)) FROM doubts").fetchone()
        return cls(PER_RUN - int(count), BYTES_PER_RUN - int(size))


def seal_doubts(worker: Worker, doubts: Sequence[ReviewItem]) -> tuple[tuple[SealedDoubt, ...], int]:
    """Seal an object's doubts for its holder; returns them and how many were left out."""
    if not worker.setup.keep_links:
        return (), 0
    sealed = {}
    doubts = list(dict.fromkeys(doubts))
    for doubt in doubts[:PER_OBJECT]:
        pictures = [b"" if len(one) > _PICTURE else one for one in (doubt.before, doubt.after)]
        facts = [doubt.text[:_TEXT], *(b64encode(one).decode() for one in pictures)]
        digest = sha256(json.dumps(facts).encode()).hexdigest()
        name = worker.seal.name("doubt", doubt.place, doubt.rule, digest)
        new = worker.is_new_doubt(name)
        value = worker.seal.close(json.dumps(facts).encode(), b"doubt") if new else b""
        sealed[name] = SealedDoubt(name, doubt.place, doubt.rule, _rank(doubt), value)
    return tuple(sealed.values()), len(doubts[PER_OBJECT:])


def _rank(doubt: ReviewItem) -> int:
    if doubt.before and doubt.before == doubt.after:
        return 0
    return 1 if doubt.before or doubt.after else 2


def store_doubts(state: State, number: int, doubts: Sequence[SealedDoubt], beyond: int, room: Room) -> None:
    """Keep the doubts of object ``number`` within the open batch, as far as there is room."""
    for doubt in doubts:
        known = state.db.execute("SELECT 1 FROM doubts WHERE name = ?", (doubt.name,)).fetchone()
        if known is None:
            if not doubt.value or room.doubts < 1 or room.bytes < len(doubt.value):
                beyond += 1
                continue
            row = (doubt.name, doubt.place, doubt.rule, doubt.rank, doubt.value)
            state.write("INSERT INTO doubts VALUES (?, ?, ?, ?, ?)", [row])
            room.doubts -= 1
            room.bytes -= len(doubt.value)
        state.write("INSERT OR IGNORE INTO doubted VALUES (?, ?)", [(number, doubt.name)])
    if beyond:
        state.write("INSERT OR REPLACE INTO unseen VALUES (?, ?)", [(number, beyond)])


def open_doubt(state: State, name: bytes) -> ReviewItem:
    """Read a doubt that the state holds."""
    place, rule, value = state.db.execute(
        "SELECT place, rule, value FROM doubts WHERE name = ?", (name,)
    ).fetchone()
    text, before, after = json.loads(state.seal.open(value, b"doubt"))
    return ReviewItem(place, rule, text, b64decode(before), b64decode(after))
