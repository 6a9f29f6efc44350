"""The command ``evaluate``: evaluates models on a table of images, and writes results and page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, Labels, read_labels

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.calibration import Calibration
    from medsanitize.verifiers.reid.evaluation.evaluate import Evaluation
    from medsanitize.verifiers.reid.models.protocols import Retrieval
    from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile
    from numpy.typing import NDArray

RESULTS = "results.json"
PAGE = "evaluation.html"
CALIBRATION = "calibration.json"


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The arguments of the command ``evaluate``."""

    images: Path
    labels: Path
    columns: LabelColumns
    split: str | None
    model: Path | None
    verifier: Path | None
    target: float
    output: Path | None
    kind: Modality | None = None


def run_evaluation(request: EvaluationRequest, progress: Progress, cancellation: Cancellation) -> Evaluation:
    """Read and embed the images, evaluate, and write the results.

    Raises
    ------
    UsageError
        Table, images and models cannot be used together.
    IntegrityError
        A model was changed.
    """
    check_extra("verify")

    labels = read_labels(request.labels, request.images, request.columns, request.split).of_kind(request.kind)
    from medsanitize.verifiers.reid.evaluation.embed import embed_files, middle_slices, modality_of
    from medsanitize.verifiers.reid.evaluation.evaluate import evaluate
    from medsanitize.verifiers.reid.evaluation.score_matrix import distance_scores, verifier_scores
    from medsanitize.verifiers.reid.models.load import open_retrieval, open_verification
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    verifier = None if request.verifier is None else open_verification(request.verifier)
    if request.model is None:
        modality = modality_of(labels.paths, labels.kinds) if verifier is None else verifier.modality
        retrieval = packaged_retrieval(modality)
    else:
        retrieval = open_retrieval(request.model)
    progress.stage("embedding", len(labels))
    encoders = [retrieval] if verifier is None else [retrieval, verifier]
    told = progress_callback(progress, cancellation)
    embedded = embed_files(labels.paths, encoders, kinds=labels.kinds, done=told)
    if retrieval.modality.is_sliced:
        embedded = middle_slices(embedded, labels.patients, labels.series)
    scores = None
    if verifier is not None:
        progress.stage("scoring pairs", len(embedded.places) * (len(embedded.places) - 1) // 2)
        scores = verifier_scores(embedded.vectors[1], verifier, told)
    progress.stage("measuring", None)
    models = {
        "retrieval": "packaged ImageNet features" if request.model is None else "trained",
        "retrieval_digest": retrieval.digest,
        "modality": str(retrieval.modality),
    }
    if verifier is not None:
        models["verifier_digest"] = verifier.digest
    kept, distances = labels.keep(embedded.places, embedded.excluded), distance_scores(embedded.vectors[0])
    found = evaluate(
        kept,
        distances,
        scores,
        models=models,
        calibration=_calibration(request.model if verifier is None else request.verifier),
        target=request.target,
    )
    if request.output is not None:
        _write(request.output, found)
        given = _calibrate_on_images(request, kept, distances if scores is None else scores, encoders)
        _write_calibration(request.output, given)
    return found


def progress_callback(progress: Progress, cancellation: Cancellation) -> Callable[[int], None]:
    """Return a callback that counts images or pairs as done and checks for cancellation."""

    def done(more: int) -> None:
        progress.advance(more)
        cancellation.check()

    return done


def _calibration(model: Path | None) -> Calibration | None:
    """Read the calibration stored with a model, if there is one."""
    from medsanitize.verifiers.reid.calibration import Calibration
    from medsanitize.verifiers.reid.models.load import stored_calibration

    stored = None if model is None else stored_calibration(model)
    return None if stored is None else Calibration.from_json(stored.decode("utf-8", "replace"))


def _calibrate_on_images(
    request: EvaluationRequest, labels: Labels, scores: NDArray[np.float32], models: Sequence[Retrieval]
) -> CalibrationFile | None:
    """Calibrate on these images, for later comparisons with the same models; None if that is impossible."""
    import numpy as np
    from medsanitize.verifiers.reid.evaluation.pairwise_auc import sum_pairs
    from medsanitize.verifiers.reid.models.load import trained_on
    from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile
    from medsanitize.verifiers.reid.training.training_dataset import digest_of_files

    # A model matches the images it was trained on too well: no calibration from them.
    learned = {trained_on(folder) for folder in (request.model, request.verifier) if folder is not None}
    if digest_of_files(labels.paths) in learned:
        return None
    # Two copies of one exposure would match more often than two exposures do.
    places = np.array(_distinct_exposures(labels), np.intp)
    patients = np.unique(np.array(labels.patients)[places], return_inverse=True)[1]
    try:
        calibration = sum_pairs(scores[np.ix_(places, places)], patients).calibration()
    except UsageError:  # no patient has two exposures
        return None
    return CalibrationFile(models[0].modality, "+".join(one.digest for one in models), calibration)


def _distinct_exposures(labels: Labels) -> list[int]:
    """Return the indexes of images that are not copies of an earlier image of their patient."""
    import numpy as np
    from medsanitize.verifiers.reid.images.read import read_image
    from medsanitize.verifiers.reid.overlap.perceptual_hash import BITS, near_duplicates, perceptual_hash

    prints = [perceptual_hash(read_image(path, kind=kind).pixels) for path, kind in _stated(labels)]
    known = [place for place, found in enumerate(prints) if found is not None]
    joined = np.frombuffer(b"".join(found for found in prints if found is not None), np.uint8)
    bits = joined.reshape(len(known), BITS // 8)
    first, second, _ = near_duplicates(bits, bits)
    copies = {
        known[max(i, j)]
        for i, j in zip(first.tolist(), second.tolist(), strict=True)
        if i != j and labels.patients[known[i]] == labels.patients[known[j]]
    }
    return [place for place in range(len(labels)) if place not in copies]


def _stated(labels: Labels) -> Iterator[tuple[Path, Modality | None]]:
    return zip(labels.paths, labels.kinds, strict=True)


def _write(output: Path, found: Evaluation) -> None:
    from medsanitize.verifiers.reid.evaluation.evaluation_report import evaluation_page

    # NaN is not valid JSON, and would mean that a rate was computed from nothing.
    results = json.dumps(found.to_json(), indent=1, sort_keys=True, allow_nan=False)
    write_atomic(output / RESULTS, results.encode() + b"\n")
    write_atomic(output / PAGE, evaluation_page(found))


def _write_calibration(output: Path, given: CalibrationFile | None) -> None:
    """Write the calibration, or delete the one of an earlier evaluation."""
    if given is not None:
        write_atomic(output / CALIBRATION, given.to_json().encode() + b"\n")
        return
    with storage_errors():
        # A stale calibration of other models must not be left in the folder.
        (output / CALIBRATION).unlink(missing_ok=True)
