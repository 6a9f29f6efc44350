"""Which review items are stored above the limits of a run, whatever the order of the objects."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from medsanitize.pipeline.stages import review_items
from medsanitize.pipeline.stages.review_items import Budget, store_items
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.review_queue import SealedReviewItem
from medsanitize.sanitize.pseudonyms import derive_sub_keys

KEYS = derive_sub_keys(bytes(range(64)), scope="project")
# Number, rank and size in bytes of an item: a function of its number, as of its content.
NUMBERS = st.lists(st.integers(0, 20), unique=True, max_size=6)


def item(number: int) -> SealedReviewItem:
    return SealedReviewItem(b"n%02d" % number, "here", "rule", number % 3, b"v" * (1 + 7 * number % 11))


def stored(objects: Sequence[tuple[int, list[int]]]) -> tuple[list[tuple[object, ...]], ...]:
    """All three tables after the items of these objects are stored."""
    state = State(None, KEYS)
    budget = Budget.stored(state)
    for number, items in objects:
        store_items(state, number, [item(one) for one in items], 0, budget)
    budget.trim(state)
    tables = (
        "SELECT * FROM review_items",
        "SELECT * FROM review_item_objects",
        "SELECT * FROM review_items_left_out",
    )
    found = tuple(sorted(state.db.execute(sql)) for sql in tables)
    state.close()
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(NUMBERS, max_size=8).flatmap(
        lambda all: st.tuples(st.just(all), st.permutations(range(len(all))))
    )
)
def test_the_order_of_objects_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, drawn: tuple[list[list[int]], list[int]]
) -> None:
    monkeypatch.setattr(review_items, "PER_RUN", 5)
    monkeypatch.setattr(review_items, "BYTES_PER_RUN", 30)
    items, order = drawn
    inventory = list(enumerate(items))
    assert stored([inventory[place] for place in order]) == stored(inventory)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(NUMBERS, max_size=8))
def test_every_item_is_stored_or_counted(monkeypatch: pytest.MonkeyPatch, items: list[list[int]]) -> None:
    monkeypatch.setattr(review_items, "PER_RUN", 5)
    kept, assigned, left_out = stored(list(enumerate(items)))
    assert len(kept) == min(5, len({one for some in items for one in some}))
    assert len(assigned) + sum(int(str(count)) for _, count in left_out) == sum(map(len, items))
