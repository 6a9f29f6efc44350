"""The recipe for a CPU: packaged ImageNet features stay as they are, a linear map of them is learned.

The features of all images are computed once. Their principal directions on the fitting part, half
whitened, start a linear map that the supervised contrastive loss (Khosla et al. 2020) then adapts; the epoch
that does best on the validation part is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from medsanitize.verifiers.reid.models.config import ModelKind
from medsanitize.verifiers.reid.models.preprocess import Preprocessing
from medsanitize.verifiers.reid.models.pretrained import default_config, packaged_retrieval, packaged_weights
from medsanitize.verifiers.reid.models.scoring import BIAS, WEIGHT, Scoring
from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingDataset, TrainingProgress
from medsanitize.verifiers.reid.training.feature_cache import cached_features, name_of
from medsanitize.verifiers.reid.training.validation import mean_average_precision
from numpy.typing import NDArray
from pytorch_metric_learning.losses import SupConLoss  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class FrozenRecipe:
    """Every choice of the recipe."""

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
    hears: TrainingProgress,
    stops: Cancellation,
) -> TrainedModel:
    """Learn a linear map of frozen features.

    The same examples and recipe give the same weights; stopped, the same call goes on where it stood.
    """
    config = default_config(fit.modality)
    fit_features = packaged_features(fit, unfinished, hears, stops)
    validation_features = packaged_features(validation, unfinished, hears, stops)
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
    examples: TrainingDataset, unfinished: Path, hears: TrainingProgress, stops: Cancellation
) -> NDArray[np.float32]:
    """What the packaged network of the modality sees in all images, ``(n, d)``; kept in ``unfinished``."""
    model = packaged_retrieval(examples.modality)
    hears.stage("features", len(examples))

    def rows(places: range) -> NDArray[np.float32]:
        return model.embed([examples.picture(place) for place in places])

    file = unfinished / f"{name_of(examples, model.digest)}.rows"
    return cached_features(file, (len(examples), model.dimension), 1, rows, hears, stops)


def half_whitened(
    features: NDArray[np.float32], dimension: int, whitening: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight and bias of the principal directions, each divided by its deviation to the power."""
    mean = features.mean(0, dtype=np.float64)
    _, deviations, directions = np.linalg.svd(features - mean, full_matrices=False)
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
    """Full-batch SupCon from the start; the epoch with the best validation mAP@R."""
    best = start
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
    """From the distance of two vectors to a score."""
    one, other = np.triu_indices(len(vectors), 1)
    distances = np.linalg.norm(vectors[one] - vectors[other], axis=1)
    return fit_line(distances, patients[one] == patients[other])[0]


def fit_line(values: NDArray[np.float32], same: NDArray[np.bool_]) -> tuple[dict[str, Tensor], float]:
    """Logistic regression of "same patient" on a value of pairs, both answers weighing the same.

    Returns the weight and the bias by name, and the loss.
    """
    given, wanted = torch.from_numpy(values).double(), torch.from_numpy(same).double()
    centre, width = given.mean(), given.std().clamp(min=1e-9)
    scaled = (given - centre) / width
    balance = torch.where(wanted > 0, 0.5 / wanted.sum(), 0.5 / (1 - wanted).sum())
    line = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([line], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = scaled * line[0] + line[1]
        # A little decay keeps the line finite where the two are told apart without an error.
        value = F.binary_cross_entropy_with_logits(logits, wanted, balance, reduction="sum")
        value = value + 1e-4 * line[0] ** 2
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    reached = float(loss().detach())
    slope = line.detach()[0] / width
    found = {
        WEIGHT: slope.float().reshape(1, 1),
        BIAS: (line.detach()[1] - slope * centre).float().reshape(1),
    }
    return found, reached


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained network.

    Attributes
    ----------
    network
        Facts from which ``networks.build.build_network`` makes it.
    weights
        Its state by name.
    dimension
        Length of its vectors.
    preprocessing
        What is done to a picture first.
    scoring
        How a pair is scored; ``Scoring.NONE`` for retrieval.
    score
        Weights of that score by name.
    log
        One line an epoch: ``epoch``, ``loss`` and measures on the validation part by name.
    """

    network: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    dimension: int
    preprocessing: Preprocessing
    scoring: Scoring = Scoring.NONE
    score: Mapping[str, Tensor] = field(default_factory=dict)
    log: tuple[Mapping[str, float], ...] = ()
