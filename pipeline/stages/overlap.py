"""The stage overlap: detects patients of this release in earlier releases of the registry.

Every staged object is fingerprinted once, and fingerprints are stored encrypted. The verdict is one
transaction over the whole set and depends on the fingerprints only, not on the order of the workers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.stages.earlier_releases import EarlierReleases
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.fingerprints import (
    FingerprintRow,
    clear_fingerprints,
    flag_patients,
    rule_out_patients,
    store_fingerprints,
)
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.released import released_fingerprints
from medsanitize.pipeline.state.reset import remove_fingerprints
from medsanitize.pipeline.state.result_types import OverlapResult
from medsanitize.pipeline.state.stage_results import (
    FAILED_OVERLAP,
    FINGERPRINTED_AS,
    FINGERPRINTED_BY,
    OVERLAP,
    OVERLAP_JUDGED,
)
from medsanitize.pipeline.state.staged_objects import Staged, count_to_fingerprint, objects_to_fingerprint
from medsanitize.policies.model import Overlap
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import all_paths
from medsanitize.release.registry import RegistryEntry
from medsanitize.release.summary import GateSummary

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.overlap.dataset import ImageFile
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
    from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint
    from medsanitize.verifiers.reid.overlap.models import ModelPaths, Models
    from medsanitize.verifiers.reid.overlap.overlap import Overlap as Found

BATCH: Final = 16
RULE: Final = "overlap"
_PURPOSE: Final = b"fingerprint"
_HEADER: Final = struct.Struct("<IIIId")


@dataclass(frozen=True, slots=True)
class OverlapStage(Stage):
    """Compare the staged set with every earlier release, image by image."""

    section: Overlap | None
    earlier: EarlierReleases

    name: ClassVar = "overlap"
    phase: ClassVar[Phase] = "set"
    invalidated_by: ClassVar = frozenset({"sanitize", "deduplicate"})

    def check(self) -> None:
        """Refuse models, a key or a registry that cannot be used."""
        if self.section is not None:
            check_overlap(self.section, self.earlier)

    def pending(self, state: State) -> int | None:
        """Return the number of staged objects without a fingerprint; 0 without the section ``overlap``."""
        return 0 if self.section is None else count_to_fingerprint(state) or None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Fingerprint staged objects, compare them, and apply the policy's action."""
        if self.section is not None:
            fingerprint_staged(context.state, self.section, context.engine, advance)
            judge_overlap(context, self.section, self.earlier)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the decisions, and the fingerprints of objects that are sanitized again."""
        for result in (OVERLAP_JUDGED, OVERLAP, FAILED_OVERLAP):
            result.remove(state)
        remove_fingerprints(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gate ``overlap``; a plan embeds no images."""
        if judged.is_plan and self.section is not None:
            return (GateSummary("overlap", "not_run", "A plan embeds no images."),)
        gate, results = overlap_gate(judged.state, self.section), judged.tally.checks["overlap"]
        looked = results["passed"] + results["flagged"]
        concerned = looked + results["not_run"]
        # An inconclusive comparison compared the images, but says nothing about any.
        result = "flagged" if gate.result == "passed" and not looked else gate.result
        return (replace(gate, result=result, looked_at=looked, concerned=concerned),)


def check_overlap(section: Overlap, earlier: EarlierReleases) -> None:
    """Check models, calibrations, the key of the registry and its embeddings, before an input is read.

    Parameters
    ----------
    section : Overlap
        The section ``overlap`` of the policy.
    earlier : EarlierReleases
        The registry of earlier releases.

    Raises
    ------
    UsageError
        An earlier release has no embeddings by these models.
    KeyMaterialError
        The key of the registry cannot be used.
    IntegrityError
        A model or calibration was changed.
    """
    from medsanitize.pipeline.engines.fingerprint_workers import calibrations_of
    from medsanitize.verifiers.reid.images.kinds import kind_named
    from medsanitize.verifiers.reid.overlap.models import open_models

    models = open_models(paths_of(section))
    calibrations_of(section.calibration, models)
    kind_named(section.kind)
    vault, registry = earlier.vault(), earlier.registry
    lacking = 0
    for entry in earlier.others():
        if registry.missing(entry.name, entry.version, models.identity) is None:
            lacking += 1
        else:
            # Decrypting one batch proves that the key fits.
            next(registry.embeddings(entry, models.identity, vault), None)
    if lacking:
        raise UsageError(
            f"overlap: {lacking} earlier releases in the registry were not embedded by these models",
            "Add each again: medsanitize registry add RELEASE --embed, with the models that the policy names",
        )


def paths_of(section: Overlap) -> ModelPaths:
    """Return the folders of the models that a policy names."""
    from medsanitize.verifiers.reid.overlap.models import ModelPaths

    model, verifier = section.model, section.verifier
    return ModelPaths((model,) if model else (), (verifier,) if verifier else ())


# -- fingerprints -------------------------------------------------------------------------


def fingerprint_staged(
    state: State, section: Overlap, engine: Engine, on_objects: Advance = lambda _: None
) -> None:
    """Fingerprint the staged objects that have no fingerprint, in isolated processes.

    Parameters
    ----------
    state : State
        The state of the run.
    section : Overlap
        Names the models; fingerprints of other models are removed first.
    engine : Engine
        Calls the workers.
    on_objects : callable
        Receives the number of objects of each batch.
    """
    from medsanitize.pipeline.engines.fingerprint_workers import DIED
    from medsanitize.verifiers.reid.overlap.models import open_models

    _clear_other_models(state, open_models(paths_of(section)).identity, section.kind)
    for result in engine.map(
        fingerprint_staged_batch, batches(objects_to_fingerprint(state), BATCH), isolate=True
    ):
        rows = (
            [FingerprintRow(result.item.id, DIED, None, None)]
            if isinstance(result, WorkerCrashed)
            else result
        )
        store_fingerprints(state, rows)
        state.count_written(len(rows))
        on_objects(len(rows))
    state.commit()


def _clear_other_models(state: State, identity: str, kind: str) -> None:
    if FINGERPRINTED_BY.load(state) != identity or FINGERPRINTED_AS.load(state) != kind:
        with state.transaction():
            clear_fingerprints(state)
            FINGERPRINTED_BY.store(state, identity)
            FINGERPRINTED_AS.store(state, kind)


def fingerprint_staged_batch(worker: Worker, batch: Sequence[Staged]) -> list[FingerprintRow]:
    """Fingerprint a batch of staged objects, and encrypt the fingerprints."""
    from medsanitize.pipeline.engines.fingerprint_workers import fingerprint_batch
    from medsanitize.verifiers.reid.images.kinds import kind_named
    from medsanitize.verifiers.reid.overlap.dataset import ImageFile
    from medsanitize.verifiers.reid.overlap.models import open_models

    staging, section = worker.setup.staging, worker.setup.policy.overlap
    if staging is None or section is None:
        return []
    models, kind = open_models(paths_of(section)), kind_named(section.kind)
    images = [
        ImageFile(staging / one.paths[0], "", "-", tuple(staging / path for path in one.paths[1:]), kind=kind)
        for one in batch
    ]
    return [
        FingerprintRow(one.id, seen.problem, seen.modality, worker.seal.close(_packed(seen), _PURPOSE))
        for one, seen in zip(batch, fingerprint_batch(models, images), strict=True)
    ]


def _packed(fingerprint: ImageFingerprint) -> bytes:
    parts = [fingerprint.perceptual_hash or b""]
    parts += [
        b"" if one is None else one.astype("<f4").tobytes()
        for one in (fingerprint.embedding, fingerprint.verification_embedding)
    ]
    parts.append(fingerprint.series.encode())
    return _HEADER.pack(*map(len, parts), fingerprint.position) + b"".join(parts)


def _unpacked(state: State, problem: str, modality: str | None, value: bytes | None) -> ImageFingerprint:
    import numpy as np
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint

    if value is None:
        return ImageFingerprint(problem=problem)
    content = state.seal.open(value, _PURPOSE)
    *lengths, position = _HEADER.unpack_from(content)
    parts, start = list[bytes](), _HEADER.size
    for length in lengths:
        parts.append(content[start : start + length])
        start += length
    first, second = (np.frombuffer(part, "<f4") if part else None for part in parts[1:3])
    kind = Modality(modality) if modality else None
    return ImageFingerprint(
        perceptual_hash=parts[0] or None,
        modality=kind,
        embedding=first,
        verification_embedding=second,
        problem=problem,
        series=parts[3].decode(),
        position=position,
    )


def released_fingerprints_of(state: State) -> Iterator[tuple[str, str, ImageFingerprint]]:
    """Patient, path and fingerprint of every released object, in the order of their pseudonyms."""
    # Synthetic images have no row here: they show no patient who could be in an earlier release.
    for one in released_fingerprints(state):
        fingerprint = _unpacked(
            state, "not-compared" if one.problem is None else one.problem, one.modality, one.value
        )
        yield one.names[0], next(all_paths([*one.names, one.suffix], "")), fingerprint


# -- the verdict --------------------------------------------------------------------------


def judge_overlap(context: RunContext, section: Overlap, earlier: EarlierReleases) -> None:
    """Compare the release with every earlier release, and apply the policy's action.

    Parameters
    ----------
    context : RunContext
        The context of the run, after fingerprinting.
    section : Overlap
        The section ``overlap`` of the policy.
    earlier : EarlierReleases
        The registry of earlier releases.
    """
    state, workspace = context.state, context.workspace
    if not OVERLAP_JUDGED.is_set(state):
        found = _compare_releases(context, section, earlier)
        with state.transaction():
            _apply_action(state, section, found)
            OVERLAP_JUDGED.set(state)
        # The table links patients across releases, so an anonymous run must not leave it.
        if found is not None and not workspace.anonymous:
            _write_pairs(workspace, found)
    remove_unreleased(state, context.staged)


def _write_pairs(workspace: Workspace, found: Found) -> None:
    from medsanitize.verifiers.reid.overlap.result_files import write_pairs

    with storage_errors():
        write_pairs(found, workspace.pairs)


def _compare_releases(context: RunContext, section: Overlap, earlier: EarlierReleases) -> Found | None:
    """Compare with each earlier release; return None if there is none."""
    from medsanitize.pipeline.engines.fingerprint_workers import calibrations_of
    from medsanitize.verifiers.reid.overlap.models import open_models
    from medsanitize.verifiers.reid.overlap.overlap import compare_with_each

    entries, folder = earlier.others(), context.workspace.state
    if not entries:
        return None
    models = open_models(paths_of(section))
    ours = release_fingerprint(context.state, folder)
    theirs = [
        _earlier_fingerprint(earlier, folder, models, entry, f"earlier release {number}")
        for number, entry in enumerate(entries, 1)
    ]
    given = calibrations_of(section.calibration, models)
    return compare_with_each(ours, theirs, models=models, calibrations=given, target=section.false_match_rate)


def release_fingerprint(state: State, folder: Path) -> DatasetFingerprint:
    """Return the fingerprint of the objects that currently have the outcome ``released``."""
    from medsanitize.verifiers.reid.overlap.dataset import ImageFile
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import collect_fingerprints

    rows = (
        (ImageFile(Path(), path, patient), fingerprint)
        for patient, path, fingerprint in released_fingerprints_of(state)
    )
    return collect_fingerprints("this release", rows, {}, folder)


def _earlier_fingerprint(
    earlier: EarlierReleases, folder: Path, models: Models, entry: RegistryEntry, title: str
) -> DatasetFingerprint:
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import collect_fingerprints

    missing = earlier.registry.missing(entry.name, entry.version, models.identity)
    unread = {"not-embedded": missing} if missing else {}
    return collect_fingerprints(title, registered(earlier, models, entry), unread, folder)


def registered(
    earlier: EarlierReleases, models: Models, entry: RegistryEntry
) -> Iterator[tuple[ImageFile, ImageFingerprint]]:
    """Yield the image and fingerprint of each object of a registered release.

    Parameters
    ----------
    earlier : EarlierReleases
        The registry and its key.
    models : Models
        The models whose embeddings are read.
    entry : RegistryEntry
        The registered release.
    """
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.dataset import ImageFile
    from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint

    for batch in earlier.registry.embeddings(entry, models.identity, earlier.vault()):
        kind = Modality(batch.modality)
        second = [None] * len(batch.patients) if batch.second is None else batch.second
        columns = (batch.patients, batch.instances, batch.prints, batch.first, second)
        for patient, path, print_, first, other in zip(*columns, strict=True):
            fingerprint = ImageFingerprint(
                perceptual_hash=print_ or None,
                modality=kind,
                embedding=first,
                verification_embedding=other,
                # The registry has one slice of each series: none of them is left out again.
                series=path,
            )
            yield ImageFile(Path(), path, patient), fingerprint


def _apply_action(state: State, section: Overlap, found: Found | None) -> None:
    result = OverlapResult(releases=0)
    if found is not None:
        ours = found.datasets[0]
        matched = sorted({ours.names[pair.patients[0]] for pair in found.pairs if pair.matched})
        misses = [one.verdict.miss for one in found.comparisons]
        bounds = [miss for miss in misses if miss is not None]
        result = OverlapResult(
            releases=len(found.comparisons),
            result=found.result,
            patients=len(matched),
            objects=_apply_to_patients(state, section.action, matched),
            # The bound of the release is its weakest one; without one of them nothing is claimed.
            miss=max(bounds) if len(bounds) == len(misses) else None,
            unclear=sum(one.verdict.result == "inconclusive" for one in found.comparisons),
            sentences=tuple(one.verdict.sentence for one in found.comparisons),
            limits=tuple(
                sorted({kind.value for one in found.comparisons for kind in one.evidence.thresholds})
            ),
        )
        if section.action == "fail" and (matched or found.result != "exclusive"):
            FAILED_OVERLAP.set(state)
    OVERLAP.store(state, result)


def _apply_to_patients(state: State, action: str, patients: Sequence[str]) -> int:
    """Rule out or flag every object of these patients; return the number of objects."""
    outcome = {"drop": "dropped", "quarantine": "quarantined"}.get(action)
    return rule_out_patients(state, patients, outcome, RULE) if outcome else flag_patients(state, patients)


def register_embeddings(state: State, folder: Path, earlier: EarlierReleases, entry: RegistryEntry) -> None:
    """Add the embeddings of this release to the registry, so that later releases can be compared with it.

    Parameters
    ----------
    state : State
        The state of the run, with the fingerprints.
    folder : Path
        Folder for temporary files.
    earlier : EarlierReleases
        The registry and its key.
    entry : RegistryEntry
        The entry of this release.
    """
    from medsanitize.pipeline.stages.register import embeddings_of

    ours = release_fingerprint(state, folder)
    identity, missing = FINGERPRINTED_BY.load(state) or "", sum(ours.unread.values())
    batches = embeddings_of(ours)
    earlier.registry.add_embeddings(entry, identity, batches, earlier.vault(), missing=missing)


def overlap_gate(state: State, section: Overlap | None) -> GateSummary:
    """Decide the gate ``overlap`` from the stored comparison."""
    # The details are public, so they state no size of an earlier release.
    name = "overlap"
    if section is None:
        return GateSummary(name, "not_run", "Other releases were not searched for the same patients.")
    compared = OVERLAP.load(state)
    if compared is None or not compared.releases:
        return GateSummary(
            name, "not_run", "The registry contains no release of another name to compare with."
        )
    found = f"Compared with {compared.releases} earlier releases: {compared.patients} patients match"
    if compared.patients:
        found += f", strictly or possibly ({section.action}, {compared.objects} objects)"
    found += "."
    if compared.miss is not None and not compared.patients:
        found += f" The probability of missing a patient who is in both is at most {compared.miss:.1%}."
    if compared.unclear:
        found += " The comparison is inconclusive: images, model or calibration do not allow a conclusion."
    if FAILED_OVERLAP.is_set(state):
        return GateSummary(name, "failed", found)
    settled = section.action in ("drop", "quarantine") and not compared.unclear
    passed = settled or (compared.result == "exclusive" and not compared.patients)
    return GateSummary(name, "passed" if passed else "flagged", found)
