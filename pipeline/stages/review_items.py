"""What the object function doubts, kept sealed for the review: each doubt once, and the objects it is of."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.review_queue import (
    SealedDoubt,
    add_item,
    assign_item,
    has_item,
    queue_size,
    store_left_out,
)
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


@dataclass(slots=True)
class Room:
    """How much the state may still take; what is beyond it is counted, not kept."""

    doubts: int
    bytes: int

    @classmethod
    def left_in(cls, state: State) -> Room:
        """What is left of the bounds of a run."""
        stored = queue_size(state)
        return cls(PER_RUN - stored.items, BYTES_PER_RUN - stored.bytes)


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
        name = worker.seal.name("doubt", doubt.location, doubt.rule, digest)
        new = worker.is_new_doubt(name)
        value = worker.seal.close(json.dumps(facts).encode(), b"doubt") if new else b""
        sealed[name] = SealedDoubt(name, doubt.location, doubt.rule, _rank(doubt), value)
    return tuple(sealed.values()), len(doubts[PER_OBJECT:])


def _rank(doubt: ReviewItem) -> int:
    if doubt.before and doubt.before == doubt.after:
        return 0
    return 1 if doubt.before or doubt.after else 2


def store_doubts(state: State, number: int, doubts: Sequence[SealedDoubt], beyond: int, room: Room) -> None:
    """Keep the doubts of object ``number`` within the open batch, as far as there is room."""
    for doubt in doubts:
        if not has_item(state, doubt.name):
            if not doubt.value or room.doubts < 1 or room.bytes < len(doubt.value):
                beyond += 1
                continue
            add_item(state, doubt)
            room.doubts -= 1
            room.bytes -= len(doubt.value)
        assign_item(state, number, doubt.name)
    if beyond:
        store_left_out(state, number, beyond)
