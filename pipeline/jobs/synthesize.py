"""The command ``synthesize``: samples images, passes them through the gate, and writes those that remain."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize import __version__
from medsanitize.errors import UsageError
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.runtime.calibrations import read_gate_calibration
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.pipeline.synthesis.draw import (
    SamplerWorkers,
    SamplingResult,
    apportion,
    measure_quality,
    open_generator_once,
    require_memory,
    sample_batch,
    sample_images,
    sampling_counts,
    worker_sampler,
)
from medsanitize.pipeline.synthesis.reference_images import ReferenceSplits, ReferenceTable, reference_splits
from medsanitize.pipeline.synthesis.synthesize_stage import open_verifiers, training_digests_of
from medsanitize.pipeline.synthesis.text_search import default_text_search, without_text
from medsanitize.pipeline.synthesis.tries import Try, TryRecord, draw_digest, marks_of
from medsanitize.policies.model import Pseudonyms
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.sanitize.pseudonyms import SubKeys, derive_sub_keys

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.generators.export.provenance import Form, SyntheticProvenance
    from medsanitize.generators.privacy_gate.gate import PrivacyGate
    from medsanitize.generators.privacy_gate.parameters import GateParameters
    from medsanitize.generators.privacy_gate.verdict import GateState
    from medsanitize.generators.quality.evaluate import QualityResult
    from medsanitize.verifiers.html.page import Section
    from numpy.typing import NDArray

IMAGES: Final = "images"
UNVETTED: Final = "unvetted"
"""Folder of images that did not pass the gate, and part of the name of each of their files."""
RESULT: Final = "verdict.json"
PAGE: Final = "synthesis.html"
LABELS: Final = "labels.csv"
TRIES: Final = ".tries"
"""Ending of the record of tries beside the table of reference images."""
_SAMPLE_FOLDER: Final = ".drawn"
_CONTACT_SHEET: Final = "samples.png"
_SHEET_IMAGES: Final = 64
_NOT_SAMPLED: Final = "No image was sampled."


@dataclass(frozen=True, slots=True, repr=False)
class SynthesisRequest:
    """The arguments of the command ``synthesize``.

    Attributes
    ----------
    model, verifier, retrieval
        Folders of models; without a retrieval model, packaged features find the nearest images.
    table
        The images of the generator's training split, and the held-out ones.
    count, balanced
        Number of images; the same number per class, or the shares of the training images.
    seed
        Random seed.
    residual, inconclusive, reidentification
        Parameters of the gate; see `medsanitize.generators.privacy_gate.parameters.GateParameters`.
    federated_calibration
        Calibration of the gate by the patients of several hospitals, in place of the calibration split.
    unvetted
        Whether to write images also if the gate does not pass, marked as not vetted.
    tries
        The record of tries; by default beside the table of reference images.
    form, device, output
        File format of the images, device of the generator, and output folder, which will contain PHI.
    """

    model: Path
    verifier: Path
    retrieval: Path | None
    table: ReferenceTable
    count: int
    balanced: bool
    seed: int
    residual: float
    inconclusive: bool
    reidentification: float | None
    unvetted: bool
    federated_calibration: Path | None
    tries: Path | None
    form: Form
    device: str
    output: Path


@dataclass(frozen=True, slots=True, repr=False)
class Synthesis:
    """The result of a synthesis.

    Attributes
    ----------
    drawn
        The sampled images and their verdict; None if nothing was sampled because no image could have passed.
    said
        The statement on the verdict, line by line.
    needed
        Data missing for a verdict.
    wanted, classes
        Requested images by class, and the classes.
    excluded
        Excluded rows of the table, by reason.
    traced
        Whether the generator's folder states that it was trained on exactly the training images.
    blanked, with_text
        Images in which burned-in text was blanked, and images left out because it could not be.
    written, vetted
        Images written, and whether the gate passed them.
    measured
        Quality.
    """

    drawn: SamplingResult | None
    said: tuple[str, ...]
    needed: tuple[str, ...]
    wanted: tuple[int, ...]
    classes: tuple[str, ...]
    excluded: Mapping[str, int]
    traced: bool
    written: int
    measured: QualityResult
    blanked: int = 0
    with_text: int = 0

    @property
    def state(self) -> GateState:
        """Verdict of the gate."""
        return self.drawn.judged.verdict.state if self.drawn else "insufficient_data"

    @property
    def vetted(self) -> bool:
        """Whether the gate passed the images that are written."""
        return self.state == "passed"

    @property
    def shortfall(self) -> int:
        """Number of requested images that are missing."""
        return sum(self.wanted) - self.written

    def facts(self) -> dict[str, Any]:
        """Return verdict, counts and quality as plain data, without patients."""
        drawn, measured = self.drawn, self.measured
        of = "all that were drawn" if measured.of_all else "written"
        undrawn = {"state": self.state, "passed": False, "label": "", "needed": list(self.needed)}
        return {
            "verdict": json.loads(drawn.judged.verdict.to_json()) if drawn else undrawn,
            "statement": list(self.said),
            "requested": sum(self.wanted),
            "by_class": dict(zip(self.classes or ("",), self.wanted, strict=True)),
            "judged": len(drawn.first) if drawn else 0,
            "removed": int((~drawn.judged.kept).sum()) if drawn else 0,
            "drawn_again": drawn.again if drawn else 0,
            "removed_again": drawn.refused if drawn else 0,
            "text_blanked": self.blanked,
            "left_out_with_text": self.with_text,
            "shortfall": self.shortfall,
            "written": self.written,
            "vetted": self.vetted,
            "training_images_confirmed": self.traced,
            "excluded": dict(self.excluded),
            "quality": measured.quality.to_json() if measured.quality else None,
            "quality_of": of if measured.quality else None,
            "quality_not_made": measured.unmeasured,
        }


class FolderSampleStore:
    """Keeps sampled images in the output folder until all of them are judged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        """Return the image of a name, or None."""
        path = self._folder / name
        return path.read_bytes() if path.is_file() else None

    def put(self, name: str, data: bytes) -> None:
        """Store an image."""
        write_atomic(self._folder / name, data)


def run_synthesize(
    request: SynthesisRequest, progress: Progress, cancellation: Cancellation, *, workers: int
) -> Synthesis:
    """Generate the images; after a cancellation, the same call resumes.

    Raises
    ------
    UsageError
        Models and table cannot be used together, or the output folder contains anything else.
    IntegrityError
        A model was changed.
    """
    check_extra("generate")
    check_extra("pixels")
    from medsanitize.generators.diffusion.generator import trained_on_dataset, training_of
    from medsanitize.generators.diffusion.privacy_statement import privacy_statement
    from medsanitize.generators.privacy_gate.gate import calibrate_gate
    from medsanitize.generators.privacy_gate.statement import statement

    _check_output(request.output)
    generator, training = open_generator_once(request.model, request.device), training_of(request.model)
    finds, scores = open_verifiers(request.retrieval, request.verifier)
    # Checked before hours of sampling.
    require_memory(request.count, generator, finds, scores)
    seen = training_digests_of(request.retrieval, request.verifier)
    sides = reference_splits(request.table, generator, training, seen, progress, cancellation)
    wanted = _counts_per_class(request, generator, sides)
    record = TryRecord(record_of(request.tries, request.table.table), None)
    calibrated = request.federated_calibration
    pooled = None if calibrated is None else read_gate_calibration(calibrated)
    judged = _try_of(request, (generator.digest, finds.digest, scores.digest), sides, wanted)
    gate = calibrate_gate(
        sides.training,
        sides.holdout,
        sides.calibration,
        generator,
        finds,
        scores,
        images=request.count,
        terms=replace(_terms(request), attempt=record.number(judged)),
        progress=progress,
        cancellation=cancellation,
        pooled=pooled,
    )
    learned = trained_on_dataset(training)
    traced = learned is not None and len(learned) == 1
    if gate.needed and not request.unvetted:
        return _undrawn(request, gate, wanted, generator, sides, traced=traced)
    # Before any image is judged, also if none can pass: whoever sees the matches could choose among draws.
    record.add(judged, gate.terms.attempt)
    drawn = _draw(request, gate, generator, wanted, progress, cancellation, workers=workers)
    measured = measure_quality(drawn, sides.holdout, generator, progress, cancellation, nearest=True)
    shown = _without_text(drawn, progress, cancellation) if _may_write(request, drawn) else _NOTHING
    _write_images(request, drawn, shown, generator, _keys(request.seed))
    verdict = drawn.judged.verdict
    said = (*statement(verdict), *privacy_statement(generator.privacy), _recorded(record, judged))
    found = Synthesis(
        drawn,
        said,
        verdict.needed,
        tuple(wanted),
        generator.classes,
        sides.excluded,
        traced,
        len(shown.images),
        measured,
        shown.blanked,
        shown.left_out,
    )
    _write(request, drawn, found, generator, sides)
    return found


def _undrawn(
    request: SynthesisRequest,
    gate: PrivacyGate,
    wanted: Sequence[int],
    generator: Generator,
    sides: ReferenceSplits,
    *,
    traced: bool,
) -> Synthesis:
    """Write why no image is generated: the gate could not pass with these patients."""
    from medsanitize.generators.privacy_gate.statement import undrawn
    from medsanitize.generators.quality.evaluate import QualityResult

    said, nothing = undrawn(gate.subject, gate.needed), QualityResult(None, _NOT_SAMPLED, of_all=True)
    found = Synthesis(
        None, said, gate.needed, tuple(wanted), generator.classes, sides.excluded, traced, 0, nothing
    )
    write_atomic(request.output / RESULT, document_json(found.facts()))
    return found


def record_of(chosen: Path | None, table: Path) -> Path:
    """Return the file of tries: the chosen one, or one beside the table, which stays with the holder."""
    return chosen or table.with_name(f"{table.name}{TRIES}")


def _recorded(record: TryRecord, judged: Try) -> str:
    place, digest = record.entry(judged)
    # A deleted record begins again: whoever compares verdicts sees it.
    begun = ", which begins with it" if place == 1 else ""
    return f"This draw is entry {place:,} of the record of tries{begun}; digest of the entry: {digest}."


def _terms(request: SynthesisRequest) -> GateParameters:
    from medsanitize.generators.privacy_gate.parameters import GateParameters

    return GateParameters(
        residual=request.residual,
        inconclusive=request.inconclusive,
        reidentification=request.reidentification,
    )


def _try_of(
    request: SynthesisRequest, models: Sequence[str], sides: ReferenceSplits, wanted: Sequence[int]
) -> Try:
    """Return the try of this call; the same call has the same, whatever its output folder and workers."""
    facts = {
        "digests": [*models, *sides.digests],
        "seed": request.seed,
        "wanted": list(wanted),
        "terms": asdict(_terms(request)),
    }
    return Try(draw_digest(facts), marks_of(sides.patients, sides.files, None))


def _draw(
    request: SynthesisRequest,
    gate: PrivacyGate,
    generator: Generator,
    wanted: Sequence[int],
    progress: Progress,
    cancellation: Cancellation,
    *,
    workers: int,
) -> SamplingResult:
    from medsanitize.generators.export.provenance import seed_of

    planned = max(request.count, 0 if gate.needed else gate.plan.images)
    require_memory(planned, generator, gate.verifiers.retrieval, gate.verifiers.verification)
    with LocalEngine(SamplerWorkers(request.model, request.device), workers, cancellation) as engine:
        progress.stage("draw", planned)
        store = FolderSampleStore(request.output / _SAMPLE_FOLDER)
        sampler = worker_sampler(engine, sample_batch, generator, store, progress.advance)
        return sample_images(wanted, gate, sampler, partial(seed_of, _keys(request.seed), generator.digest))


def _keys(seed: int) -> SubKeys:
    """Derive keys from the seed, so that the same seed gives the same images and UIDs."""
    return derive_sub_keys(sha256(f"synthesize/{seed}".encode()).digest(), scope="synthesize")


def _check_output(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise UsageError("The output is not a folder", "Choose a new folder")
    # The samples of an interrupted call are the only content that may be there.
    if output.is_dir() and {path.name for path in output.iterdir()} - {_SAMPLE_FOLDER}:
        raise UsageError("The output folder is not empty", "Choose a new folder")


def _counts_per_class(request: SynthesisRequest, generator: Generator, sides: ReferenceSplits) -> list[int]:
    import numpy as np

    classes = max(1, len(generator.classes))
    counts = np.bincount(sides.training.classes, minlength=classes).tolist()
    return apportion(request.count, [1] * classes if request.balanced else counts)


# -- what is written --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class _Shown:
    """Images to write, by their place among the chosen ones, after the search for text."""

    images: Mapping[int, NDArray[np.uint8]]
    blanked: int
    left_out: int


_NOTHING: Final = _Shown({}, 0, 0)


def _may_write(request: SynthesisRequest, drawn: SamplingResult) -> bool:
    """Whether images are written: nothing that a policy would not release, unless its holder asks for it."""
    return drawn.judged.verdict.passed or request.unvetted


def _without_text(drawn: SamplingResult, progress: Progress, cancellation: Cancellation) -> _Shown:
    """Blank burned-in text; images in which that is impossible are left out."""
    progress.stage("search text", len(drawn.pixels))
    sanitizer, images, blanked = default_text_search(), {}, 0
    for place, image in enumerate(drawn.pixels):
        cancellation.check()
        if (found := without_text(sanitizer, image)) is not None:
            images[place], regions = found
            blanked += regions > 0
        progress.advance(1)
    return _Shown(images, blanked, len(drawn.pixels) - len(images))


def _write_images(
    request: SynthesisRequest, drawn: SamplingResult, shown: _Shown, generator: Generator, keys: SubKeys
) -> None:
    """Write the images; those that did not pass the gate are marked wherever there is room."""
    import numpy as np
    from medsanitize.generators.export.provenance import SyntheticProvenance
    from medsanitize.generators.export.synthesis_report import montage

    verdict = drawn.judged.verdict
    if not shown.images:
        return
    # A bound is stated only if the gate established it.
    bound, residual = (float(verdict.upper), float(verdict.residual)) if verdict.passed else (None, None)
    classes, place = generator.classes or ("",), IMAGES if verdict.passed else UNVETTED
    mark = "" if verdict.passed else f".{UNVETTED}"
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(("file", "label"))
    for number, image in shown.images.items():
        one = drawn.chosen[number]
        said = SyntheticProvenance(
            classes[one.label], generator.digest, verdict.state, bound, __version__, residual
        )
        names = _image_files(request.form, image, keys, said, one)
        for suffix, data in names.items():
            write_atomic(request.output / place / f"{number + 1:06d}{mark}{suffix}", data)
        rows.writerow((f"{place}/{number + 1:06d}{mark}{next(iter(names))}", said.label))
    write_atomic(_marked(request.output / LABELS, mark), table.getvalue().encode("utf-8"))
    first = np.stack(list(shown.images.values())[:_SHEET_IMAGES])
    write_atomic(_marked(request.output / _CONTACT_SHEET, mark), montage(first))


def _marked(path: Path, mark: str) -> Path:
    return path.with_name(f"{path.stem}{mark}{path.suffix}")


def _image_files(
    form: Form, image: Any, keys: SubKeys, said: SyntheticProvenance, one: Any
) -> dict[str, bytes]:
    from medsanitize.generators.export.dicom import dicom_object
    from medsanitize.generators.export.png import png_object, sidecar
    from medsanitize.generators.export.provenance import synthetic_identifiers

    if form == "png":
        return {".png": png_object(image), ".json": sidecar(said)}
    names = synthetic_identifiers(keys, Pseudonyms(), form, model=said.model, label=one.label, seed=one.seed)
    return {".dcm": dicom_object(image, names, said, form)}


def _write(
    request: SynthesisRequest,
    drawn: SamplingResult,
    found: Synthesis,
    generator: Generator,
    sides: ReferenceSplits,
) -> None:
    from medsanitize.generators.export.synthesis_report import ReportData, holder_page

    names = [generator.classes[one.label] if generator.classes else "" for one in drawn.first]
    shown = ReportData(
        "Synthetic images",
        sampling_counts(drawn),
        drawn.judged,
        drawn.images,
        sides.training,
        names,
        _more(found),
    )
    write_atomic(request.output / PAGE, holder_page(shown))
    write_atomic(request.output / RESULT, document_json(found.facts()))
    with storage_errors():
        # mode 0600: the page shows training images next to synthetic ones.
        (request.output / PAGE).chmod(0o600)
        # Removed last: until then an interrupted call resumes from it.
        shutil.rmtree(request.output / _SAMPLE_FOLDER, ignore_errors=True)


def _more(found: Synthesis) -> tuple[Section, ...]:
    from medsanitize.generators.quality.evaluate import figures_section

    whose = "those that were written" if found.written else "those that matched nobody; none is written"
    section = figures_section(found.measured, whose)
    beside = found.measured.beside
    return (section,) if beside is None else (section, beside)
