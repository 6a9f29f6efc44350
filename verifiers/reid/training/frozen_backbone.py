"""Recipe ``frozen``, for a CPU: a linear map of the packaged ImageNet features, which stay frozen.

The features of all images are computed once. A linear map starts at their half-whitened principal directions
on the training split and is adapted by the supervised contrastive loss (Khosla et al. 2020). The epoch with
the best validation mAP@R is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.models.config import ModelKind
from medsanitize.verifiers.reid.models.preprocess import Preprocessing
from medsanitize.verifiers.reid.models.pretrained import default_config, packaged_retrieval, packaged_weights
from medsanitize.verifiers.reid.models.scoring import BIAS, WEIGHT, Scoring
from medsanitize.verifiers.reid.training.feature_cache import cached_features, name_of
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from medsanitize.verifiers.reid.training.validation import mean_average_precision
from numpy.typing import NDArray
from pytorch_metric_learning.losses import SupConLoss  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class FrozenRecipe:
    """Hyperparameters of the recipe."""

    name: str = "frozen"
    dimension: int = 256
    whitening: float = 0.5
    temperature: float = 0.1
    rate: float = 1e-4
    decay: float = 1e-3
    epochs: int = 60
    patience: int = 15
    seed: int = 0


def train_frozen(
    kind: ModelKind,
    fit: TrainingDataset,
    validation: TrainingDataset,
    recipe: FrozenRecipe,
    unfinished: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> TrainedModel:
    """Train a linear map of frozen features.

    The same images and recipe give the same weights; an interrupted training continues with the cached
    features.

    Parameters
    ----------
    kind : ModelKind
        Retrieval or verification; the latter also fits the score of a distance.
    fit, validation : TrainingDataset
        Training and validation split.
    recipe : FrozenRecipe
        Hyperparameters.
    unfinished : Path
        Folder of the cached features.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.
    """
    config = default_config(fit.modality)
    fit_features = packaged_features(fit, unfinished, progress, cancellation)
    validation_features = packaged_features(validation, unfinished, progress, cancellation)
    start = half_whitened(fit_features, recipe.dimension, recipe.whitening)
    learned, log = _adapt(fit_features, fit.patients, validation_features, validation.patients, start, recipe)
    weight, bias = (torch.tensor(one, dtype=torch.float32) for one in learned)
    features = {f"features.{name}": value for name, value in packaged_weights(fit.modality).items()}
    score: dict[str, Tensor] = {}
    if kind is ModelKind.VERIFICATION:
        score = _fit_score(_project(fit_features, *learned), fit.patients)
    facts: dict[str, Any] = {**config.network, "name": "lite0-projected", "dimension": len(weight)}
    return TrainedModel(
        network=facts,
        weights={**features, "projection.weight": weight, "projection.bias": bias},
        dimension=len(weight),
        preprocessing=config.preprocessing,
        scoring=Scoring.DISTANCE if score else Scoring.NONE,
        score=score,
        log=tuple(log),
    )


def packaged_features(
    examples: TrainingDataset, unfinished: Path, progress: Progress, cancellation: Cancellation
) -> NDArray[np.float32]:
    """Compute the features of all images by the packaged model, (n, d), cached in ``unfinished``.

    Parameters
    ----------
    examples : TrainingDataset
        The images.
    unfinished : Path
        Folder of the cached features.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked before every batch.
    """
    model = packaged_retrieval(examples.modality)
    progress.stage("features", len(examples))

    def rows(places: range) -> NDArray[np.float32]:
        return model.embed([examples.picture(place) for place in places])

    file = unfinished / f"{name_of(examples, model.digest)}.rows"
    return cached_features(file, (len(examples), model.dimension), 1, rows, progress, cancellation)


def half_whitened(
    features: NDArray[np.float32], dimension: int, whitening: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute principal directions, divided by a power of their deviations.

    Parameters
    ----------
    features : array of float32, shape (n, d)
        Features.
    dimension : int
        Largest number of directions.
    whitening : float
        The power; 1 whitens fully, 0 not at all.

    Returns
    -------
    tuple of arrays of float64, shapes (directions, d) and (directions,)
        Weight and bias of the linear map.
    """
    mean = features.mean(0, dtype=np.float64)
    _, deviations, directions = np.linalg.svd(features - mean, full_matrices=False)
    # Directions without variance have no scale to divide by.
    kept = min(dimension, int((deviations > 1e-6 * deviations[0]).sum()))
    scale = deviations[:kept, None] ** whitening
    weight = directions[:kept] / scale * float(deviations[0]) ** whitening
    return weight, -weight @ mean


def _project(
    features: NDArray[np.float32], weight: NDArray[np.float64], bias: NDArray[np.float64]
) -> NDArray[np.float32]:
    vectors = features @ weight.T + bias
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _adapt(
    features: NDArray[np.float32],
    patients: NDArray[np.int64],
    other_features: NDArray[np.float32],
    other_patients: NDArray[np.int64],
    start: tuple[NDArray[np.float64], NDArray[np.float64]],
    recipe: FrozenRecipe,
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], list[Mapping[str, float]]]:
    """Supervised contrastive training on full batches; returns the epoch with the best validation mAP@R."""
    best = start
    # The start is a candidate as well: training can only improve on it.
    reached = mean_average_precision(_project(other_features, *start), other_patients)
    log: list[Mapping[str, float]] = []
    inputs, labels = torch.from_numpy(features), torch.from_numpy(patients)
    weight = torch.tensor(start[0], dtype=torch.float32).requires_grad_()
    bias = torch.tensor(start[1], dtype=torch.float32).requires_grad_()
    loss_of = SupConLoss(temperature=recipe.temperature)
    optimizer = torch.optim.AdamW([weight, bias], lr=recipe.rate, weight_decay=recipe.decay)
    since = 0
    for epoch in range(1, recipe.epochs + 1):
        loss = loss_of(F.normalize(inputs @ weight.T + bias), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = (weight.detach().double().numpy().copy(), bias.detach().double().numpy().copy())
        score = mean_average_precision(_project(other_features, *now), other_patients)
        log.append({"epoch": epoch, "loss": float(loss.detach()), "map_at_r": score})
        since += 1
        if score > reached:
            reached, best, since = score, now, 0
        if since >= recipe.patience:
            break
    return best, log


def _fit_score(vectors: NDArray[np.float32], patients: NDArray[np.int64]) -> dict[str, Tensor]:
    """Fit the score of the distance of two embeddings."""
    one, other = np.triu_indices(len(vectors), 1)
    distances = np.linalg.norm(vectors[one] - vectors[other], axis=1)
    return fit_line(distances, patients[one] == patients[other])[0]


def fit_line(values: NDArray[np.float32], same: NDArray[np.bool_]) -> tuple[dict[str, Tensor], float]:
    """Fit a logistic regression of "same patient" on a value per pair, with balanced classes.

    Parameters
    ----------
    values : array of float32, shape (pairs,)
        Value of each pair.
    same : array of bool, shape (pairs,)
        Whether the pair is genuine.

    Returns
    -------
    dict of str to Tensor
        Weight and bias by name.
    float
        The loss.
    """
    given, wanted = torch.from_numpy(values).double(), torch.from_numpy(same).double()
    # Standardized, so that the optimizer need not find the scale of the values.
    center, width = given.mean(), given.std().clamp(min=1e-9)
    scaled = (given - center) / width
    balance = torch.where(wanted > 0, 0.5 / wanted.sum(), 0.5 / (1 - wanted).sum())
    line = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([line], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = scaled * line[0] + line[1]
        # Weight decay keeps the slope finite where the classes are perfectly separable.
        value = F.binary_cross_entropy_with_logits(logits, wanted, balance, reduction="sum")
        value = value + 1e-4 * line[0] ** 2
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    reached = float(loss().detach())
    slope = line.detach()[0] / width
    found = {
        WEIGHT: slope.float().reshape(1, 1),
        BIAS: (line.detach()[1] - slope * center).float().reshape(1),
    }
    return found, reached


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained network.

    Attributes
    ----------
    network
        Arguments of `medsanitize.verifiers.reid.models.networks.build.build_network`.
    weights
        State of the network by name.
    dimension
        Length of an embedding.
    preprocessing
        Preprocessing of the images.
    scoring
        How a pair is scored; ``Scoring.NONE`` for retrieval.
    score
        Weights of that score by name.
    log
        One entry per epoch: ``epoch``, ``loss`` and validation measures by name.
    """

    network: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    dimension: int
    preprocessing: Preprocessing
    scoring: Scoring = Scoring.NONE
    score: Mapping[str, Tensor] = field(default_factory=dict)
    log: tuple[Mapping[str, float], ...] = ()
