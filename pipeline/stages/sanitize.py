"""The stage sanitize: turns source objects into staged files and records."""

from __future__ import annotations

import importlib.metadata
import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed
from medsanitize.pipeline.engines.partial_files import (
    PartialFiles,
    make_partial_folder,
    partial_files,
    remove_partial_files,
)
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.batch_plan import large_cost, plan_batches
from medsanitize.pipeline.stages.resolve import Job, is_safe_name, jobs
from medsanitize.pipeline.stages.review_items import Budget, seal_items, store_items
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.decisions import decision_counts
from medsanitize.pipeline.state.objects import count_found, count_pending, count_released
from medsanitize.pipeline.state.pending_objects import CostWeights, any_other_format, pending_cost
from medsanitize.pipeline.state.records import seal_record
from medsanitize.pipeline.state.reset import remove_review_items
from medsanitize.pipeline.state.review_queue import SealedReviewItem
from medsanitize.pipeline.state.sanitized import LinkRow, SanitizedRow, add_links, link_row, store_sanitized
from medsanitize.pipeline.state.stage_results import REVIEWED
from medsanitize.pipeline.storage.sha256_writer import LARGE, Sha256Writer
from medsanitize.pipeline.storage.slide_files import slide_view
from medsanitize.pipeline.storage.sources import SourceProblem, open_source_files
from medsanitize.policies.model import FacesAction
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import contested_path, part_path, staged_path
from medsanitize.release.multi_file_objects import parts_digest
from medsanitize.release.summary import GateSummary, gate_of_check
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.result import FilePart, Finding, ObjectRecord, Outcome, Sanitized

NATIVE = frozenset(
    ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.2")
)
"""Transfer syntaxes with uncompressed pixels, which can be compared without a decoder."""
# Bytes after which written pages are handed to the kernel, so that large slides do not fill memory.
_WRITEBACK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class SanitizedObject:
    """One object's new row values, the new links of its patient and its review items, all sealed.

    ``beyond`` counts review items that are left out.
    """

    row: SanitizedRow
    links: tuple[LinkRow, ...] = ()
    review_items: tuple[SealedReviewItem, ...] = ()
    beyond: int = 0


@dataclass(frozen=True, slots=True)
class SanitizeStage(Stage):
    """Sanitize every object that has no outcome yet."""

    pseudonyms: Path | None
    clean_pixel_data: bool
    faces: FacesAction
    weights: CostWeights
    rebuilds_documents: bool = False
    readers: tuple[str, ...] = ("rapidocr",)

    name: ClassVar = "sanitize"
    phase: ClassVar[Phase] = "objects"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"inventory", "resolve", "faces"})

    def pending(self, state: State) -> int | None:
        """Return the number of objects without an outcome."""
        return count_pending(state)

    def run(self, context: RunContext, advance: Advance) -> None:
        """Sanitize the objects."""
        sanitize_objects(self, context.state, context.engine, advance, staging=context.staging)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the review items of objects that are sanitized again."""
        remove_review_items(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gates on objects to release, burned-in text and review by a person."""
        return (
            released_gate(judged.state),
            burned_in_gate(judged.tally, clean_pixel_data=self.clean_pixel_data, readers=self.readers),
            review_gate(judged.state),
        )


def sanitize_objects(
    rules: SanitizeStage,
    state: State,
    engine: Engine,
    on_objects: Advance = lambda _: None,
    *,
    staging: Path | None = None,
) -> None:
    """Sanitize every object without an outcome, and store the results as batches finish.

    Parameters
    ----------
    rules : SanitizeStage
        The settings of the stage.
    state : State
        The state of the run.
    engine : Engine
        Calls the workers.
    on_objects : callable
        Receives the number of objects of each batch.
    staging : Path or None
        The folder the workers write to; None in a plan.
    """
    if staging is not None:
        make_partial_folder(staging)
    stored = Budget.stored(state)
    decodes = rules.clean_pixel_data or rules.faces == "deface"
    total = pending_cost(state, rules.weights)
    pending = jobs(state, rules.pseudonyms, rules.faces, rules.weights, large_cost(total, engine.workers))
    plan = plan_batches(pending, total, engine.workers)
    # Isolated where libraries read an image or a document, because a damaged one may crash them.
    apart = decodes or rules.rebuilds_documents or any_other_format(state)
    for result in engine.map(sanitize_batch, plan, isolate=apart, ordered=False):
        if isinstance(result, WorkerCrashed) and staging is not None:
            remove_partial_files(staging, result.item.id)
        done = [_worker_died(result.item)] if isinstance(result, WorkerCrashed) else result
        store_sanitized(state, [one.row for one in done])
        add_links(state, [link for one in done for link in one.links])
        for one in done:
            if one.review_items or one.beyond:
                store_items(state, one.row.id, one.review_items, one.beyond, stored)
        state.count_written(len(done))
        on_objects(len(done))
    stored.trim(state)
    state.commit()


# -- gates --------------------------------------------------------------------------------


def released_gate(state: State) -> GateSummary:
    """Decide the gate ``objects to release``."""
    name, released, found = "objects to release", count_released(state), count_found(state)
    decided = found - count_pending(state)
    if released:
        return GateSummary(name, "passed", "", decided, found)
    return GateSummary(name, "failed", "No object is left to release.", decided, found)


def burned_in_gate(
    tally: Tally, *, clean_pixel_data: bool, readers: Sequence[str] = ("rapidocr",)
) -> GateSummary:
    """Decide the gate ``burned-in text`` from the checks of the released objects."""
    results = tally.checks["pixels"]
    name, read, unread = "burned-in text", results["passed"] + results["flagged"], results["not_run"]
    if not clean_pixel_data:
        detail = f"Pixels were not read for text: {unread} released objects may show some."
        return GateSummary(name, "not_run", detail, 0, unread)
    if read:
        named = " and ".join(map(_with_version, readers))
        detail = f"{_objects(read)} read for text by {named}, {tally.regions} areas blanked."
    else:
        detail = "No object was read for text."
    if unread:
        detail += f" {_objects(unread)} not read that may show text."
    return gate_of_check(name, results, detail, unconcerned="No released object is expected to show text.")


def _objects(count: int) -> str:
    return "1 object was" if count == 1 else f"{count} objects were"


def _with_version(reader: str) -> str:
    """Name of a reader of text with the version that is installed here."""
    if reader == "tesseract":
        from medsanitize.sanitize.burned_in.second_reader import version

        return f"Tesseract {version()}".strip()
    try:
        return f"RapidOCR {importlib.metadata.version(reader)}"
    except importlib.metadata.PackageNotFoundError:
        return "RapidOCR"


def review_gate(state: State) -> GateSummary:
    """Decide the gate ``review by a person``; the person is not named."""
    if not REVIEWED.is_set(state):
        detail = "No person reviewed a sample or the review items."
        return GateSummary("review by a person", "not_run", detail)
    found = decision_counts(state)
    detail = (
        "A person reviewed the review items and a sample:"
        f" {found.decisions} decisions on {found.objects} objects."
    )
    return GateSummary("review by a person", "passed", detail)


# -- in the workers -----------------------------------------------------------------------


def sanitize_batch(worker: Worker, batch: Sequence[Job]) -> list[SanitizedObject]:
    """Sanitize a batch of objects and write the released ones to the staging folder."""
    return [_sanitize_one(worker, job) for job in batch]


def _sanitize_one(worker: Worker, job: Job) -> SanitizedObject:
    try:
        with open_source_files(job.paths, worker.seal, job.stamp) as contents:
            return _staged(worker, job, contents)
    except SourceProblem as problem:
        return _quarantined(worker, job, "unreadable", problem.rule)
    except MedsanitizeError:
        raise
    except Exception:  # noqa: BLE001  a defect must neither release an object nor stop the run
        return _quarantined(worker, job, "dicom" if job.kind != "slide" else "slide", "internal-error")


def _staged(worker: Worker, job: Job, contents: Sequence[bytes | mmap.mmap]) -> SanitizedObject:
    """Write all files of an object; digest and size cover all of them."""
    sanitized = _sanitized(worker, job, contents)
    record = sanitized.record
    if record.outcome is not Outcome.RELEASED:
        return _not_released(worker, job, record, sanitized)
    names = (record.patient, record.study, record.series, record.instance)
    # Pseudonyms may come from a table or, with retained UIDs, from the object: never trust them as paths.
    if not _are_safe_names(names):
        return _quarantined(worker, job, record.kind, "unsafe-pseudonym")
    suffix = sanitized.files[0].name[1:]
    main = staged_path(*names, suffix)
    parts = []
    with partial_files(worker, job.id) as drafts:
        for file in sanitized.files:
            target = _target(worker, job, part_path(main, suffix, file.name))
            digest, size = _write(drafts, target, _blocks(file.pieces, contents))
            parts.append(FilePart(file.name, size, digest.hex()))
        if drafts is not None:
            drafts.place()
    if len(parts) > 1:
        record = replace(record, parts=tuple(parts))
        digest, size = bytes.fromhex(parts_digest(parts)), sum(part.size for part in parts)
    others = "\n".join(part.name for part in parts[1:])
    native = None if record.rows is None else record.transfer_syntax in NATIVE
    row = _released(worker, job, record, (names, suffix, others, size, digest, native))
    links = _links(worker, sanitized.links, record.patient)
    return SanitizedObject(row, links, *seal_items(worker, sanitized.review_items))


def _sanitized(worker: Worker, job: Job, contents: Sequence[bytes | mmap.mmap]) -> Sanitized:
    if job.kind == "slide":
        return worker.slide_sanitizer(slide_view(job.paths, contents), job.context)
    return worker.sanitize(contents[0], job.context)


def _released(
    worker: Worker,
    job: Job,
    record: ObjectRecord,
    file: tuple[tuple[str, str, str, str], str, str, int, bytes, bool | None],
) -> SanitizedRow:
    staged = 2 if job.contested else 1
    return SanitizedRow(job.id, "released", None, seal_record(worker.seal, record), staged, *file)


def _are_safe_names(names: tuple[str, str, str, str]) -> bool:
    patient, study, series, instance = names
    return (
        is_safe_name(patient)
        and is_safe_name(instance)
        and all(not one or is_safe_name(one) for one in (study, series))
    )


def _target(worker: Worker, job: Job, path: str) -> str:
    return f"{worker.setup.staging}/{contested_path(path, job.id) if job.contested else path}"


def _write(
    drafts: PartialFiles | None, target: str, blocks: Iterable[bytes | memoryview]
) -> tuple[bytes, int]:
    """Write blocks to a draft of ``target``, unless this is a plan; return their digest and size."""
    size = 0
    with Sha256Writer() as digest:
        if drafts is None:
            for block in blocks:
                digest.update(block)
                size += len(block)
            return digest.digest(), size
        with storage_errors():
            descriptor = drafts.begin(target)
            try:
                begun = 0
                for block in blocks:
                    size += len(block)
                    digest.update(block)
                    _write_all(descriptor, block)
                    if size - begun >= _WRITEBACK_BYTES:
                        begun = _start_writeback(descriptor, begun, size)
            finally:
                os.close(descriptor)
        return digest.digest(), size


def _blocks(pieces: Iterable[Piece], contents: Sequence[bytes | mmap.mmap]) -> Iterable[bytes | memoryview]:
    """Yield adjacent small pieces as one block, and copied ranges as views of their source."""
    small: list[bytes] = []
    passed = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            small.append(piece)
            continue
        yield b"".join(small)
        small = []
        content = contents[piece.file if isinstance(piece, Copy) else 0]
        end = piece.offset + piece.length
        for offset in range(piece.offset, end, LARGE):
            with memoryview(content) as view, view[offset : min(offset + LARGE, end)] as window:
                passed += len(window)
                yield window
            if passed > _WRITEBACK_BYTES and isinstance(content, mmap.mmap):
                content.madvise(mmap.MADV_DONTNEED)  # copied pages are not read again
                passed = 0
    yield b"".join(small)


def _start_writeback(descriptor: int, start: int, end: int) -> int:
    """Start writing back a range, so that publishing need not wait for the disk; return ``end``."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)
    return end


def _write_all(descriptor: int, block: bytes | memoryview) -> None:
    # os.write may write less than it was given: at most 2 GiB on Linux.
    written = os.write(descriptor, block)
    while written < len(block):
        block = block[written:]
        written = os.write(descriptor, block)


def _links(worker: Worker, links: Iterable[tuple[str, str]], patient: str) -> tuple[LinkRow, ...]:
    # A plan stores no links, and an anonymous run must not.
    if not worker.setup.keep_links:
        return ()
    return tuple(
        link_row(worker.seal, link, is_patient=link[1] == patient)
        for link in links
        if worker.is_new_link(link)
    )


def _quarantined(worker: Worker, job: Job, kind: str, rule: str) -> SanitizedObject:
    return _not_released(worker, job, ObjectRecord(Outcome.QUARANTINED, kind, (Finding("file", rule),)))


def _not_released(
    worker: Worker, job: Job, record: ObjectRecord, sanitized: Sanitized | None = None
) -> SanitizedObject:
    rule = record.findings[0].rule if record.findings else "unknown"
    review_items = seal_items(worker, sanitized.review_items) if sanitized else ((), 0)
    row = SanitizedRow(job.id, str(record.outcome), rule, seal_record(worker.seal, record))
    return SanitizedObject(row, (), *review_items)


def _worker_died(job: Job) -> SanitizedObject:
    return SanitizedObject(SanitizedRow(job.id, "quarantined", "worker-died"))


# -- records in the state -----------------------------------------------------------------
