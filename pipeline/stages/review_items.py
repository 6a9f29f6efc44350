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
    first_beyond,
    has_item,
    place_of,
    queue_size,
    remove_items_from,
    store_left_out,
)
from medsanitize.pipeline.state.stage_results import REVIEW_ITEMS_END
from medsanitize.sanitize.result import ReviewItem

if TYPE_CHECKING:
    from medsanitize.pipeline.engines.worker import Worker

PER_OBJECT = 32
"""Maximum number of review items of one object."""
PER_RUN = 20_000
"""Maximum number of different review items of a run or shard."""
BYTES_PER_RUN = 2**30
"""Maximum size in bytes of the review items of a run or shard."""
# Factor by which the limits may be exceeded until the next look at all items.
_SLACK = 1.1
# Bounds of one item: a larger picture is left out, and a longer text is cut.
_PICTURE = 512 * 2**10
_TEXT = 2_000


@dataclass(slots=True)
class Budget:
    """The stored review items of a run, and the place from which on none is stored (``place_of``).

    Items are stored in any order: which ones are kept depends on their places only.
    """

    items: int
    size: int
    end: tuple[int, bytes] | None

    @classmethod
    def stored(cls, state: State) -> Budget:
        """Return what a run has stored."""
        size, end = queue_size(state), REVIEW_ITEMS_END.load(state)
        return cls(size.items, size.bytes, end)

    def is_beyond(self, item: SealedReviewItem) -> bool:
        """Report whether the item is not to be stored."""
        return self.end is not None and place_of(item) >= self.end

    def trim(self, state: State, slack: float = 1.0) -> None:
        """Remove items beyond the limits of a run, if they are exceeded by the factor ``slack``."""
        if self.items <= slack * PER_RUN and self.size <= slack * BYTES_PER_RUN:
            return
        end = first_beyond(state, PER_RUN, BYTES_PER_RUN)
        if end is None:
            return
        remove_items_from(state, end)
        REVIEW_ITEMS_END.store(state, end)
        size = queue_size(state)
        self.items, self.size, self.end = size.items, size.bytes, end


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
    state: State, number: int, review_items: Sequence[SealedReviewItem], beyond: int, stored: Budget
) -> None:
    """Store the review items of object ``number`` within the open batch; ``beyond`` counts those left out."""
    for item in review_items:
        is_stored = has_item(state, item.name)
        # Without a value, it was stored before and is beyond the limits since.
        if stored.is_beyond(item) or not (is_stored or item.value):
            beyond += 1
            continue
        if not is_stored:
            add_item(state, item)
            stored.items += 1
            stored.size += len(item.value)
        assign_item(state, number, item.name)
    if beyond:
        store_left_out(state, number, beyond)
    stored.trim(state, _SLACK)
