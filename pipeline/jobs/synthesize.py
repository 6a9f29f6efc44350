"""The command ``synthesize``: samples images, passes them through the gate, and writes those that remain."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize import __version__
from medsanitize.errors import UsageError
from medsanitize.pipeline.engines.base import LocalEngine
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
from medsanitize.policies.model import Pseudonyms
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.sanitize.pseudonyms import SubKeys, derive_sub_keys

if TYPE_CHECKING:
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.generators.export.provenance import Form, SyntheticProvenance
    from medsanitize.generators.quality.evaluate import QualityResult
    from medsanitize.verifiers.html.page import Section

IMAGES: Final = "images"
RESULT: Final = "verdict.json"
PAGE: Final = "synthesis.html"
LABELS: Final = "labels.csv"
_SAMPLE_FOLDER: Final = ".drawn"
_CONTACT_SHEET: Final = "samples.png"
_SHEET_IMAGES: Final = 64


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
    bound
        Largest acceptable upper bound of the match rate.
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
    bound: float
    form: Form
    device: str
    output: Path


@dataclass(frozen=True, slots=True, repr=False)
class Synthesis:
    """The result of a synthesis.

    ``traced``: the generator's folder states that it was trained on exactly the training images.
    """

    drawn: SamplingResult
    classes: tuple[str, ...]
    excluded: Mapping[str, int]
    traced: bool
    written: int
    measured: QualityResult

    def facts(self) -> dict[str, Any]:
        """Return verdict, counts and quality as plain data, without patients."""
        drawn, measured = self.drawn, self.measured
        of = "all that were drawn" if measured.of_all else "written"
        return {
            "verdict": json.loads(drawn.judged.verdict.to_json()),
            "requested": sum(drawn.wanted),
            "by_class": dict(zip(self.classes or ("",), drawn.wanted, strict=True)),
            "judged": len(drawn.first),
            "removed": int((~drawn.judged.kept).sum()),
            "drawn_again": drawn.again,
            "removed_again": drawn.refused,
            "shortfall": drawn.shortfall,
            "written": self.written,
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
    from medsanitize.generators.diffusion.generator import trained_on_dataset, training_of
    from medsanitize.generators.export.provenance import seed_of
    from medsanitize.generators.privacy_gate.gate import calibrate_gate
    from medsanitize.generators.privacy_gate.parameters import GateParameters, images_needed

    _check_output(request.output)
    generator, training = open_generator_once(request.model, request.device), training_of(request.model)
    finds, scores = open_verifiers(request.retrieval, request.verifier)
    # More images than requested if the bound needs them: zero matches among n bound the rate by about 3/n.
    images = max(request.count, images_needed(request.bound))
    # Checked before hours of sampling.
    require_memory(images, generator, finds, scores)
    seen = training_digests_of(request.retrieval, request.verifier)
    sides = reference_splits(request.table, generator, training, seen, progress, cancellation)
    wanted = _counts_per_class(request, generator, sides)
    gate = calibrate_gate(
        sides.training,
        sides.holdout,
        sides.calibration,
        generator,
        finds,
        scores,
        images=images,
        terms=GateParameters(most=request.bound),
        progress=progress,
        cancellation=cancellation,
    )
    keys = _keys(request.seed)
    with LocalEngine(SamplerWorkers(request.model, request.device), workers, cancellation) as engine:
        progress.stage("draw", images)
        store = FolderSampleStore(request.output / _SAMPLE_FOLDER)
        sampler = worker_sampler(engine, sample_batch, generator, store, progress.advance)
        drawn = sample_images(
            wanted, gate, sampler, partial(seed_of, keys, generator.digest), most=request.bound
        )
    measured = measure_quality(drawn, sides.holdout, generator, progress, cancellation, nearest=True)
    written = _write_images(request, drawn, generator, keys)
    learned = trained_on_dataset(training)
    traced = learned is not None and len(learned) == 1
    found = Synthesis(drawn, generator.classes, sides.excluded, traced, written, measured)
    _write(request, found, generator, sides)
    return found


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


def _write_images(
    request: SynthesisRequest, drawn: SamplingResult, generator: Generator, keys: SubKeys
) -> int:
    """Write the images, unless the gate failed; if it was inconclusive, each image states so."""
    from medsanitize.generators.export.provenance import SyntheticProvenance
    from medsanitize.generators.export.synthesis_report import montage

    verdict = drawn.judged.verdict
    # No image of a failed gate may leave the program.
    if verdict.state == "failed":
        return 0
    # A bound is stated only if the gate established it.
    bound = float(verdict.upper) if verdict.passed else None
    classes = generator.classes or ("",)
    folder = request.output / IMAGES
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(("file", "label"))
    for number, (one, image) in enumerate(zip(drawn.chosen, drawn.pixels, strict=True), 1):
        said = SyntheticProvenance(classes[one.label], generator.digest, verdict.state, bound, __version__)
        names = _image_files(request.form, image, keys, said, one)
        for suffix, data in names.items():
            write_atomic(folder / f"{number:06d}{suffix}", data)
        rows.writerow((f"{IMAGES}/{number:06d}{next(iter(names))}", said.label))
    write_atomic(request.output / LABELS, table.getvalue().encode("utf-8"))
    if len(drawn.pixels):
        write_atomic(request.output / _CONTACT_SHEET, montage(drawn.pixels[:_SHEET_IMAGES]))
    return len(drawn.chosen)


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


def _write(request: SynthesisRequest, found: Synthesis, generator: Generator, sides: ReferenceSplits) -> None:
    from medsanitize.generators.export.synthesis_report import ReportData, holder_page

    drawn = found.drawn
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

    section = figures_section(found.measured, "those that were written")
    beside = found.measured.beside
    return (section,) if beside is None else (section, beside)
