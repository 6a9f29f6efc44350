"""The stage inventory: finds all objects, detects their kind by content, and collects known identifiers."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from typing import ClassVar

from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.faces import judges_faces, slice_row
from medsanitize.pipeline.stages.stage import Advance, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.inventory_rows import InventoryRow, add_objects, clear_inventory
from medsanitize.pipeline.state.keys import patient_key, sealed_paths
from medsanitize.pipeline.state.patients import (
    KnownRow,
    Patient,
    PatientRow,
    add_known,
    add_patients,
    known_row,
)
from medsanitize.pipeline.state.result_types import Walk
from medsanitize.pipeline.state.series import SliceRow, add_slices
from medsanitize.pipeline.state.stage_results import PARTIAL_WALK, WALK
from medsanitize.pipeline.storage.pacs.check import check_pacs
from medsanitize.pipeline.storage.slide_files import is_slide_part, slide_view
from medsanitize.pipeline.storage.sources import (
    Input,
    SourceEntry,
    SourceProblem,
    open_new_source,
    stamp_of,
    walk,
)
from medsanitize.sanitize.context import Inspection, KnownValue

BATCH = 64
_SANITIZED = frozenset(["dicom", "raster", "slide"])
_ACTION_OUTCOMES = {"drop": "dropped", "quarantine": "quarantined"}
_UNREAD_RULES = {"unlisted": "unreadable", "absent": "not-at-peer", "short": "listed-in-part"}


@dataclass(frozen=True, slots=True)
class InventoriedObject:
    """What a worker says of one object: a row, its patient's row and identifiers, its place, all sealed."""

    row: InventoryRow
    patient: PatientRow | None = None
    known: tuple[KnownRow, ...] = ()
    slice: SliceRow | None = None


Item = tuple[int, SourceEntry]


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
    """Walk the inputs, store every object, and mark the inventory complete.

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
    known_prefix, items = _resume_point(state, inputs)
    on_objects(known_prefix)
    digest = _WalkDigest(state)
    walked = _numbered(items, digest, known_prefix)
    for result in engine.map(peek_batch, batches(walked, BATCH)):
        seen = [_worker_died(state, result.item)] if isinstance(result, WorkerCrashed) else result
        _store(state, seen)
        on_objects(len(seen))
        PARTIAL_WALK.store(state, Walk(seen[-1].row.id + 1, digest.at(seen[-1].row.id)))
        state.count_written(len(seen))
    WALK.store(state, Walk(digest.count, digest.final()))
    state.commit()
    return digest.count


def inputs_unchanged(state: State, inputs: Sequence[Input]) -> bool:
    """Whether names, sizes and times of the inputs still match a complete inventory."""
    stored = WALK.load(state)
    if stored is None:
        return True
    digest = _WalkDigest(state)
    for found in walk(inputs):
        digest.add(found)
    return stored == Walk(digest.count, digest.final())


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
    add_slices(state, [one.slice for one in seen if one.slice is not None])


def _worker_died(state: State, item: Item) -> InventoriedObject:
    number, found = item
    seal = state.seal
    size = sum(one.size for one in found.files)
    stamp, paths = stamp_of(seal, found), sealed_paths(seal, found)
    return InventoriedObject(
        InventoryRow(number, size, stamp, "unreadable", paths, "quarantined", "worker-died")
    )


# -- in the workers -----------------------------------------------------------------------


def peek_batch(worker: Worker, batch: Sequence[Item]) -> list[InventoriedObject]:
    """Inspect a batch of objects."""
    return [_peek_one(worker, number, found) for number, found in batch]


def _peek_one(worker: Worker, number: int, found: SourceEntry) -> InventoriedObject:
    from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
    from medsanitize.sanitize.faces.read_header import read_slice
    from medsanitize.sanitize.raster.raster_sanitizer import inspect_raster
    from medsanitize.sanitize.wsi.inspect_slide import inspect_slide, slide_key

    seal, policy = worker.seal, worker.setup.policy
    limits = policy.dicom.limits
    mark, size = stamp_of(seal, found), sum(one.size for one in found.files)
    sealed = sealed_paths(seal, found)

    def ruled_out(kind: str, outcome: str, rule: str) -> InventoriedObject:
        return InventoriedObject(InventoryRow(number, size, mark, kind, sealed, outcome, rule))

    if found.sort == "link":
        return ruled_out("link", "dropped", "link-not-followed")
    if found.sort == "special":
        return ruled_out("special", "dropped", "not-an-image")
    if found.sort in _UNREAD_RULES:
        return ruled_out("unreadable", "quarantined", _UNREAD_RULES[found.sort])
    try:
        with open_new_source(found, seal) as (contents, size, mark):
            content, view = contents[0], slide_view(tuple(one.path for one in found.files), contents)
            seen = (
                inspect_slide(view) or inspect_raster(content) or inspect_dicom(content, limits, worker.kept)
            )
            header = (
                read_slice(content, limits)
                if seen.kind == "dicom" and judges_faces(policy.pixels.faces)
                else None
            )
            # Objects without a UID are identified by content, so that copies get one pseudonym.
            key = seen.sop_uid
            if seen.kind == "slide":
                key = slide_key(view)
            elif seen.kind in _SANITIZED and not key:
                key = sha256(content).hexdigest()
    except SourceProblem as problem:
        return ruled_out("unreadable", "quarantined", problem.rule)
    except MedsanitizeError:
        raise
    except Exception:  # noqa: BLE001  a defect must neither release an object nor stop the run
        return ruled_out("unreadable", "quarantined", "internal-error")
    if seen.kind in ("dicomdir", "not-an-image"):
        return ruled_out(seen.kind, "dropped", "not-an-image")
    if seen.kind == "slide" and policy.wsi.action in _ACTION_OUTCOMES:
        return ruled_out("slide", _ACTION_OUTCOMES[policy.wsi.action], "slide")
    if found.parts and seen.kind in _SANITIZED - {"slide"}:
        return ruled_out("unreadable", "quarantined", "slide-not-supported")
    if seen.kind == "raster" and policy.raster.action in _ACTION_OUTCOMES:
        return ruled_out("raster", _ACTION_OUTCOMES[policy.raster.action], "raster-image")
    if seen.kind == "raster" and (found.near_slide or is_slide_part(found.path)):
        return ruled_out("unreadable", "quarantined", "slide-not-supported")
    if seen.kind not in _SANITIZED:
        return ruled_out("unreadable", "quarantined", seen.rule or "unreadable")
    sop = seal.name("sop", key) if seen.sop_uid else seal.name("content", key)
    patient, study, patient_row = _names(worker, seen, sop)
    # Which of two patients an object shows cannot be decided here.
    rule = "two-patient-ids" if len(seen.patient_ids) > 1 else None
    outcome = "quarantined" if rule else None
    identified = len(seen.patient_ids)
    row = InventoryRow(number, size, mark, seen.kind, sealed, outcome, rule, patient, study, sop, identified)
    row = replace(row, image=seen.image)
    owners = (patient, study) if study else (patient,)
    place = slice_row(seal, number, patient, study, header) if header else None
    return InventoriedObject(row, patient_row, _new_known(worker, owners, seen.known), place)


def _names(worker: Worker, seen: Inspection, sop: bytes) -> tuple[bytes, bytes, PatientRow | None]:
    """Return the keyed names of patient and study, and the patient's row unless sent recently."""
    seal = worker.seal
    study = seal.name("study", seen.study_uid) if seen.study_uid else b""
    issuer, identifier = seen.patient_ids[0] if seen.patient_ids else ("", "")
    key = patient_key(issuer, identifier, seen.study_uid, sop.hex())
    patient = seal.name("patient", key)
    if not worker.is_new_patient(patient):
        return patient, study, None
    person = seal.name("person", identifier) if identifier else b""
    return patient, study, (patient, person, Patient(key, issuer, identifier).sealed(seal))


def _new_known(
    worker: Worker, owners: tuple[bytes, ...], known: frozenset[KnownValue]
) -> tuple[KnownRow, ...]:
    return tuple(
        known_row(worker.seal, owner, one.category, one.value)
        for owner in owners
        for one in worker.filter_recently_sent(owner, known)
    )
