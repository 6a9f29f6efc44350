"""The stage synthesize: synthetic images in place of originals, released only if the privacy gate passes.

Originals are dropped first and remain dropped. Sampled images are stored encrypted; they
depend only on key, generator, class and index, so interruptions and the number of workers do not change them.
The originals determine the number of images per class, and nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from medsanitize import __version__
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches
from medsanitize.pipeline.runtime.calibrations import read_gate_calibration
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.stages.audit import AuditStage
from medsanitize.pipeline.stages.deduplicate import DecodeStage
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.findings import count_to_audit
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.result_types import Replaced
from medsanitize.pipeline.state.stage_results import REPLACED, SYNTHETIC
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
from medsanitize.pipeline.synthesis.synthetic_gate import synthetic_gate
from medsanitize.pipeline.synthesis.tries import Try, TryRecord, draw_digest, marks_of
from medsanitize.pipeline.synthesis.write_objects import ExportItem, generate_batch, stage_batch
from medsanitize.policies.synthesize import Synthesize
from medsanitize.progress import Progress, StageTiming
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.summary import FigureTable, GateSummary, SyntheticSummary

if TYPE_CHECKING:
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.generators.privacy_gate.gate import PrivacyGate
    from medsanitize.generators.privacy_gate.parameters import GateParameters
    from medsanitize.generators.quality.evaluate import QualityResult
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification

_BATCH: Final = 32
_PAGE_IMAGES: Final = 32
_MEASURED: Final = "generated for the release, before any review"
_MATCHED_NOBODY: Final = "without a match; none is released"
_UNRELEASED: Final = "no synthetic image is released."


@dataclass(frozen=True, slots=True)
class SynthesizeStage(Stage):
    """Replace originals by synthetic images that pass the privacy gate, and audit those in turn."""

    section: Synthesize | None
    tries: Path
    audit: AuditStage
    decode: DecodeStage

    name: ClassVar = "synthesize"
    phase: ClassVar[Phase] = "set"
    invalidated_by: ClassVar = frozenset({"sanitize", "deduplicate", "overlap"})

    @property
    def replaces(self) -> bool:
        """Whether the policy replaces anything."""
        return self.section is not None and self.section.replace != "none"

    def check(self) -> None:
        """Refuse models, a table or labels that cannot be used."""
        if self.section is not None and self.replaces:
            check_synthesize(self.section)

    def pending(self, state: State) -> int | None:
        """Return 0 if the policy replaces nothing."""
        return None if self.replaces else 0

    def run(self, context: RunContext, advance: Advance) -> None:
        """Replace the originals, then audit and decode the synthetic images."""
        if self.section is None:
            return
        synthesize(context, self.section, self.tries)
        # The audit stage ran before this one, and no file may be published without an audit.
        if count_to_audit(context.state):
            self.audit.run(context, lambda _: None)
            if self.decode.pending(context.state) != 0:
                self.decode.run(context, lambda _: None)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the decisions on originals and synthetic images."""
        REPLACED.remove(state)
        SYNTHETIC.remove(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gate ``synthetic images``; a plan generates no images."""
        if judged.is_plan and self.replaces:
            return (GateSummary("synthetic images", "not_run", "A plan makes no images."),)
        return (synthetic_gate(judged.state, replaces=self.replaces),)


def check_synthesize(section: Synthesize) -> None:
    """Check models, table and labels, before an input is read.

    Raises
    ------
    UsageError
        The table or a model cannot be used, or the generator has no class for a label.
    IntegrityError
        A model was changed.
    """
    from medsanitize.generators.diffusion.generator import trained_on_dataset, training_of

    generator = open_generator_once(section.model, section.device)
    open_verifiers(section.retrieval, section.verifier)
    images = trained_on_dataset(training_of(section.model))
    if images is None:
        raise UsageError(
            "synthesize.model: the training images of the generator are not recorded",
            "Name a folder that medsanitize train generator wrote without starting from a foreign pipeline",
        )
    if len(images) > 1:
        raise UsageError(
            "synthesize.model: the generator was first trained on other images than in its last training",
            "Name a generator that was trained from scratch on all its images",
        )
    check_privacy(section, generator)
    if section.federated_calibration is not None:
        read_gate_calibration(section.federated_calibration)
    labels_by_path(section)
    unknown = set(section.labels) - set(generator.classes) if generator.classes else ()
    if unknown:
        raise UsageError(
            f"synthesize: the generator has no class for {len(unknown)} of the labels to replace",
            "Train one that has, or one without classes",
        )


def check_privacy(section: Synthesize, generator: Generator) -> None:
    """Check the differential privacy of the generator against the ceiling of the policy.

    Raises
    ------
    UsageError
        It has none, or its epsilon is larger.
    """
    from medsanitize.verifiers.reid.training.privacy_accounting import is_within

    if section.epsilon is not None and not is_within(generator.privacy, section.epsilon):
        raise UsageError(
            f"synthesize.epsilon: the generator does not promise each patient an epsilon of at most"
            f" {section.epsilon:g}",
            "Name one that train generator --epsilon wrote with this epsilon or a smaller one",
        )


def open_verifiers(retrieval: Path | None, verifier: Path) -> tuple[Retrieval, Verification]:
    """Open the retrieval and the verification model for radiographs.

    Parameters
    ----------
    retrieval : Path or None
        Folder of the retrieval model; None uses the packaged one.
    verifier : Path
        Folder of the verification model.

    Raises
    ------
    UsageError
        The verification model is not for radiographs.
    """
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.models import ModelPaths, open_models

    models = open_models(ModelPaths((retrieval,) if retrieval else (), (verifier,)))
    if Modality.RADIOGRAPH not in models.verification:
        raise UsageError(
            "The verification model is not for radiographs, but generators produce radiographs",
            "Name one that train verification made of radiographs",
        )
    return models.retrieval[Modality.RADIOGRAPH], models.verification[Modality.RADIOGRAPH]


def training_digests_of(retrieval: Path | None, verifier: Path) -> frozenset[str]:
    """Return the digests of the images that the models were trained on, as far as they are recorded.

    Raises
    ------
    IntegrityError
        A model was changed, or its record is damaged.
    """
    from medsanitize.verifiers.reid.models.load import trained_on

    return frozenset(trained_on(folder) for folder in (retrieval, verifier) if folder is not None) - {""}


# -- the stage ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GateProgress:
    """Forwards the progress of the privacy gate to the progress of the run."""

    progress: Progress

    def stage(self, name: str, total: int | None) -> None:
        """Start a part of the stage."""
        self.progress.stage(f"synthesize: {name}", total)

    def advance(self, objects: int) -> None:
        """Count further objects as done."""
        self.progress.advance(objects)

    def finished(self, timing: StageTiming) -> None:
        """End a part of the stage."""
        self.progress.finished(timing)

    def message(self, text: str) -> None:
        """Report a message."""
        self.progress.message(text)


def synthesize(context: RunContext, section: Synthesize, tries: Path) -> None:
    """Drop the originals, sample synthetic images, apply the privacy gate, and stage the accepted images.

    Parameters
    ----------
    context : RunContext
        The context of the run.
    section : Synthesize
        The section ``synthesize`` of the policy.
    tries : Path
        The record of tries.
    """
    state = context.state
    # First, so that no failure below can leave an original in the release.
    replaced = replace_originals(state, section, context.staged)
    if not SYNTHETIC.is_stored(state):
        if not replaced.objects:
            SYNTHETIC.store(state, None)
            return
        from medsanitize.generators.diffusion.generator import training_of

        generator = open_generator_once(section.model, section.device)
        wanted = requested_counts(replaced, section.per_patient, generator, training_of(section.model))
        record = TryRecord(tries, None if context.workspace.anonymous else state.seal)
        gate, sides, judged = _prepared(context, section, generator, wanted, record)
        # Sampling could not change the verdict.
        if gate.needed:
            _keep(state, _without_images(gate, replaced, wanted), ())
        else:
            # Before any image is judged: a try that was interrupted after its verdict counts as well.
            record.add(judged, gate.terms.attempt)
            models = gate.verifiers
            planned = max(sum(wanted), gate.plan.images)
            require_memory(planned, generator, models.retrieval, models.verification)
            drawn = _sample_and_judge(context, generator, gate, wanted)
            state.commit()
            measured = _measured(context, generator, drawn, sides)
            if not context.workspace.anonymous:
                _write_page(context.workspace, generator, drawn, sides, measured)
            _store_result(context, generator, drawn, replaced, measured)
    remove_unreleased(state, context.staged)


def requested_counts(
    replaced: Replaced, per_patient: int | None, generator: Generator, training: Mapping[str, Any]
) -> list[int]:
    """Return the number of images to generate by class.

    Classes have the proportions of the replaced images, else of the generator's training images.

    Parameters
    ----------
    replaced : Replaced
        Counts of the replaced originals.
    per_patient : int or None
        Images per replaced patient; None generates one image per replaced image.
    generator : Generator
        Gives the classes.
    training : mapping
        The training record of the generator.
    """
    total = replaced.objects if per_patient is None else per_patient * replaced.patients
    if not generator.classes:
        return [total]
    known = [replaced.labels.get(name, 0) for name in generator.classes]
    if not any(known):
        known = [int(training.get("classes", {}).get(name, 0)) for name in generator.classes]
    return apportion(total, known if any(known) else [1] * len(known))


def _prepared(
    context: RunContext,
    section: Synthesize,
    generator: Generator,
    wanted: Sequence[int],
    record: TryRecord,
) -> tuple[PrivacyGate, ReferenceSplits, Try]:
    """The gate, calibrated, the images that it knows, and the try that it is calibrated for."""
    from medsanitize.generators.diffusion.generator import training_of
    from medsanitize.generators.privacy_gate.gate import calibrate_gate

    progress, stop = GateProgress(context.progress), context.cancellation
    images = sum(wanted)
    retrieval, verification = open_verifiers(section.retrieval, section.verifier)
    require_memory(images, generator, retrieval, verification)
    seen = training_digests_of(section.retrieval, section.verifier)
    sides = reference_splits(table_of(section), generator, training_of(section.model), seen, progress, stop)
    terms = gate_terms(section)
    calibrated = section.federated_calibration
    pooled = None if calibrated is None else read_gate_calibration(calibrated)
    facts = {"wanted": list(wanted), "terms": asdict(terms)}
    judged = _try_of(context, generator, (retrieval, verification), sides, facts)
    gate = calibrate_gate(
        sides.training,
        sides.holdout,
        sides.calibration,
        generator,
        retrieval,
        verification,
        images=images,
        terms=replace(terms, attempt=record.number(judged)),
        progress=progress,
        cancellation=stop,
        pooled=pooled,
    )
    return gate, sides, judged


def _try_of(
    context: RunContext,
    generator: Generator,
    models: Sequence[Retrieval | Verification],
    sides: ReferenceSplits,
    facts: Mapping[str, Any],
) -> Try:
    """Return the try of this run; a run that is repeated with the same key and settings has the same."""
    from medsanitize.generators.export.provenance import seed_of

    # An anonymous run leaves no keyed trace of patients: the model's folder has this digest as well.
    marks = (
        frozenset([sides.digests[0]])
        if context.workspace.anonymous
        else marks_of(sides.patients, sides.files, context.state.seal)
    )
    seed = seed_of(context.subkeys, generator.digest, 0, 0)
    digests = [generator.digest, *(one.digest for one in models), *sides.digests]
    return Try(draw_digest({"digests": digests, "seed": str(seed), **facts}), marks)


def gate_terms(section: Synthesize) -> GateParameters:
    """Return the parameters of the gate that the policy sets."""
    from medsanitize.generators.privacy_gate.parameters import GateParameters

    limit = section.reidentification
    return GateParameters(
        residual=section.residual,
        inconclusive=section.inconclusive == "accept",
        reidentification=None if limit is None else limit.limit,
    )


def _without_images(gate: PrivacyGate, replaced: Replaced, wanted: Sequence[int]) -> SyntheticSummary:
    """Return the public facts for a run that samples no image, because none could pass."""
    from medsanitize.generators.privacy_gate.statement import undrawn

    return SyntheticSummary(
        replaced=replaced.objects,
        requested=sum(wanted),
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


def _sample_and_judge(
    context: RunContext, generator: Generator, gate: PrivacyGate, wanted: Sequence[int]
) -> SamplingResult:
    from medsanitize.generators.export.provenance import seed_of

    progress = GateProgress(context.progress)
    progress.stage("drawing", None)
    sampler = worker_sampler(
        context.engine, generate_batch, generator, SampledImages(context.state), progress.advance
    )
    seed = partial(seed_of, context.subkeys, generator.digest)
    return sample_images(wanted, gate, sampler, seed)


def _measured(
    context: RunContext, generator: Generator, drawn: SamplingResult, sides: ReferenceSplits
) -> QualityResult:
    """Measure the quality of images that are released or shown to the data controller."""
    from medsanitize.generators.quality.evaluate import QualityResult

    # Nothing that shows patients may outlive an anonymous run.
    shows = not context.workspace.anonymous
    if not shows and not drawn.judged.verdict.passed:
        return QualityResult(None, _UNRELEASED, of_all=True)
    return measure_quality(
        drawn, sides.holdout, generator, GateProgress(context.progress), context.cancellation, nearest=shows
    )


def _write_page(
    workspace: Workspace,
    generator: Generator,
    drawn: SamplingResult,
    sides: ReferenceSplits,
    measured: QualityResult,
) -> None:
    from medsanitize.generators.export.synthesis_report import ReportData, holder_page
    from medsanitize.generators.quality.evaluate import figures_section

    whose = _MEASURED if drawn.judged.verdict.passed else _MATCHED_NOBODY
    more = (figures_section(measured, whose), measured.beside)
    shown = ReportData(
        f"{workspace.name} {workspace.version}: synthetic images",
        sampling_counts(drawn),
        drawn.judged,
        drawn.images,
        sides.training,
        [generator.classes[one.label] if generator.classes else "" for one in drawn.first],
        tuple(section for section in more if section),
    )
    path = workspace.synthetic_page
    write_atomic(path, holder_page(shown))
    with storage_errors():
        path.chmod(0o600)


def _store_result(
    context: RunContext,
    generator: Generator,
    drawn: SamplingResult,
    replaced: Replaced,
    measured: QualityResult,
) -> None:
    """Stage the images if the gate passed, and store the public facts."""
    from medsanitize.generators.diffusion.privacy_statement import privacy_statement
    from medsanitize.generators.export.synthesis_report import montage
    from medsanitize.generators.privacy_gate.parameters import LABEL
    from medsanitize.generators.privacy_gate.statement import statement

    verdict = drawn.judged.verdict
    passed = verdict.passed
    rows = list(_staged(context.engine, generator, drawn)) if passed else []
    grid = montage(drawn.pixels[:_PAGE_IMAGES]) if passed and len(drawn.chosen) else b""
    quality, figures = _quality_sentences(measured, released=bool(rows))
    said = SyntheticSummary(
        replaced=replaced.objects,
        requested=sum(drawn.wanted),
        released=len(rows),
        removed=int((~drawn.judged.kept).sum()) + drawn.refused,
        state=verdict.state,
        label=LABEL if passed else "",
        model=generator.digest,
        bound=float(verdict.upper) if passed else None,
        statement=(*statement(verdict), *privacy_statement(generator.privacy)),
        grid=base64.b64encode(grid).decode(),
        copy_rate=float(verdict.copy_rate) if passed else None,
        residual=float(verdict.residual) if passed else None,
        quality=quality,
        figures=figures,
    )
    _keep(context.state, said, rows)


def _quality_sentences(
    measured: QualityResult, *, released: bool
) -> tuple[tuple[str, ...], tuple[FigureTable, ...]]:
    """Return the public sentences and figures on quality; they contain no image of a patient."""
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
    """Store the public facts together with the rows of the images."""
    # One transaction: facts without their images, or images without facts, would be released.
    with state.transaction():
        add_synthetics(state, rows)
        SYNTHETIC.store(state, said)


def _staged(engine: Engine, generator: Generator, drawn: SamplingResult) -> Iterator[SyntheticRow]:
    """Write the accepted images to the staging folder, and yield their rows."""
    from medsanitize.generators.export.provenance import SyntheticProvenance

    verdict, classes = drawn.judged.verdict, generator.classes or ("",)
    bounds = float(verdict.upper), float(verdict.residual)
    said = [
        SyntheticProvenance(name, generator.digest, verdict.state, bounds[0], __version__, bounds[1])
        for name in classes
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
