"""What an export contains, counted before anything is decided: no value, no file name, no key."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from itertools import islice
from typing import Any, Final

from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.base import WorkerCrashed, batches
from medsanitize.pipeline.engines.open_engine import open_engine
from medsanitize.pipeline.engines.shared_storage import inputs_of, require_reachable
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.reporting.progress_file import recorded_progress
from medsanitize.pipeline.runtime.machine import usable_cores
from medsanitize.pipeline.runtime.workspace import Workspace, workspace_of
from medsanitize.pipeline.stages.batch_plan import cost_weights
from medsanitize.pipeline.state.keys import patient_key
from medsanitize.pipeline.state.pending_objects import CostWeights
from medsanitize.pipeline.storage.local import pinned_inputs, require_not_empty
from medsanitize.pipeline.storage.protocol import Content
from medsanitize.pipeline.storage.slide_files import slide_view
from medsanitize.pipeline.storage.sources import SourceEntry, SourceProblem, open_new_source, walk
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation, NoProgress, Progress
from medsanitize.release.atomic_io import write_atomic
from medsanitize.sanitize.context import Inspection
from medsanitize.sanitize.pseudonyms import derive_sub_keys

_BATCH: Final = 64
# Makers and models are free text of a header: an export may state a million of them.
_MOST_NAMES: Final = 50
_MOST_CHARACTERS: Final = 64
_HEADER: Final = ("Modality", "Manufacturer", "ManufacturerModelName")


@dataclass(frozen=True, slots=True)
class InputCounts:
    """What the inputs of a policy contain.

    Attributes
    ----------
    files, bytes : int
        All files, and their size.
    objects : int
        Those that a run would sanitize: DICOM, pictures and slides.
    patients, studies, series : int
        As the objects state them.
    kinds : mapping
        Number of files by kind: ``dicom``, ``raster``, ``slide``, ``container``, ``dicomdir``,
        ``unreadable``, or a kind of other files such as ``pdf``.
    modalities, makers, formats : mapping
        Number of DICOM objects by modality, by manufacturer and model, and by transfer syntax.
    problems : mapping
        Number of unreadable files by rule.
    seconds : float
        That the scan took.
    estimate : float
        Seconds that a run is estimated to take on this machine.
    """

    files: int = 0
    bytes: int = 0
    objects: int = 0
    patients: int = 0
    studies: int = 0
    series: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    modalities: Mapping[str, int] = field(default_factory=dict)
    makers: Mapping[str, int] = field(default_factory=dict)
    formats: Mapping[str, int] = field(default_factory=dict)
    problems: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    estimate: float = 0.0

    def tables(self) -> tuple[tuple[str, Mapping[str, int]], ...]:
        """Return the counts by kind, modality, maker, format and problem with their titles, if any."""
        named = (
            ("Kinds of files", self.kinds),
            ("Modalities", self.modalities),
            ("Makers and models", self.makers),
            ("Formats", self.formats),
            ("Unreadable files", self.problems),
        )
        return tuple((title, table) for title, table in named if table)

    def as_json(self) -> dict[str, Any]:
        """Return the counts as ``--json`` prints them."""
        return {"type": "result", **asdict(self)}


@dataclass(frozen=True, slots=True, repr=False)
class SeenFile:
    """What a worker says of one file; patient, study and series are keyed marks."""

    kind: str
    size: int
    rule: str = ""
    patient: bytes = b""
    study: bytes = b""
    series: bytes = b""
    facts: tuple[str, str, str] = ("", "", "")
    cost: float = 0.0

    def __repr__(self) -> str:
        return f"SeenFile({self.kind})"


_DIED: Final = SeenFile("unreadable", 0, "worker-died")


def count_inputs(
    policy: Policy,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    cancellation: Cancellation | None = None,
) -> InputCounts:
    """Scan the inputs of a policy, and store the counts in its state folder.

    Parameters
    ----------
    policy : Policy
        The validated policy; only its inputs and limits matter.
    workers : int or None
        Number of worker processes; None for the number in the policy.
    progress : Progress or None
        Receives the progress; None discards it.
    cancellation : Cancellation or None
        Checked between batches.

    Raises
    ------
    UsageError
        The folders cannot be used, or are empty.
    FoldersInUse
        A run is at work.
    EnvironmentFailure
        The disk or a store failed; the command can be repeated.
    """
    workspace, cancellation = workspace_of(policy), cancellation or Cancellation()
    require_reachable(policy.inputs)
    preflight.check_paths(policy.inputs, workspace)
    inputs = inputs_of(policy.inputs)
    require_not_empty(inputs)
    preflight.prepare_folders(workspace)
    # Nothing is released: a key for this scan alone tells patients apart.
    setup = Setup(policy, derive_sub_keys(os.urandom(32), scope="inventory"), staging=None, keep_links=False)
    began = time.monotonic()
    with (
        preflight.locked(workspace),
        recorded_progress(workspace, progress or NoProgress()) as told,
        pinned_inputs(inputs),
        open_engine(setup, workers, cancellation, inputs) as engine,
    ):
        told.stage("files", None)
        total = sum(1 for _ in walk(policy.inputs))
        told.stage("inventory", total)
        tally = _Tally()
        for result in engine.map(see_batch, batches(walk(policy.inputs), _BATCH)):
            seen = [_DIED] if isinstance(result, WorkerCrashed) else result
            tally.add(seen)
            told.advance(len(seen))
        counts = tally.counts(time.monotonic() - began, workers or policy.engine.workers or usable_cores())
        write_atomic(workspace.inventory, json.dumps(asdict(counts)).encode(), private=True)
    return counts


def stored_counts(workspace: Workspace) -> InputCounts | None:
    """Return the counts of the last scan, or None."""
    try:
        return InputCounts(**json.loads(workspace.inventory.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


class _Tally:
    """Adds what the workers say; sets of marks of 16 bytes tell patients, studies and series apart."""

    def __init__(self) -> None:
        self.files = self.bytes = self.objects = 0
        self.cost = 0.0
        self.marks: tuple[set[bytes], set[bytes], set[bytes]] = (set(), set(), set())
        self.kinds: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.facts: tuple[Counter[str], Counter[str], Counter[str]] = (Counter(), Counter(), Counter())

    def add(self, seen: Sequence[SeenFile]) -> None:
        for one in seen:
            self.files += 1
            self.bytes += one.size
            self.cost += one.cost
            self.kinds[one.kind] += 1
            if one.rule:
                self.problems[one.rule] += 1
            self.objects += one.kind in ("dicom", "raster", "slide")
            for marks, mark in zip(self.marks, (one.patient, one.study, one.series), strict=True):
                if mark:
                    marks.add(mark)
            for counter, fact in zip(self.facts, one.facts, strict=True):
                # A new name beyond the limit is counted with the others.
                if fact:
                    counter[fact if fact in counter or len(counter) < _MOST_NAMES else "others"] += 1

    def counts(self, seconds: float, workers: int) -> InputCounts:
        patients, studies, series = map(len, self.marks)
        modalities, makers, formats = (dict(one.most_common()) for one in self.facts)
        return InputCounts(
            files=self.files,
            bytes=self.bytes,
            objects=self.objects,
            patients=patients,
            studies=studies,
            series=series,
            kinds=dict(self.kinds.most_common()),
            modalities=modalities,
            makers=makers,
            formats=formats,
            problems=dict(self.problems.most_common()),
            seconds=round(seconds, 2),
            # Twice, because every released object is read again by the audit.
            estimate=round(2 * self.cost / max(workers, 1), 1),
        )


# -- in the workers -----------------------------------------------------------------------


def see_batch(worker: Worker, batch: Sequence[SourceEntry]) -> list[SeenFile]:
    """Inspect a batch of files."""
    weights = cost_weights(worker.setup.policy)
    return [_see(worker, found, weights) for found in batch]


def _see(worker: Worker, found: SourceEntry, weights: CostWeights) -> SeenFile:
    size = sum(one.size for one in found.files)
    if found.sort != "file":
        return SeenFile(found.sort if found.sort in ("link", "special") else "unreadable", size, found.sort)
    try:
        with open_new_source(found, worker.seal) as (contents, size, _):
            return _inspected(worker, found, contents, size, weights)
    except SourceProblem as problem:
        return SeenFile("unreadable", size, problem.rule)
    except MedsanitizeError:
        raise
    except Exception:  # noqa: BLE001  a file that no reader foresaw must not stop the scan
        return SeenFile("unreadable", size, "internal-error")


def _inspected(
    worker: Worker, found: SourceEntry, contents: Sequence[Content], size: int, weights: CostWeights
) -> SeenFile:
    from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
    from medsanitize.sanitize.formats.container_kind import container_kind
    from medsanitize.sanitize.formats.file_kind import file_kind
    from medsanitize.sanitize.raster.raster_sanitizer import inspect_raster
    from medsanitize.sanitize.wsi.inspect_slide import inspect_slide

    content = contents[0]
    view = slide_view(tuple(one.path for one in found.files), contents)
    limits = worker.setup.policy.dicom.limits
    seen = inspect_slide(view) or inspect_raster(content) or inspect_dicom(content, limits, worker.kept)
    if seen.kind == "other":
        return SeenFile("container" if container_kind(content) else file_kind(content), size)
    if seen.kind not in ("dicom", "raster", "slide"):
        return SeenFile(seen.kind, size, seen.rule if seen.kind == "unreadable" else "")
    facts = _header_facts(content) if seen.kind == "dicom" else ("", "", "")
    return SeenFile(seen.kind, size, "", *_marks(worker, seen), facts, _cost(seen, size, weights))


def _marks(worker: Worker, seen: Inspection) -> tuple[bytes, bytes, bytes]:
    """Return keyed marks of patient, study and series."""
    issuer, identifier = seen.patient_ids[0] if seen.patient_ids else ("", "")
    mark = worker.seal.mark
    patient = patient_key(issuer, identifier, seen.study_uid, "") if identifier or seen.study_uid else ""
    names = (patient, seen.study_uid, seen.series_uid)
    first, second, third = (mark(f"{number}:{one}") if one else b"" for number, one in enumerate(names))
    return first, second, third


def _cost(seen: Inspection, size: int, weights: CostWeights) -> float:
    image = seen.image
    pixels = 0 if image is None else image.rows * image.columns * image.frames
    shows_text = image is not None and image.may_show_text
    per_pixel = weights.per_text_pixel if shows_text else weights.per_other_pixel
    # A header may state any size.
    return weights.per_object + weights.per_byte * size + per_pixel * min(pixels, 1000 * size)


def _header_facts(content: Content) -> tuple[str, str, str]:
    """Return modality, maker with model, and transfer syntax of an object, as its header states them."""
    from pydicom import dcmread
    from pydicom.uid import UID

    try:
        # A large source is mapped, and can be read like a file as it is.
        stream: Any = BytesIO(content) if isinstance(content, bytes) else content
        data = dcmread(stream, stop_before_pixels=True, specific_tags=list(_HEADER))
        modality, maker, model = (_short(str(data.get(name) or "")) for name in _HEADER)
        syntax = UID(str(data.file_meta.get("TransferSyntaxUID", "")))
        return modality, " ".join(filter(None, (maker, model))), _short(str(syntax.name))
    except Exception:  # noqa: BLE001  the counts go without what a header does not state
        return "", "", ""


def _short(text: str) -> str:
    printable = "".join(letter for letter in islice(text, _MOST_CHARACTERS) if letter.isprintable())
    return printable.strip()
