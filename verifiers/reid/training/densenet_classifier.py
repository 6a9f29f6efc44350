"""The classifier of Campos et al. 2024: DenseNet-121, with the vector before the last layer as embedding."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.models.networks.build import build_network
from medsanitize.verifiers.reid.models.networks.densenet import DEPTHS, GROWTH
from medsanitize.verifiers.reid.models.networks.initial_weights import check_start, start_from
from medsanitize.verifiers.reid.training.augment import augment
from medsanitize.verifiers.reid.training.checkpoint import FILE, group
from medsanitize.verifiers.reid.training.class_labels import ClassifiedDataset
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
from medsanitize.verifiers.reid.training.image_cache import PreprocessedImages, preprocess_images
from medsanitize.verifiers.reid.training.loop import Phase, TrainingFolder, train_network
from medsanitize.verifiers.reid.training.losses import embed_preprocessed
from medsanitize.verifiers.reid.training.recipes import MILD, PLAIN, Augmentation
from medsanitize.verifiers.reid.training.train_siamese import preprocessing_for
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class DenseRecipe:
    """Hyperparameters; learning rate, epochs and patience are those of the paper.

    Attributes
    ----------
    size
        Input size, pixels: that of the DenseNet-121 of CheXpert (Irvin et al. 2019).
    """

    name: str
    size: int = 320
    depths: tuple[int, ...] = DEPTHS
    growth: int = GROWTH
    batch: int = 32
    epochs: int = 10
    rate: float = 1e-3
    patience: int = 3
    augmentation: Augmentation = PLAIN
    seed: int = 0


PAPER = DenseRecipe("paper")
TINY = DenseRecipe("tiny", size=64, depths=(1, 1, 1, 1), growth=4, batch=8, epochs=2, augmentation=MILD)


class Classes(nn.Module):
    """An encoder with the linear layer that maps embeddings to classes."""

    def __init__(self, encoder: nn.Module, dimension: int, count: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.classes = nn.Linear(dimension, count)

    def forward(self, vectors: Tensor) -> Tensor:
        """Compute logits of embeddings, shape (n, count)."""
        logits: Tensor = self.classes(vectors)
        return logits


class ClassTask:
    """Training task: cross entropy, with equal weight for all classes."""

    def __init__(
        self,
        recipe: DenseRecipe,
        images: tuple[ClassifiedDataset, ClassifiedDataset],
        squares: tuple[PreprocessedImages, PreprocessedImages],
        device: torch.device,
    ) -> None:
        self.facts: dict[str, Any] = {
            "name": "densenet", "depths": list(recipe.depths), "growth": recipe.growth
        }  # fmt: skip
        # Before the network is built: its random weights must follow from the seed.
        torch.manual_seed(recipe.seed)
        self.encoder = build_network(self.facts)
        backbone: Any = self.encoder.get_submodule("backbone")
        self.dimension = int(backbone.channels)
        self.network = Classes(self.encoder, self.dimension, len(images[0].names)).to(device)
        self._recipe, self._squares, self._device = recipe, squares, device
        self._classes = tuple(torch.from_numpy(part.classes).to(device) for part in images)
        self._weights = tuple(torch.from_numpy(part.weights()).float().to(device) for part in images)

    def batches(self, draw: np.random.Generator) -> list[NDArray[np.intp]]:
        """Draw the indices of the images of each batch; every image occurs once per epoch."""
        order = draw.permutation(len(self._squares[0]))
        return [one for one in np.array_split(order, -(-len(order) // self._recipe.batch)) if len(one)]

    def loss(self, batch: NDArray[np.intp], draw: torch.Generator) -> Tensor:
        """Compute the loss of one batch."""
        squares = self._squares[0]
        images = augment(squares.batch(batch, self._device), self._recipe.augmentation, draw)
        # bfloat16 has the range of float32, so that no loss scaling is needed.
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            vectors = self.encoder(squares.normalized(images))
        return self._loss(vectors.float(), 0, torch.from_numpy(batch).to(self._device))

    def validate(self) -> tuple[float, dict[str, float]]:
        """Compute the negated validation loss and the balanced accuracy."""
        vectors = embed_preprocessed(self.encoder, self._squares[1], self._device)
        with torch.no_grad():
            given = torch.from_numpy(vectors).to(self._device)
            loss = float(self._loss(given, 1, torch.arange(len(vectors), device=self._device)))
            said = self.network(given).argmax(1)
        right = (said == self._classes[1]).float()
        weights = self._weights[1][self._classes[1]]
        # Negated, since the training loop maximizes.
        return -loss, {"validation_loss": loss, "balanced_accuracy": float((right * weights).mean())}

    def memory(self) -> dict[str, Tensor]:
        """Return no state."""
        return {}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore no state."""

    def _loss(self, vectors: Tensor, part: int, places: Tensor) -> Tensor:
        wanted = self._classes[part][places]
        losses = F.cross_entropy(self.network(vectors), wanted, reduction="none")
        return (losses * self._weights[part][wanted]).mean()


def train_dense(
    fit: ClassifiedDataset,
    validation: ClassifiedDataset,
    recipe: DenseRecipe,
    weights: str | None,
    folder: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> TrainedModel:
    """Train a DenseNet classifier; an interrupted training continues at its checkpoint.

    Parameters
    ----------
    fit, validation : ClassifiedDataset
        Training and validation split.
    recipe : DenseRecipe
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
    check_start(weights, recipe.name, "DenseNet-121")
    folder.mkdir(parents=True, exist_ok=True)
    how = preprocessing_for(fit.examples.modality, recipe.size)
    facts = [asdict(recipe), weights, fit.examples.digest, fit.names]
    facts += [one.tolist() for part in (fit, validation) for one in (part.examples.patients, part.classes)]
    made_by = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    one, other = (
        preprocess_images(
            part.examples, how, folder / f"{name}-{made_by[:16]}.squares", progress, cancellation
        )
        for name, part in (("fit", fit), ("validation", validation))
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    task = ClassTask(recipe, (fit, validation), (one, other), device)
    # A checkpoint holds all weights: loading the initial ones would only cost time.
    if weights is not None and not (folder / FILE).exists():
        start_from(task.encoder.get_submodule("backbone"), weights)
    phases = (Phase(recipe.epochs, False, False, recipe.rate, patience=recipe.patience),)
    best, log = train_network(
        task, phases, recipe.seed, TrainingFolder(folder, made_by, progress, cancellation)
    )
    score = {name: tensor for name, tensor in best.items() if name.startswith("classes.")}
    return TrainedModel(task.facts, group(best, "encoder"), task.dimension, how, score=score, log=log)
