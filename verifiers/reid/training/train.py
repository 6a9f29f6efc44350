"""Training of a re-identification model: from a table and a recipe to a model folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.calibration import Calibration
from medsanitize.verifiers.reid.evaluation.pairwise_auc import sum_pairs
from medsanitize.verifiers.reid.evaluation.score_matrix import distance_scores, verifier_scores
from medsanitize.verifiers.reid.labels import Labels
from medsanitize.verifiers.reid.models.config import ModelConfig, ModelKind
from medsanitize.verifiers.reid.models.load import matching_of
from medsanitize.verifiers.reid.models.model_folder import (
    CALIBRATION,
    CARD,
    CURVES,
    LOG,
    digest_of,
    unfinished_beside,
)
from medsanitize.verifiers.reid.models.networks.initial_weights import RANDOM, check_start
from medsanitize.verifiers.reid.models.onnx_model import GraphVerification
from medsanitize.verifiers.reid.models.onnx_session import open_session
from medsanitize.verifiers.reid.models.save import ExportedModel, ModelDocuments, export, save_model
from medsanitize.verifiers.reid.training.feature_cache import cached_features, name_of
from medsanitize.verifiers.reid.training.frozen_backbone import FrozenRecipe, TrainedModel, train_frozen
from medsanitize.verifiers.reid.training.model_card import card, curves
from medsanitize.verifiers.reid.training.recipes import Recipe, RetrievalRecipe, VerificationRecipe
from medsanitize.verifiers.reid.training.second_order_pooling import MomentsRecipe, train_moments
from medsanitize.verifiers.reid.training.train_copies import CopyRecipe, train_copies
from medsanitize.verifiers.reid.training.train_region_matching import MatchRecipe, train_match
from medsanitize.verifiers.reid.training.train_siamese import train_siamese
from medsanitize.verifiers.reid.training.training_dataset import (
    TrainingDataset,
    gather_images,
    split_patients,
)
from numpy.typing import NDArray

# Every pair is scored: more images would cost time and hardly tighten the bounds.
MOST_CALIBRATED = 4000
CARD_TARGET = 0.01


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of a training.

    Attributes
    ----------
    digest
        Digest of the model folder.
    counts
        Images and patients of both splits by name.
    excluded
        Number of rows that were not used, by reason.
    log
        One entry per epoch.
    privacy
        Statement of differential privacy, from ``PrivacyPlan.facts``; None without.
    """

    digest: str
    counts: Mapping[str, int]
    excluded: Mapping[str, int]
    log: tuple[Mapping[str, float], ...]
    privacy: Mapping[str, Any] | None = None


def train(
    kind: ModelKind,
    labels: Labels,
    recipe: Recipe,
    weights: str | None,
    output: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> TrainingResult:
    """Train a model and write its folder.

    Parameters
    ----------
    kind : ModelKind
        Retrieval or verification.
    labels : Labels
        Rows of the training split.
    recipe : Recipe
        Hyperparameters.
    weights : str or None
        Initial weights of a siamese network, see
        `medsanitize.verifiers.reid.models.networks.initial_weights.start_from`.
    output : Path
        The model folder. The state of an unfinished training is next to it, in a folder with the suffix
        ``.training``, from which the same call continues.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.

    Raises
    ------
    UsageError
        If the output holds a model, there are too few patients, or the recipe needs weights or takes none.
    """
    unfinished = unfinished_beside(output)
    if weights is not None and isinstance(recipe, FrozenRecipe | MomentsRecipe | MatchRecipe | CopyRecipe):
        raise UsageError("The recipe uses packaged weights and accepts no others", "Omit --weights")
    if isinstance(recipe, RetrievalRecipe | VerificationRecipe):
        check_start(weights, recipe.name, "ResNet-50")  # fail before the images are read
    examples, excluded = gather_images(labels, progress, cancellation)
    fit, validation = split_patients(examples, recipe.seed)
    if isinstance(recipe, MomentsRecipe):
        learned = train_moments(fit, validation, recipe, unfinished, progress, cancellation)
    elif isinstance(recipe, MatchRecipe):
        learned = train_match(fit, recipe, unfinished, progress, cancellation)
    elif isinstance(recipe, CopyRecipe):
        learned = train_copies(fit, recipe, progress, cancellation)
    elif isinstance(recipe, FrozenRecipe):
        learned = train_frozen(kind, fit, validation, recipe, unfinished, progress, cancellation)
    else:
        learned = train_siamese(fit, validation, recipe, weights, unfinished, progress, cancellation)
    config = ModelConfig(
        kind,
        examples.modality,
        dict(learned.network),
        learned.dimension,
        learned.preprocessing,
        learned.scoring,
    )
    exported = export(config, learned.weights)
    calibration = _calibrate(exported, learned, validation, unfinished, progress, cancellation)
    counts = _counts(fit, validation)
    training = {
        "counts": counts,
        "excluded": dict(excluded),
        "images": examples.digest,
        "recipe": asdict(recipe),
        "start": "packaged"
        if isinstance(recipe, FrozenRecipe | MomentsRecipe | MatchRecipe | CopyRecipe)
        else start_of(weights),
    }
    documents = documents_of(exported.config, recipe, training, learned, calibration)
    digest = save_model(output, exported, learned.score, ModelDocuments(training, documents))
    # Only now: until the model is complete, a resume needs it.
    shutil.rmtree(unfinished, ignore_errors=True)
    return TrainingResult(digest, counts, excluded, learned.log)


def _calibrate(
    exported: ExportedModel,
    learned: TrainedModel,
    validation: TrainingDataset,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> Calibration:
    """Calibrate on the validation split with the exported model, on the CPU as it is used later."""
    scores, patients = score_validation(exported, learned, validation, unfinished, progress, cancellation)
    return sum_pairs(scores, np.unique(patients, return_inverse=True)[1]).calibration()


def score_validation(
    exported: ExportedModel,
    learned: TrainedModel,
    validation: TrainingDataset,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Score all pairs of validation images by the exported model; returns scores and patients."""
    # Embeds for a retrieval model as well, which has no scoring; a digest exists only once the folder is
    # written.
    model = GraphVerification(
        digest_of({}),
        exported.config.modality,
        exported.config.dimension,
        exported.config.preprocessing,
        open_session(exported.graph, os.cpu_count() or 1),
        learned.scoring,
        {name: tensor.detach().cpu().numpy() for name, tensor in learned.score.items()},
        matching_of(exported.config),
    )
    chosen = validation.part(_first_patients(validation.patients, MOST_CALIBRATED))
    progress.stage("calibrate", len(chosen))

    def rows(places: range) -> NDArray[np.float32]:
        return model.embed([chosen.picture(place) for place in places])

    file = unfinished / f"{name_of(chosen, hashlib.sha256(exported.graph).hexdigest())}.rows"
    vectors = cached_features(file, (len(chosen), model.dimension), 1, rows, progress, cancellation)
    if learned.score:
        progress.stage("score pairs", len(chosen) * (len(chosen) - 1) // 2)
        scores = verifier_scores(vectors, model, partial(_scored, progress, cancellation))
    else:
        scores = distance_scores(vectors)
    return scores, chosen.patients


def _scored(progress: Progress, cancellation: Cancellation, pairs: int) -> None:
    cancellation.check()
    progress.advance(pairs)


def _first_patients(patients: NDArray[np.int64], most: int) -> NDArray[np.intp]:
    """Indices of all images of the first patients, up to ``most`` images."""
    numbers, counts = np.unique(patients, return_counts=True)
    # At least two patients, without whom there is no impostor pair.
    kept = numbers[np.cumsum(counts) <= max(most, int(counts[:2].sum()))]
    return np.flatnonzero(np.isin(patients, kept))


def _counts(fit: TrainingDataset, validation: TrainingDataset) -> dict[str, int]:
    return {
        "fit_images": len(fit),
        "fit_patients": len(np.unique(fit.patients)),
        "validation_images": len(validation),
        "validation_patients": len(np.unique(validation.patients)),
    }


def start_of(weights: str | None) -> str:
    """Return the digest of the file of initial weights, or ``random``."""
    if weights is None or weights == RANDOM:
        return RANDOM
    return hashlib.sha256(Path(weights).read_bytes()).hexdigest()


def documents_of(
    config: ModelConfig,
    recipe: Recipe,
    training: Mapping[str, Any],
    learned: TrainedModel,
    calibration: Calibration,
) -> dict[str, bytes]:
    """Return the documents of a model: card, curves, log and calibration."""
    lines = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in learned.log)
    return {
        CALIBRATION: (calibration.to_json() + "\n").encode(),
        CARD: card(config, recipe, training, _sentence(calibration)),
        CURVES: curves(learned.log),
        LOG: lines.encode(),
    }


def _sentence(calibration: Calibration) -> str:
    """Summary of the calibration for the model card."""
    point = calibration.for_false_match(CARD_TARGET)
    match, miss = point.false_match, point.false_non_match
    sentence = (
        f"At a threshold of {point.threshold:.4f} (a retrieval model's score is minus the distance) the"
        f" false match rate over pairs of patients was {match.share:.4f} (at most {match.upper:.4f}),"
        f" the false non-match rate {miss.share:.4f} (at most {miss.upper:.4f})."
    )
    return f"{sentence} The bound is {point.insufficient_data}." if point.insufficient_data else sentence
