"""Training of the networks of Packhäuser et al. 2022."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.networks.initial_weights import check_start, start_from
from medsanitize.verifiers.reid.models.preprocess import Channels, Fit, Preprocessing
from medsanitize.verifiers.reid.models.scoring import Scoring
from medsanitize.verifiers.reid.training.checkpoint import FILE, group
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
from medsanitize.verifiers.reid.training.image_cache import preprocess_images
from medsanitize.verifiers.reid.training.loop import Phase, Task, TrainingFolder, train_network
from medsanitize.verifiers.reid.training.losses import RetrievalTask, VerificationTask
from medsanitize.verifiers.reid.training.recipes import RetrievalRecipe, VerificationRecipe
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

# Normalization of the ImageNet weights of torchvision and timm.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def train_siamese(
    fit: TrainingDataset,
    validation: TrainingDataset,
    recipe: RetrievalRecipe | VerificationRecipe,
    weights: str | None,
    folder: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> TrainedModel:
    """Train a siamese network; an interrupted training continues at its checkpoint.

    Parameters
    ----------
    fit, validation : TrainingDataset
        Training and validation split.
    recipe : RetrievalRecipe or VerificationRecipe
        Hyperparameters.
    weights : str or None
        Initial weights, see `medsanitize.verifiers.reid.models.networks.initial_weights.start_from`; the tiny
        recipe starts at random.
    folder : Path
        Folder of preprocessed images and checkpoint; to be removed when the model has been written.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked at every step.

    Raises
    ------
    UsageError
        If the recipe needs ImageNet weights and none were given, or the folder holds another unfinished
        training.
    """
    check_start(weights, recipe.name, "ResNet-50")
    folder.mkdir(parents=True, exist_ok=True)
    how = preprocessing_for(fit.modality, recipe.size)
    # A checkpoint continues only a training with the same inputs.
    made_by = _digest(
        asdict(recipe),
        type(recipe).__name__,
        weights,
        fit.digest,
        fit.patients.tolist(),
        validation.patients.tolist(),
    )
    squares = [
        preprocess_images(part, how, folder / f"{name}-{made_by[:16]}.squares", progress, cancellation)
        for name, part in (("fit", fit), ("validation", validation))
    ]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    task: Task
    if isinstance(recipe, RetrievalRecipe):
        retrieval = RetrievalTask(recipe, squares[0], squares[1], device)
        task, facts = retrieval, retrieval.facts
    else:
        verification = VerificationTask(recipe, squares[0], squares[1], device)
        task, facts = verification, verification.facts
    if weights is not None and not (folder / FILE).exists():
        start_from(task.encoder.get_submodule("backbone"), weights)
    best, log = train_network(
        task, _phases(recipe), recipe.seed, TrainingFolder(folder, made_by, progress, cancellation)
    )
    if isinstance(recipe, RetrievalRecipe):
        return TrainedModel(facts, best, recipe.dimension, how, log=log)
    score = {name: tensor for name, tensor in best.items() if name.startswith("score.")}
    encoder = group(best, "encoder")
    return TrainedModel(facts, encoder, recipe.dimension, how, Scoring.SIGMOID_DIFFERENCE, score, log)


def preprocessing_for(modality: Modality, size: int) -> Preprocessing:
    """Return the preprocessing of the paper: scaled at any aspect ratio, normalized as for ImageNet."""
    channels = Channels.COLOR if modality.is_colored else Channels.GRAY
    return Preprocessing(size, Fit.STRETCH, channels, MEAN, DEVIATION)


def _phases(recipe: RetrievalRecipe | VerificationRecipe) -> tuple[Phase, ...]:
    if isinstance(recipe, VerificationRecipe):
        return (Phase(recipe.epochs, False, False, recipe.rate, patience=recipe.patience),)
    return (
        Phase(recipe.head_epochs, True, True, recipe.rate, recipe.decay),
        Phase(recipe.all_epochs, False, True, recipe.rate, recipe.decay, recipe.patience),
    )


def _digest(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
