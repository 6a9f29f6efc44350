"""The command ``evaluate``: evaluates models on a table of images, and writes results and page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.calibration import Calibration
    from medsanitize.verifiers.reid.evaluation.evaluate import Evaluation
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification
    from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile
    from medsanitize.verifiers.reid.overlap.score_images import ScoredImages

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
    calibration: Path | None = None


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
    from medsanitize.verifiers.reid.evaluation.embed import modality_of
    from medsanitize.verifiers.reid.evaluation.evaluate import evaluate
    from medsanitize.verifiers.reid.models.load import open_retrieval, open_verification
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval
    from medsanitize.verifiers.reid.overlap.score_images import score_images

    verifier = None if request.verifier is None else open_verification(request.verifier)
    if request.model is None:
        modality = modality_of(labels.paths, labels.kinds) if verifier is None else verifier.modality
        retrieval = packaged_retrieval(modality)
    else:
        retrieval = open_retrieval(request.model)
    scored = score_images(labels, retrieval, verifier, progress, cancellation)
    progress.stage("measuring", None)
    models = {
        "retrieval": "packaged ImageNet features" if request.model is None else "trained",
        "retrieval_digest": retrieval.digest,
        "modality": str(retrieval.modality),
    }
    if verifier is not None:
        models["verifier_digest"] = verifier.digest
    found = evaluate(
        scored.labels,
        scored.distances,
        scored.by_verifier,
        models=models,
        calibration=_calibration(request, retrieval, verifier),
        target=request.target,
        calibrated_on="model" if request.calibration is None else "given",
    )
    if request.output is not None:
        _write(request.output, found)
        given = _calibrate_on_images(request, scored, [retrieval, verifier] if verifier else [retrieval])
        _write_calibration(request.output, given)
    return found


def _calibration(
    request: EvaluationRequest, retrieval: Retrieval, verifier: Verification | None
) -> Calibration | None:
    """Read the calibration that is given, else the one stored with a model, if there is one."""
    from medsanitize.pipeline.runtime.calibrations import read_given_calibration
    from medsanitize.verifiers.reid.calibration import Calibration
    from medsanitize.verifiers.reid.models.load import stored_calibration

    if request.calibration is not None:
        digests = "+".join(one.digest for one in (retrieval, verifier) if one is not None)
        given = read_given_calibration(request.calibration).file
        given.require_models(digests)
        return given.calibration
    model = request.model if verifier is None else request.verifier
    stored = None if model is None else stored_calibration(model)
    return None if stored is None else Calibration.from_json(stored.decode("utf-8", "replace"))


def _calibrate_on_images(
    request: EvaluationRequest, scored: ScoredImages, models: Sequence[Retrieval]
) -> CalibrationFile | None:
    """Calibrate on these images, for later comparisons with the same models; None if that is impossible."""
    from medsanitize.verifiers.reid.evaluation.pairwise_auc import sum_pairs
    from medsanitize.verifiers.reid.models.load import trained_on
    from medsanitize.verifiers.reid.overlap.calibration_file import CalibrationFile
    from medsanitize.verifiers.reid.overlap.score_images import calibrating
    from medsanitize.verifiers.reid.training.training_dataset import digest_of_files

    # A model matches the images it was trained on too well: no calibration from them.
    learned = {trained_on(folder) for folder in (request.model, request.verifier) if folder is not None}
    if digest_of_files(scored.labels.paths) in learned:
        return None
    try:
        calibration = sum_pairs(*calibrating(scored)).calibration()
    except UsageError:  # no patient has two exposures
        return None
    return CalibrationFile(models[0].modality, "+".join(one.digest for one in models), calibration)


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
