"""The command ``words``: drafts of the site's never-words and safe words, from an export.

The inputs are read and cleaned as in a run, in memory and under a key of its own; nothing but the two drafts
is written, and they stay in the state folder.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed
from medsanitize.pipeline.engines.open_engine import open_engine
from medsanitize.pipeline.engines.shared_storage import inputs_of, require_reachable
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.jobs.word_list_files import Candidate, Drafts, draft_paths, write_drafts
from medsanitize.pipeline.runtime.optional_dependencies import check_extras
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages.batch_plan import cost_weights, large_cost, plan_batches
from medsanitize.pipeline.stages.inventory import take_inventory
from medsanitize.pipeline.stages.resolve import Job, jobs, read_excluded, read_identities, resolve
from medsanitize.pipeline.state.database import State, translated_errors
from medsanitize.pipeline.state.identities import join_identities
from medsanitize.pipeline.state.objects import count_pending
from medsanitize.pipeline.state.pending_objects import CostWeights, pending_cost
from medsanitize.pipeline.storage.local import pinned_inputs, require_not_empty
from medsanitize.pipeline.storage.pacs.check import check_pacs
from medsanitize.pipeline.storage.sources import SourceProblem, open_source_files
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import with_site_lists
from medsanitize.progress import Cancellation, NoProgress, Progress
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.pseudonyms import derive_sub_keys

Kind = Literal["kept", "removed", "staff"]
LEAST_PATIENTS: Final = 3
"""Patients in whose texts a kept or removed word must occur to be proposed."""
_PATIENT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class WordProposals:
    """What was proposed.

    Attributes
    ----------
    objects, patients : int
        Number of objects and patients whose texts were read.
    deny, allow : int
        Number of proposed never-words and safe words.
    deny_path, allow_path : Path
        The drafts, in the state folder. They contain names.
    """

    objects: int
    patients: int
    deny: int
    allow: int
    deny_path: Path
    allow_path: Path


@dataclass(frozen=True, slots=True, repr=False)
class ObjectWords:
    """Words of the texts and values of staff of one object: (kind, text, where); known names are marked."""

    patient: int
    found: tuple[tuple[Kind, str, str], ...]
    known: frozenset[str]

    def __repr__(self) -> str:
        return "ObjectWords(...)"


@translated_errors()
def propose_words(
    policy: Policy,
    *,
    workers: int | None = None,
    least_patients: int = LEAST_PATIENTS,
    progress: Progress | None = None,
    cancellation: Cancellation | None = None,
) -> WordProposals:
    """Read the inputs of a policy, and write drafts of both lists into its state folder.

    Parameters
    ----------
    policy : Policy
        The validated policy. Its own lists apply, so that only what is new is proposed.
    workers : int or None
        Number of worker processes; None for the number in the policy.
    least_patients : int
        Patients in whose texts a word must occur to be proposed.
    progress : Progress or None
        Receives the progress; None discards it.
    cancellation : Cancellation or None
        Checked between batches.

    Raises
    ------
    UsageError
        The policy or its folders cannot be used, or drafts exist already; raised before an input is read.
    EnvironmentFailure
        The disk or a store failed; the command can be repeated.
    """
    policy = _only_texts(with_site_lists(policy))
    workspace, progress = workspace_of(policy), progress or NoProgress()
    check_extras(policy)
    check_pacs(policy.inputs)
    read_excluded(policy.exclude)
    read_identities(policy.identities)
    require_reachable(policy.inputs)
    preflight.check_paths(policy.inputs, workspace)
    paths = draft_paths(workspace)
    inputs = inputs_of(policy.inputs)
    require_not_empty(inputs)
    preflight.prepare_state(workspace)
    # Nothing is released, so the key of the release is not needed.
    subkeys = derive_sub_keys(os.urandom(32), scope="words")
    state, cancellation, counts = State(None, subkeys), cancellation or Cancellation(), _Counts()
    try:
        setup = Setup(policy, subkeys, staging=None, keep_links=False)
        with pinned_inputs(inputs), open_engine(setup, workers, cancellation, inputs) as engine:
            progress.stage("inventory", None)
            take_inventory(state, policy.inputs, engine, progress.advance)
            resolve(state, policy.exclude, join_identities(read_identities(policy.identities)))
            progress.stage("words", count_pending(state))
            _read_texts(state, engine, cost_weights(policy), counts, progress.advance)
    finally:
        state.close()
    drafts = counts.drafts(least_patients)
    written = write_drafts(paths, drafts)
    return WordProposals(counts.objects, len(counts.patients), *written, *paths)


def _only_texts(policy: Policy) -> Policy:
    """Return the policy without whatever reads pixels: words come from headers and reports."""
    options = policy.dicom.options.model_copy(
        update={"clean_pixel_data": False, "clean_recognizable_visual_features": False}
    )
    return policy.model_copy(
        update={
            "dicom": policy.dicom.model_copy(update={"options": options}),
            "pixels": policy.pixels.model_copy(update={"at_risk": "release", "faces": "ignore"}),
            "raster": policy.raster.model_copy(update={"action": "drop"}),
            "wsi": policy.wsi.model_copy(update={"action": "drop"}),
        }
    )


def _read_texts(
    state: State, engine: Engine, weights: CostWeights, counts: _Counts, advance: Callable[[int], None]
) -> None:
    total = pending_cost(state, weights)
    pending = jobs(state, None, "ignore", weights, large_cost(total, engine.workers))
    for result in engine.map(words_batch, plan_batches(pending, total, engine.workers)):
        # An object that crashes a worker is left out, as in a release.
        if isinstance(result, WorkerCrashed):
            advance(1)
            continue
        for one in result:
            if one is not None:
                counts.add(one)
        advance(len(result))


# -- counting -----------------------------------------------------------------------------


@dataclass(slots=True, repr=False)
class _Count:
    """One word: its first spelling by alphabet, and where and in how many objects and patients it occurs."""

    text: str
    objects: int = 0
    patients: set[int] = field(default_factory=set)
    where: Counter[str] = field(default_factory=Counter)

    def add(self, text: str, patient: int, where: Iterable[str]) -> None:
        self.text = min(self.text, text)
        self.objects += 1
        self.patients.add(patient)
        self.where.update(where)

    def candidate(self) -> Candidate:
        # By alphabet where equal, so that the draft does not depend on the order of batches.
        where = tuple(name for name, _ in sorted(self.where.items(), key=lambda one: (-one[1], one[0])))
        return Candidate(self.text, self.objects, len(self.patients), where)


class _Counts:
    """Counts of all words over all objects."""

    def __init__(self) -> None:
        self.objects = 0
        self.patients: set[int] = set()
        self._words: dict[tuple[Kind, str], _Count] = {}
        self._known: set[str] = set()

    def add(self, one: ObjectWords) -> None:
        """Count the words of one object, each once."""
        self.objects += 1
        self.patients.add(one.patient)
        self._known |= one.known
        places: dict[tuple[Kind, str], tuple[str, set[str]]] = {}
        for kind, text, where in one.found:
            places.setdefault((kind, text.casefold()), (text, set()))[1].add(where)
        for key, (text, where_all) in places.items():
            self._words.setdefault(key, _Count(text)).add(text, one.patient, where_all)

    def drafts(self, least: int) -> Drafts:
        """Return the candidates of both lists, the most frequent first."""
        from medsanitize.sanitize.text.word_proposals import resembles_word

        staff = self._ordered("staff", 1)
        named = {word for one in staff for word in one.text.casefold().replace("^", " ").split()}
        kept = [one for one in self._ordered("kept", least) if one.text.casefold() not in named]
        removed = [
            one
            for one in self._ordered("removed", least)
            if one.text.casefold() not in self._known | named and resembles_word(one.text)
        ]
        return Drafts(self.objects, len(self.patients), tuple(staff), tuple(kept), tuple(removed))

    def _ordered(self, kind: Kind, least: int) -> list[Candidate]:
        found = [count.candidate() for (one, _), count in self._words.items() if one == kind]
        return sorted(
            (one for one in found if one.patients >= least),
            key=lambda one: (-one.patients, -one.objects, one.text),
        )


# -- in the workers -----------------------------------------------------------------------


def words_batch(worker: Worker, batch: Sequence[Job]) -> list[ObjectWords | None]:
    """Read and clean the texts of a batch of objects; None for an object that cannot be read."""
    return [_words_of(worker, job) for job in batch]


def _words_of(worker: Worker, job: Job) -> ObjectWords | None:
    if job.kind != "dicom":
        return None
    from medsanitize.sanitize.dicom.staff_values import staff_values
    from medsanitize.sanitize.text.vocabulary_filter import forbidden_words

    reader = _reader(worker)
    try:
        with open_source_files(job.paths, worker.seal, job.stamp) as contents:
            texts = reader.texts(job, contents[0])
            staff = staff_values(contents[0], worker.setup.policy.dicom.limits)
    except SourceProblem:
        return None
    except MedsanitizeError:
        raise
    except Exception:  # noqa: BLE001  a run quarantines such an object; its text must reach no traceback
        return None
    found: list[tuple[Kind, str, str]] = [
        ("staff", one.value, one.category) for one in staff if not reader.is_denied(one.value)
    ]
    patient = int.from_bytes(worker.seal.name("patient", job.context.patient)[:_PATIENT_BYTES], "big")
    return ObjectWords(patient, (*found, *_compared(texts)), forbidden_words(job.context.known).words)


def _compared(texts: Iterable[tuple[int, str, str]]) -> Iterable[tuple[Kind, str, str]]:
    from medsanitize.sanitize.text.word_proposals import compare
    from pydicom.datadict import keyword_for_tag

    for tag, before, after in texts:
        words, where = compare(before, after), keyword_for_tag(tag) or "private attribute"
        yield from (("kept", word, where) for word in words.kept)
        yield from (("removed", word, where) for word in words.removed)


class _Reader:
    """The DICOM sanitizer of a worker, with a record of what it cleaned."""

    def __init__(self, worker: Worker) -> None:
        from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
        from medsanitize.sanitize.text.deny_list import deny_list_of

        self._seen: set[tuple[int, str, str]] = set()
        policy = worker.setup.policy
        self._denied = deny_list_of(policy.text)
        self._sanitize = DicomSanitizer(
            policy, worker.setup.subkeys, lambda tag, before, after: self._seen.add((tag, before, after))
        )

    def texts(self, job: Job, content: Buffer) -> set[tuple[int, str, str]]:
        """Return tag, text before and text after of each text of an object."""
        self._seen.clear()
        self._sanitize(content, job.context)
        return set(self._seen)

    def is_denied(self, value: str) -> bool:
        """Return whether the policy lists a value already."""
        return self._denied is not None and bool(self._denied.spans(value.replace("^", " ")))


@lru_cache(maxsize=1)
def _reader(worker: Worker) -> _Reader:
    return _Reader(worker)
