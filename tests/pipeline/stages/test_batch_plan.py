"""Batches by cost: every object once, small batches at the end, results that do not depend on the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages import batch_plan
from medsanitize.pipeline.stages.batch_plan import cost_weights, large_cost, plan_batches
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.inventory_rows import InventoryRow, add_objects
from medsanitize.pipeline.state.pending_objects import CostWeights, pending_cost, pending_objects
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import ImageSize
from medsanitize.sanitize.pseudonyms import derive_sub_keys

KEYS = derive_sub_keys(bytes(range(64)), scope="project")
Workplace = Callable[..., Policy]
WEIGHTS = CostWeights(1.0, 1.0, 1.0, 0.0)
SIZES = st.lists(st.one_of(st.integers(0, 9), st.integers(0, 10**9)), max_size=200)


@dataclass(frozen=True, slots=True)
class Work:
    """An object with its estimated cost."""

    number: int
    cost: float


def handed_out(sizes: Sequence[int], workers: int) -> tuple[list[list[Work]], float]:
    """The plan for objects of these sizes, largest first as the state yields them, and the whole cost."""
    state = State(None, KEYS)
    rows = [
        InventoryRow(number, size, b"", "dicom", b"", patient=bytes([number % 7]))
        for number, size in enumerate(sizes)
    ]
    add_objects(state, rows)
    total = pending_cost(state, WEIGHTS)
    found = [Work(one.id, one.cost) for one in pending_objects(state, WEIGHTS, large_cost(total, workers))]
    state.close()
    return [list(batch) for batch in plan_batches(found, total, workers)], total


def makespan(batches: Sequence[Sequence[Work]], workers: int) -> float:
    """When the last of some workers is done, if each takes the next batch as soon as it is free."""
    free = [0.0] * workers
    heapify(free)
    for batch in batches:
        heapreplace(free, free[0] + sum(one.cost for one in batch))
    return max(free)


@given(SIZES, st.integers(1, 9))
def test_every_object_is_handed_out_once(sizes: list[int], workers: int) -> None:
    batches, _ = handed_out(sizes, workers)
    assert sorted(one.number for one in chain(*batches)) == list(range(len(sizes)))
    assert all(batches)


@given(SIZES, st.integers(1, 9))
def test_a_batch_is_one_object_or_a_part_of_what_remains(sizes: list[int], workers: int) -> None:
    batches, remaining = handed_out(sizes, workers)
    for batch in batches:
        cost = sum(one.cost for one in batch)
        assert len(batch) == 1 or cost <= remaining / (4 * workers) + 1e-6
        remaining -= cost


@given(SIZES, st.integers(2, 9))
def test_no_worker_waits_for_more_than_a_small_object(sizes: list[int], workers: int) -> None:
    batches, total = handed_out(sizes, workers)
    costs = sorted((one.cost for one in chain(*batches)), reverse=True)
    # Graham 1969: the batch that ends last began when no worker was free before.
    last = max(large_cost(total, workers), *costs[workers:], 0.0)
    assert makespan(batches, workers) <= max(total / workers + last, *costs, 0.0) * (1 + 1e-9)


@given(st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 9_999_999), st.booleans())
def test_a_header_that_lies_about_its_size_costs_no_more_than_its_bytes_can_hold(
    rows: int, columns: int, frames: int, shows: bool
) -> None:
    state = State(None, KEYS)
    image = ImageSize(rows, columns, frames, may_show_text=shows)
    add_objects(state, [InventoryRow(0, 100, b"", "dicom", b"", image=image)])
    pixels = min(rows * columns * frames, 100_000) if shows else 0
    assert pending_cost(state, WEIGHTS) == 1 + 100 + pixels
    state.close()


@pytest.mark.parametrize(
    ("preset", "search", "text", "other"),
    [
        ("research", "at-risk", True, False),
        ("research", "every-image", True, True),
        ("ps3.15-basic", "every-image", False, False),
    ],
)
def test_pixels_cost_where_the_policy_searches_them(
    workplace: Workplace, preset: str, search: str, text: bool, other: bool
) -> None:
    weights = cost_weights(workplace(preset=preset, pixels={"search": search}))
    assert (weights.per_text_pixel > 0, weights.per_other_pixel > 0) == (text, other)


def test_the_release_does_not_depend_on_the_plan(
    workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for parts, workers in ((4, 1), (1, 2), (10_000, 2)):
        monkeypatch.setattr(batch_plan, "_PARTS_PER_WORKER", parts)
        monkeypatch.setattr(batch_plan, "_LARGE_PARTS_PER_WORKER", parts)
        policy = workplace(output=str(tmp_path / f"out-{parts}"), state=str(tmp_path / f"state-{parts}"))
        digests.add(run(policy, Options(workers=workers)).digest)
    assert len(digests) == 1
