"""Review items of objects, encrypted for the review: each item once, with its objects."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.review_queue import (
    SealedReviewItem,
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
"""Maximum number of review items of one object."""
PER_RUN = 20_000
"""Maximum number of different review items of a run or shard."""
BYTES_PER_RUN = 2**30
"""Maximum size in bytes of the review items of a run or shard."""
# Bounds of one item: a larger picture is left out, and a longer text is cut.
_PICTURE = 512 * 2**10
_TEXT = 2_000


@dataclass(slots=True)
class Budget:
    """The number and bytes of review items that may still be stored; further items are only counted."""

    review_items: int
    bytes: int

    @classmethod
    def remaining(cls, state: State) -> Budget:
        """Return what remains of the limits of a run."""
        stored = queue_size(state)
        return cls(PER_RUN - stored.items, BYTES_PER_RUN - stored.bytes)


def seal_items(
    worker: Worker, review_items: Sequence[ReviewItem]
) -> tuple[tuple[SealedReviewItem, ...], int]:
    """Encrypt the review items of an object; return them and the number that was left out."""
    # Review items show patients: a plan and an anonymous run store none.
    if not worker.setup.keep_links:
        return (), 0
    sealed = {}
    review_items = list(dict.fromkeys(review_items))
    for item in review_items[:PER_OBJECT]:
        pictures = [b"" if len(one) > _PICTURE else one for one in (item.before, item.after)]
        facts = [item.text[:_TEXT], *(b64encode(one).decode() for one in pictures)]
        digest = sha256(json.dumps(facts).encode()).hexdigest()
        # Equal items of many objects, such as a logo, are stored once and decided once.
        name = worker.seal.name("review item", item.location, item.rule, digest)
        new = worker.is_new_review_item(name)
        value = worker.seal.close(json.dumps(facts).encode(), b"review item") if new else b""
        sealed[name] = SealedReviewItem(name, item.location, item.rule, _rank(item), value)
    return tuple(sealed.values()), len(review_items[PER_OBJECT:])


def _rank(item: ReviewItem) -> int:
    # Low ranks are reviewed first: content that was kept may still show PHI.
    if item.before and item.before == item.after:
        return 0
    return 1 if item.before or item.after else 2


def store_items(
    state: State, number: int, review_items: Sequence[SealedReviewItem], beyond: int, room: Budget
) -> None:
    """Store the review items of object ``number`` within the open batch, up to the maximum number."""
    for item in review_items:
        if not has_item(state, item.name):
            if not item.value or room.review_items < 1 or room.bytes < len(item.value):
                beyond += 1
                continue
            add_item(state, item)
            room.review_items -= 1
            room.bytes -= len(item.value)
        assign_item(state, number, item.name)
    if beyond:
        store_left_out(state, number, beyond)
