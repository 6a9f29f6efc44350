"""The stage synthesize: synthetic images in place of originals, released only if the gate passes.

The originals are dropped first, and stay dropped. What is drawn waits sealed in the state, and depends on
key, generator, class and place alone, so whoever drew it, and however often the run was killed, the same
images are released. How many of which class were replaced decides how many are made; nothing else of the
originals goes in.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize import __version__
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches
from medsanitize.pipeline.runtime.progress import Progress
from medsanitize.pipeline.runtime.signals import Cancellation
from medsanitize.pipeline.stages.audit import audit_objects
from medsanitize.pipeline.stages.deduplicate import digest_compressed
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.findings import count_to_audit
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.result_types import Replaced
from medsanitize.pipeline.state.stage_results import SYNTHETIC
from medsanitize.pipeline.state.synthetics import SampledImages, SyntheticRow, add_synthetics
from medsanitize.pipeline.synthesis.draw import (
    SamplingResult,
    apportion,
    measure_quality,
    open_generator_once,
    require_memory,
    sample_images,
    sampling_counts,
    worker_sampler,
)
from medsanitize.pipeline.synthesis.reference_images import ReferenceSplits, reference_splits
from medsanitize.pipeline.synthesis.replaced_objects import (
    labels_by_path,
    replace_originals,
    table_of,
)
from medsanitize.pipeline.synthesis.write_objects import ExportItem, generate_batch, stage_batch
from medsanitize.policies.model import Policy, Synthesize
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.summary import FigureTable, SyntheticSummary
from medsanitize.sanitize.pseudonyms import SubKeys

if TYPE_CHECKING:
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.generators.privacy_gate.gate import PrivacyGate
    from medsanitize.generators.quality.evaluate import QualityResult
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification

_BATCH: Final = 32
_SHOWN: Final = 32
_MEASURED: Final = "those made for the release, before any review"
_MATCHED_NOBODY: Final = "those that match nobody; none is released"
_UNRELEASED: Final = "no synthetic image is released."


def check_synthesize(policy: Policy) -> None:
    """Refuse what cannot work before anything is read: models, table, labels.

    Raises
    ------
    UsageError
        When the table or a model cannot be used, or the generator cannot be asked for a label.
    IntegrityError
        When a model was changed.
    """
    section = policy.synthesize
    if section is None or section.replace == "none":
        return
    from medsanitize.generators.diffusion.generator import trained_on_dataset, training_of

    generator = open_generator_once(section.model, section.device)
    open_verifiers(section.retrieval, section.verifier)
    images = trained_on_dataset(training_of(section.model))
    if images is None:
        raise UsageError(
            "synthesize.model: nothing says which images the generator learnt from",
            "Name a folder that medsanitize train generator wrote, not going on from a foreign pipeline",
        )
    if len(images) > 1:
        raise UsageError(
            "synthesize.model: the generator learnt from other images before those of its last training",
            "Name one that was trained from the start, on all images that it is to learn from",
        )
    labels_by_path(section)
    unknown = set(section.labels) - set(generator.classes) if generator.classes else ()
    if unknown:
        raise UsageError(
            f"synthesize: the generator has no class for {len(unknown)} of the labels to replace",
            "Train one that has, or one without classes",
        )


def open_verifiers(retrieval: Path | None, verifier: Path) -> tuple[Retrieval, Verification]:
    """The models that find and score pairs of radiographs.

    Raises
    ------
    UsageError
        When the verification model is for other images.
    """
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.models import ModelPaths, open_models

    models = open_models(ModelPaths((retrieval,) if retrieval else (), (verifier,)))
    if Modality.RADIOGRAPH not in models.verification:
        raise UsageError(
            "The verification model is not for radiographs, and generators make those",
            "Name one that train verification made of radiographs",
        )
    return models.retrieval[Modality.RADIOGRAPH], models.verification[Modality.RADIOGRAPH]


def training_digests_of(retrieval: Path | None, verifier: Path) -> frozenset[str]:
    """Digests of the images that the models were trained on, as far as their folders say it.

    Raises
    ------
    IntegrityError
        When what one says cannot be understood, or one was changed.
    """
    from medsanitize.verifiers.reid.models.load import trained_on

    return frozenset(trained_on(folder) for folder in (retrieval, verifier) if folder is not None) - {""}


# -- the stage ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GateProgress:
    """Tells the run's progress of what the gate does."""

    progress: Progress

    def stage(self, name: str, total: int | None) -> None:
        """A part of the stage begins."""
        self.progress.stage(f"synthesize: {name}", total)

    def advance(self, objects: int) -> None:
        """So many more are done."""
        self.progress.advance(objects)

    def message(self, text: str) -> None:
        """Something to know."""
        self.progress.message(text)


def replace_images(
    state: State,
    policy: Policy,
    subkeys: SubKeys,
    engine: Engine,
    staging: Path,
    told: tuple[Progress, Cancellation],
    search: IdentifierSearch,
) -> IdentifierSearch:
    """Put synthetic images in place of originals, and audit them like all else; returns the audit's net."""
    if policy.synthesize is None or policy.synthesize.replace == "none":
        return search
    synthesize(state, policy, subkeys, engine, staging, told)
    if not count_to_audit(state):
        return search
    search = audit_objects(state, policy, subkeys, engine)
    digest_compressed(state, policy, engine)
    return search


def synthesize(
    state: State,
    policy: Policy,
    subkeys: SubKeys,
    engine: Engine,
    staging: Path,
    told: tuple[Progress, Cancellation],
) -> None:
    """Drop what is replaced, draw, judge, and stage what the gate lets pass; what is done stays done."""
    section = policy.synthesize
    if section is None:
        return
    replaced = replace_originals(state, policy, staging)
    if not SYNTHETIC.is_stored(state):
        if not replaced.objects:
            SYNTHETIC.store(state, None)
            return
        from medsanitize.generators.diffusion.generator import training_of

        generator = open_generator_once(section.model, section.device)
        wanted = requested_counts(replaced, section.per_patient, generator, training_of(section.model))
        gate, sides = _prepared(section, generator, wanted, told)
        if gate.needed:
            _keep(state, _undrawn(gate, replaced, wanted), ())
        else:
            drawn = _drawn(state, section, subkeys, engine, generator, gate, wanted, told)
            state.commit()
            measured = _measured(policy, generator, drawn, sides, told)
            if _has_page(policy):
                _write_page(policy, generator, drawn, sides, measured)
            _settle(state, engine, generator, drawn, replaced, measured)
    remove_unreleased(state, staging)


def requested_counts(
    replaced: Replaced, per_patient: int | None, generator: Generator, training: Mapping[str, Any]
) -> list[int]:
    """Images to make by class: as what was replaced, else as what the generator learnt from."""
    total = replaced.objects if per_patient is None else per_patient * replaced.patients
    if not generator.classes:
        return [total]
    known = [replaced.labels.get(name, 0) for name in generator.classes]
    if not any(known):
        known = [int(training.get("classes", {}).get(name, 0)) for name in generator.classes]
    return apportion(total, known if any(known) else [1] * len(known))


def _prepared(
    section: Synthesize, generator: Generator, wanted: Sequence[int], told: tuple[Progress, Cancellation]
) -> tuple[PrivacyGate, ReferenceSplits]:
    """The gate, calibrated, and the images that it knows."""
    from medsanitize.generators.diffusion.generator import training_of
    from medsanitize.generators.privacy_gate.gate import calibrate_gate
    from medsanitize.generators.privacy_gate.parameters import GateParameters, images_needed

    hears, stop = GateProgress(told[0]), told[1]
    images = max(sum(wanted), images_needed(section.bound))
    retrieval, verification = open_verifiers(section.retrieval, section.verifier)
    require_memory(images, generator, retrieval, verification)
    seen = training_digests_of(section.retrieval, section.verifier)
    sides = reference_splits(table_of(section), generator, training_of(section.model), seen, hears, stop)
    gate = calibrate_gate(
        sides.training,
        sides.holdout,
        sides.calibration,
        generator,
        retrieval,
        verification,
        images=images,
        terms=GateParameters(most=section.bound),
        hears=hears,
        stops=stop,
    )
    return gate, sides


def _undrawn(gate: PrivacyGate, replaced: Replaced, wanted: Sequence[int]) -> SyntheticSummary:
    """What is said where no image is drawn, since none could pass."""
    from medsanitize.generators.privacy_gate.statement import undrawn

    return SyntheticSummary(
        replaced=replaced.objects,
        asked=sum(wanted),
        released=0,
        removed=0,
        state="insufficient_data",
        label="",
        model=gate.subject.digests["generator"],
        bound=None,
        statement=undrawn(gate.subject, gate.needed),
        grid="",
        quality=(f"Not measured: {_UNRELEASED}",),
    )


def _drawn(
    state: State,
    section: Synthesize,
    subkeys: SubKeys,
    engine: Engine,
    generator: Generator,
    gate: PrivacyGate,
    wanted: Sequence[int],
    told: tuple[Progress, Cancellation],
) -> SamplingResult:
    from medsanitize.generators.export.provenance import seed_of

    hears = GateProgress(told[0])
    hears.stage("drawing", None)
    sampler = worker_sampler(engine, generate_batch, generator, SampledImages(state), hears.advance)
    seed = partial(seed_of, subkeys, generator.digest)
    return sample_images(wanted, gate, sampler, seed, most=section.bound)


def _has_page(policy: Policy) -> bool:
    """Whether the holder is shown patients: nothing that links to them outlives an anonymous run."""
    return policy.release.mode == "pseudonymous"


def _measured(
    policy: Policy,
    generator: Generator,
    drawn: SamplingResult,
    sides: ReferenceSplits,
    told: tuple[Progress, Cancellation],
) -> QualityResult:
    """How good the images are; what is neither released nor shown to the holder is not measured."""
    from medsanitize.generators.quality.evaluate import QualityResult

    shows = _has_page(policy)
    if not shows and not drawn.judged.verdict.passed:
        return QualityResult(None, _UNRELEASED, of_all=True)
    return measure_quality(drawn, sides.holdout, generator, GateProgress(told[0]), told[1], nearest=shows)


def page_path(policy: Policy) -> Path:
    """The page of the synthesis, for the holder alone: it shows patients."""
    return policy.state / f"{policy.release.name}-{policy.release.version}.synthetic.html"


def _write_page(
    policy: Policy,
    generator: Generator,
    drawn: SamplingResult,
    sides: ReferenceSplits,
    measured: QualityResult,
) -> None:
    from medsanitize.generators.export.report import ReportData, holder_page
    from medsanitize.generators.quality.evaluate import figures_section

    whose = _MEASURED if drawn.judged.verdict.passed else _MATCHED_NOBODY
    more = (figures_section(measured, whose), measured.beside)
    shown = ReportData(
        f"{policy.release.name} {policy.release.version}: synthetic images",
        sampling_counts(drawn),
        drawn.judged,
        drawn.images,
        sides.training,
        [generator.classes[one.label] if generator.classes else "" for one in drawn.first],
        tuple(section for section in more if section),
    )
    path = page_path(policy)
    write_atomic(path, holder_page(shown))
    with storage_errors():
        path.chmod(0o600)


def _settle(
    state: State,
    engine: Engine,
    generator: Generator,
    drawn: SamplingResult,
    replaced: Replaced,
    measured: QualityResult,
) -> None:
    """Stage the images if the gate passed, and keep what is said of it."""
    from medsanitize.generators.export.report import montage
    from medsanitize.generators.privacy_gate.parameters import LABEL
    from medsanitize.generators.privacy_gate.statement import statement

    verdict = drawn.judged.verdict
    passed = verdict.passed
    rows = list(_staged(engine, generator, drawn)) if passed else []
    grid = montage(drawn.pixels[:_SHOWN]) if passed and len(drawn.chosen) else b""
    quality, figures = _told_quality(measured, released=bool(rows))
    said = SyntheticSummary(
        replaced=replaced.objects,
        asked=sum(drawn.wanted),
        released=len(rows),
        removed=int((~drawn.judged.kept).sum()) + drawn.refused,
        state=verdict.state,
        label=LABEL if passed else "",
        model=generator.digest,
        bound=float(verdict.upper) if passed else None,
        statement=tuple(statement(verdict)),
        grid=base64.b64encode(grid).decode(),
        copy_rate=float(verdict.copy_rate) if passed else None,
        residual=float(verdict.residual) if passed else None,
        quality=quality,
        figures=figures,
    )
    _keep(state, said, rows)


def _told_quality(
    measured: QualityResult, *, released: bool
) -> tuple[tuple[str, ...], tuple[FigureTable, ...]]:
    """What the release says of the quality of its synthetic images: numbers, and nobody's image."""
    from medsanitize.generators.quality.evaluate import figures_section

    if not released:
        return (f"Not measured: {_UNRELEASED}",), ()
    section = figures_section(measured, _MEASURED)
    figures = (
        FigureTable(
            table.caption,
            table.head,
            tuple(tuple(cell if isinstance(cell, str) else cell.text for cell in row) for row in table.rows),
            table.texts,
        )
        for table in section.tables
    )
    return section.text, tuple(figures)


def _keep(state: State, said: SyntheticSummary, rows: Sequence[SyntheticRow]) -> None:
    """Keep what is said of the images, with the images."""
    with state.transaction():
        add_synthetics(state, rows)
        SYNTHETIC.store(state, said)


def _staged(engine: Engine, generator: Generator, drawn: SamplingResult) -> Iterator[SyntheticRow]:
    """Write what was chosen to the staging folder."""
    from medsanitize.generators.export.provenance import SyntheticProvenance

    verdict, classes = drawn.judged.verdict, generator.classes or ("",)
    bound = float(verdict.upper)
    said = [
        SyntheticProvenance(name, generator.digest, verdict.state, bound, __version__) for name in classes
    ]
    items = (
        ExportItem(one, image.tobytes(), said[one.label])
        for one, image in zip(drawn.chosen, drawn.pixels, strict=True)
    )
    for result in engine.map(stage_batch, batches(items, _BATCH)):
        if isinstance(result, WorkerCrashed):
            raise EnvironmentFailure(
                "A process that writes synthetic images died", "Use fewer workers, then run the command again"
            )
        yield from result
