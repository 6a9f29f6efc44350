"""The stage inventory: finds all objects, detects their kind by content, and collects known identifiers."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import ClassVar

from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches
from medsanitize.pipeline.stages.inspect_source import InventoriedObject, Item, peek_batch
from medsanitize.pipeline.stages.stage import Advance, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.demographics import add_demographics
from medsanitize.pipeline.state.inventory_rows import (
    InventoryRow,
    add_objects,
    clear_inventory,
    close_bombs,
    containers_between,
)
from medsanitize.pipeline.state.keys import sealed_paths
from medsanitize.pipeline.state.listed_files import add_listed
from medsanitize.pipeline.state.objects import count_objects, rule_out
from medsanitize.pipeline.state.patients import add_known, add_patients
from medsanitize.pipeline.state.result_types import Walk
from medsanitize.pipeline.state.series import add_slices
from medsanitize.pipeline.state.stage_results import PARTIAL_WALK, TOP_WALK, WALK
from medsanitize.pipeline.storage.containers.totals import TOTAL_EXCEEDED
from medsanitize.pipeline.storage.open_store import container_reader
from medsanitize.pipeline.storage.pacs.check import check_pacs
from medsanitize.pipeline.storage.sources import Input, SourceEntry, SourceProblem, stamp_of, walk

BATCH = 64


@dataclass(frozen=True, slots=True)
class InventoryStage(Stage):
    """Find every object of the inputs and store what it is and whose it is."""

    # Nothing invalidates the inventory: changed inputs start a new state instead (`pipeline.resume`).

    inputs: tuple[Input, ...]

    name: ClassVar = "inventory"
    phase: ClassVar[Phase] = "inventory"
    in_plan: ClassVar = True

    def check(self) -> None:
        """Refuse inputs in a PACS that cannot be used."""
        check_pacs(self.inputs)

    def pending(self, state: State) -> int | None:
        """Return 0 if the inventory is complete."""
        return 0 if WALK.is_stored(state) else None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Take the inventory, or complete an interrupted one."""
        take_inventory(context.state, self.inputs, context.engine, advance)


def take_inventory(
    state: State, inputs: Sequence[Input], engine: Engine, on_objects: Advance = lambda _: None
) -> int:
    """Walk the inputs, store every object, then those in containers, and mark the inventory complete.

    An interrupted inventory continues after its last stored batch, if the inputs up to there are unchanged.

    Parameters
    ----------
    state : State
        The state of the run.
    inputs : sequence of Input
        The inputs of the policy.
    engine : Engine
        Calls the workers.
    on_objects : callable
        Receives the number of objects of each batch.

    Returns
    -------
    int
        The number of objects.
    """
    walked = TOP_WALK.load(state)
    if walked is None or walked != _walk_of(state, inputs):
        if walked is not None:
            # Numbers of files in containers follow those of the walk, which has changed.
            TOP_WALK.remove(state)
            PARTIAL_WALK.remove(state)
        walked = _take_walk(state, inputs, engine, on_objects)
        TOP_WALK.store(state, walked)
        state.commit()
    else:
        on_objects(walked.objects)
    count = _open_containers(state, engine, walked.objects, on_objects)
    with state.transaction():
        close_bombs(state, TOTAL_EXCEEDED)
        WALK.store(state, walked)
    return count


def _take_walk(state: State, inputs: Sequence[Input], engine: Engine, on_objects: Advance) -> Walk:
    """Store the objects of the inputs themselves."""
    known_prefix, items = _resume_point(state, inputs)
    on_objects(known_prefix)
    digest = _WalkDigest(state)
    for last in _inspected(state, engine, _numbered(items, digest, known_prefix), on_objects):
        PARTIAL_WALK.store(state, Walk(last + 1, digest.at(last)))
    return Walk(digest.count, digest.final())


def _open_containers(state: State, engine: Engine, start: int, on_objects: Advance) -> int:
    """Store the files of containers, then those of containers among them, until there are none.

    Returns
    -------
    int
        The number of objects, those outside containers included.
    """
    # An interrupted run stored this many; rows of one round follow those of the round before.
    stored, first = count_objects(state), 0
    on_objects(stored - start)
    while containers := containers_between(state, first, start):
        inside = _InContainers(containers, start, stored)
        for _ in _inspected(state, engine, iter(inside), on_objects):
            pass
        with state.transaction():
            for number, rule in inside.failed:
                rule_out(state, [number], "quarantined", rule)
        first, start = start, inside.count
    return start


class _InContainers:
    """The files of containers, numbered from ``count`` on, without those that are stored already."""

    def __init__(self, containers: Sequence[tuple[int, bytes]], start: int, stored: int) -> None:
        self.count = start
        self.failed: list[tuple[int, str]] = []
        self._containers = containers
        self._stored = stored

    def __iter__(self) -> Iterator[Item]:
        for number, address in self._containers:
            try:
                for found in container_reader().walk(address):
                    if self.count >= self._stored:
                        yield self.count, found
                    self.count += 1
            except SourceProblem as problem:
                # It was unpacked before, and had to be unpacked again: it has changed since.
                self.failed.append((number, problem.rule))


def _inspected(state: State, engine: Engine, items: Iterator[Item], on_objects: Advance) -> Iterator[int]:
    """Inspect sources and store their rows; yield the number of the last row of each batch."""
    for result in engine.map(peek_batch, batches(items, BATCH)):
        seen = [_worker_died(state, result.item)] if isinstance(result, WorkerCrashed) else result
        _store(state, seen)
        on_objects(len(seen))
        yield seen[-1].row.id
        state.count_written(len(seen))


def _walk_of(state: State, inputs: Sequence[Input]) -> Walk:
    """Return number and digest of the inputs as they are now."""
    digest = _WalkDigest(state)
    for found in walk(inputs):
        digest.add(found)
    return Walk(digest.count, digest.final())


def inputs_unchanged(state: State, inputs: Sequence[Input]) -> bool:
    """Whether names, sizes and times of the inputs still match a complete inventory."""
    stored = WALK.load(state)
    if stored is None:
        return True
    return stored == _walk_of(state, inputs)


class _WalkDigest:
    """A running keyed digest over the walk, remembered at the end of every batch for a later resume."""

    def __init__(self, state: State) -> None:
        self.count = 0
        self._digest = hmac.new(state.seal.name("walk"), digestmod=sha256)
        self._marks: dict[int, str] = {}

    def add(self, found: SourceEntry) -> None:
        for one in found.files:
            head = f"{len(one.path)}:{one.sort}:{one.size}:{one.times}:{len(one.parts)}:".encode()
            self._digest.update(head + one.path)
        self.count += 1
        if self.count % BATCH == 0:
            self._marks[self.count] = self._digest.hexdigest()

    def at(self, last_id: int) -> str:
        """Return the digest after the object ``last_id``, which ends a batch, and forget older marks."""
        count = last_id + 1
        for mark in [mark for mark in self._marks if mark < count]:
            del self._marks[mark]
        return self._marks.get(count, self.final() if count == self.count else "")

    def final(self) -> str:
        return self._digest.hexdigest()


def _resume_point(state: State, inputs: Sequence[Input]) -> tuple[int, Iterator[SourceEntry]]:
    """Return the number of stored objects that lead the walk unchanged, and the walk."""
    stored = PARTIAL_WALK.load(state)
    if stored is not None:
        digest = _WalkDigest(state)
        for found in islice(walk(inputs), stored.objects):
            digest.add(found)
        if stored.digest and Walk(digest.count, digest.final()) == stored:
            return stored.objects, walk(inputs)
    # Row numbers follow the walk: after a change, stored numbers would name other objects.
    clear_inventory(state)
    return 0, walk(inputs)


def _numbered(items: Iterator[SourceEntry], digest: _WalkDigest, skip: int) -> Iterator[Item]:
    for number, found in enumerate(items):
        digest.add(found)
        if number >= skip:
            yield number, found


def _store(state: State, seen: Sequence[InventoriedObject]) -> None:
    add_objects(state, [one.row for one in seen])
    add_patients(state, [one.patient for one in seen if one.patient is not None])
    add_known(state, [entry for one in seen for entry in one.known])
    add_demographics(state, [one.demographics for one in seen if one.demographics is not None])
    add_slices(state, [one.slice for one in seen if one.slice is not None])
    add_listed(state, [entry for one in seen for entry in one.listed])


def _worker_died(state: State, item: Item) -> InventoriedObject:
    number, found = item
    seal = state.seal
    size = sum(one.size for one in found.files)
    stamp, paths = stamp_of(seal, found), sealed_paths(seal, found)
    return InventoriedObject(
        InventoryRow(number, size, stamp, "unreadable", paths, "quarantined", "worker-died")
    )
