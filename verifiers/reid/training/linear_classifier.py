"""Recipe ``frozen`` of a classifier, for a CPU: a linear map of the frozen packaged features, and classes.

The map starts at the half-whitened principal directions of the features, so that images that the labels do
not separate remain similar; cross entropy then adapts it to the classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.load import CLASS_BIAS, CLASS_WEIGHT
from medsanitize.verifiers.reid.models.pretrained import default_config, packaged_weights
from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel, half_whitened, packaged_features
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class LinearRecipe:
    """Hyperparameters of the recipe.

    Attributes
    ----------
    dimension
        Length of an embedding.
    whitening
        Power of the deviations by which the principal directions are divided.
    rate, head_rate, decay
        Learning rates of the map and of the class layer, and AdamW's weight decay.
    sharpness
        Factor of the unit-length embeddings before the class layer.
    epochs
        Largest number of epochs, each one full batch.
    patience
        Epochs without a lower validation loss after which the training ends.
    """

    name: str = "frozen"
    dimension: int = 256
    whitening: float = 0.5
    rate: float = 3e-4
    head_rate: float = 3e-3
    decay: float = 1e-2
    sharpness: float = 10.0
    epochs: int = 60
    patience: int = 15
    seed: int = 0


def train_linear(
    fit: ClassifiedDataset,
    validation: ClassifiedDataset,
    recipe: LinearRecipe,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> TrainedModel:
    """Train a linear map of packaged features and its classes; keep the epoch with the lowest loss.

    The same images and recipe give the same weights; an interrupted training continues with the cached
    features.

    Parameters
    ----------
    fit, validation : ClassifiedDataset
        Training and validation split.
    recipe : LinearRecipe
        Hyperparameters.
    unfinished : Path
        Folder of the cached features.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.
    """
    modality = fit.examples.modality
    parts = [
        (part, packaged_features(part.examples, unfinished, progress, cancellation))
        for part in (fit, validation)
    ]
    learned, log = learn_classes(parts, recipe)
    return classifier_of(learned, modality, recipe, log)


def classifier_of(
    learned: Mapping[str, Tensor],
    modality: Modality,
    recipe: LinearRecipe,
    log: tuple[Mapping[str, float], ...],
) -> TrainedModel:
    """Return the network with a learned map, shift, classes and bias."""
    config = default_config(modality)
    features = {f"features.{name}": value for name, value in packaged_weights(modality).items()}
    facts: dict[str, Any] = {
        **config.network, "name": "lite0-projected", "dimension": len(learned["map"])
    }  # fmt: skip
    return TrainedModel(
        network=facts,
        weights={**features, "projection.weight": learned["map"], "projection.bias": learned["shift"]},
        dimension=len(learned["map"]),
        preprocessing=config.preprocessing,
        # The factor becomes part of the weights, so that the model needs no further parameter.
        score={CLASS_WEIGHT: recipe.sharpness * learned["classes"], CLASS_BIAS: learned["bias"]},
        log=log,
    )


def learn_classes(
    parts: Sequence[tuple[ClassifiedDataset, NDArray[np.float32]]], recipe: LinearRecipe
) -> tuple[dict[str, Tensor], tuple[Mapping[str, float], ...]]:
    """Learn the map and the classes, and keep the epoch with the lowest validation loss.

    Parameters
    ----------
    parts : sequence of (ClassifiedDataset, array of float32 of shape (n, d))
        Training and validation split with their features.
    recipe : LinearRecipe
        Hyperparameters.

    Returns
    -------
    dict of str to Tensor
        ``map``, ``shift``, ``classes`` and ``bias``.
    tuple of mappings
        One entry per epoch.
    """
    weight, shift = half_whitened(parts[0][1], recipe.dimension, recipe.whitening)
    count = len(parts[0][0].names)
    state = {
        "map": torch.tensor(weight, dtype=torch.float32),
        "shift": torch.tensor(shift, dtype=torch.float32),
        "classes": torch.zeros(count, len(weight)),
        "bias": torch.zeros(count),
    }
    for tensor in state.values():
        tensor.requires_grad_()
    optimizer = torch.optim.AdamW(
        [
            {"params": [state["map"], state["shift"]], "lr": recipe.rate},
            {"params": [state["classes"], state["bias"]], "lr": recipe.head_rate},
        ],
        weight_decay=recipe.decay,
    )
    best, lowest, since = dict(state), float("inf"), 0
    log: list[Mapping[str, float]] = []
    for epoch in range(1, recipe.epochs + 1):
        loss, _ = _judged(*parts[0], state, recipe)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            reached, accuracy = _judged(*parts[1], state, recipe)
        log.append(
            {
                "epoch": epoch,
                "loss": float(loss.detach()),
                "validation_loss": float(reached),
                "balanced_accuracy": accuracy,
            }
        )
        since += 1
        if float(reached) < lowest:
            lowest, since = float(reached), 0
            best = {name: tensor.detach().clone() for name, tensor in state.items()}
        if since >= recipe.patience:
            break
    return best, tuple(log)


def class_logits(features: Tensor, state: Mapping[str, Tensor], recipe: LinearRecipe) -> Tensor:
    """Compute the logits of the classes, (n, classes), from features and what `learn_classes` returns."""
    vectors = F.normalize(features @ state["map"].T + state["shift"])
    logits: Tensor = recipe.sharpness * vectors @ state["classes"].T + state["bias"]
    return logits


def _judged(
    images: ClassifiedDataset,
    features: NDArray[np.float32],
    state: Mapping[str, Tensor],
    recipe: LinearRecipe,
) -> tuple[Tensor, float]:
    """Loss and balanced accuracy of a split."""
    wanted = torch.from_numpy(images.classes)
    weights = torch.from_numpy(images.weights()).float()[wanted]
    losses, right = losses_of(torch.from_numpy(features), wanted, state, recipe)
    return (losses * weights).mean(), float((right * weights).mean())


def losses_of(
    features: Tensor, wanted: Tensor, state: Mapping[str, Tensor], recipe: LinearRecipe
) -> tuple[Tensor, Tensor]:
    """Compute the loss of each image, and whether its class was predicted."""
    logits = class_logits(features, state, recipe)
    losses = F.cross_entropy(logits, wanted, reduction="none")
    return losses, (logits.detach().argmax(1) == wanted).to(losses.dtype)
