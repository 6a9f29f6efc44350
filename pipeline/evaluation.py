"""From a folder of images and a table to an evaluation, and the page that shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.pipeline.extras import check_extra
from medsanitize.pipeline.progress import Progress
from medsanitize.pipeline.stop import Stop
from medsanitize.release.store import write_atomic
from medsanitize.verifiers.labels import Columns, read_labels

if TYPE_CHECKING:
    from medsanitize.verifiers.calibration import Calibration
    from medsanitize.verifiers.evaluation.evaluate import Evaluation

RESULTS = "results.json"
PAGE = "evaluation.html"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be evaluated; see the command ``evaluate``."""

    images: Path
    labels: Path
    columns: Columns
    split: str | None
    model: Path | None
    verifier: Path | None
    target: float
    output: Path | None


def run_evaluation(asked: Asked, progress: Progress, stop: Stop) -> Evaluation:
    """Read, embed, measure, write.

    Raises
    ------
    UsageError
        When table, images or models cannot be used together.
    IntegrityError
        When a model was changed.
    """
    check_extra("verify")
    labels = read_labels(asked.labels, asked.images, asked.columns, asked.split)
    from medsanitize.verifiers.evaluation.embedding import embed_files, modality_of
    from medsanitize.verifiers.evaluation.evaluate import evaluate
    from medsanitize.verifiers.evaluation.scores import distance_scores, verifier_scores
    from medsanitize.verifiers.models.open import open_retrieval, open_verification
    from medsanitize.verifiers.models.packaged import packaged_retrieval

    verifier = None if asked.verifier is None else open_verification(asked.verifier)
    if asked.model is None:
        retrieval = packaged_retrieval(modality_of(labels.paths) if verifier is None else verifier.modality)
    else:
        retrieval = open_retrieval(asked.model)
    progress.stage("embedding", len(labels))
    encoders = [retrieval] if verifier is None else [retrieval, verifier]
    told = counted(progress, stop)
    embedded = embed_files(labels.paths, encoders, done=told)
    scores = None
    if verifier is not None:
        progress.stage("scoring pairs", len(embedded.places) * (len(embedded.places) - 1) // 2)
        scores = verifier_scores(embedded.vectors[1], verifier, told)
    progress.stage("measuring", None)
    models = {
        "retrieval": "packaged ImageNet features" if asked.model is None else "trained",
        "retrieval_digest": retrieval.digest,
        "modality": str(retrieval.modality),
    }
    if verifier is not None:
        models["verifier_digest"] = verifier.digest
    found = evaluate(
        labels.keep(embedded.places, embedded.excluded),
        distance_scores(embedded.vectors[0]),
        scores,
        models=models,
        calibration=_calibration(asked.model if verifier is None else asked.verifier),
        target=asked.target,
    )
    if asked.output is not None:
        _write(asked.output, found, "+".join(one.digest for one in encoders))
    return found


def counted(progress: Progress, stop: Stop) -> Callable[[int], None]:
    """Tell of images or pairs as they are done, and stop between two when a signal asked for it."""

    def done(more: int) -> None:
        progress.advance(more)
        stop.check()

    return done


def _calibration(model: Path | None) -> Calibration | None:
    """What the model was calibrated to when it was made, if it was."""
    from medsanitize.verifiers.calibration import Calibration
    from medsanitize.verifiers.models.open import stored_calibration

    stored = None if model is None else stored_calibration(model)
    return None if stored is None else Calibration.from_json(stored.decode("utf-8", "replace"))


def _write(output: Path, found: Evaluation, models: str) -> None:
    from medsanitize.verifiers.evaluation.page import evaluation_page
    from medsanitize.verifiers.overlap.given import FILE, Given
    from medsanitize.verifiers.pictures.picture import Modality

    results = json.dumps(found.to_json(), indent=1, sort_keys=True, allow_nan=False)
    write_atomic(output / RESULTS, results.encode() + b"\n")
    write_atomic(output / PAGE, evaluation_page(found))
    given = Given(Modality(found.models["modality"]), models, found.calibration)
    write_atomic(output / FILE, given.to_json().encode() + b"\n")
