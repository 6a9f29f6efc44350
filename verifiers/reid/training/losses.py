"""Training tasks of the retrieval and verification networks of Packhäuser et al. 2022."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from medsanitize.verifiers.reid.models.networks.build import build_network
from medsanitize.verifiers.reid.training.augment import augment
from medsanitize.verifiers.reid.training.image_cache import PreprocessedImages
from medsanitize.verifiers.reid.training.recipes import RetrievalRecipe, VerificationRecipe
from medsanitize.verifiers.reid.training.sampling import (
    genuine_pairs,
    impostor_pairs,
    pair_batches,
    patient_batches,
)
from medsanitize.verifiers.reid.training.validation import mean_average_precision
from numpy.typing import NDArray
from pytorch_metric_learning.losses import (  # type: ignore[import-untyped]
    ContrastiveLoss,
    CrossBatchMemory,
)
from torch import Tensor, nn
from torch.nn import functional as F

EMBED_BATCH = 32


def embed_preprocessed(
    encoder: nn.Module, squares: PreprocessedImages, device: torch.device
) -> NDArray[np.float32]:
    """Embed all images in evaluation mode, float32, shape (n, dimension)."""
    encoder.eval()
    vectors = []
    with torch.no_grad():
        for start in range(0, len(squares), EMBED_BATCH):
            places = np.arange(start, min(start + EMBED_BATCH, len(squares)))
            vectors.append(encoder(squares.normalized(squares.batch(places, device))).float().cpu().numpy())
    return np.concatenate(vectors)


class RetrievalTask:
    """Contrastive loss with margin and cross-batch memory: pairs are mined online, as in the paper."""

    def __init__(
        self,
        recipe: RetrievalRecipe,
        fit: PreprocessedImages,
        validation: PreprocessedImages,
        device: torch.device,
    ) -> None:
        self.facts: dict[str, Any] = {
            "name": "siamese-retrieval", "size": recipe.size, "dimension": recipe.dimension,
            "grid": recipe.grid, "hidden": recipe.hidden, "depths": list(recipe.depths),
            "width": recipe.width,
        }  # fmt: skip
        # Before the network is built: its random weights must follow from the seed.
        torch.manual_seed(recipe.seed)
        self.network = self.encoder = build_network(self.facts).to(device)
        self._recipe, self._fit, self._validation, self._device = recipe, fit, validation, device
        self._loss = CrossBatchMemory(
            # The negative margin is the m of the paper.
            ContrastiveLoss(pos_margin=0, neg_margin=recipe.margin),
            recipe.dimension,
            recipe.memory,
        )

    def batches(self, draw: np.random.Generator) -> list[NDArray[np.intp]]:
        """Draw the indices of the images of each batch."""
        recipe = self._recipe
        return patient_batches(self._fit.patients, recipe.batch, recipe.together, draw)

    def loss(self, batch: NDArray[np.intp], draw: torch.Generator) -> Tensor:
        """Compute the loss of one batch, including pairs with the memory."""
        images = augment(self._fit.batch(batch, self._device), self._recipe.augmentation, draw)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            vectors = self.network(self._fit.normalized(images))
        labels = torch.from_numpy(self._fit.patients[batch]).to(self._device)
        # The loss in float32: bfloat16 is too coarse for distances.
        value: Tensor = self._loss(vectors.float(), labels)
        return value

    def validate(self) -> tuple[float, dict[str, float]]:
        """Compute mAP@R on the validation split."""
        vectors = embed_preprocessed(self.encoder, self._validation, self._device)
        found = mean_average_precision(vectors, self._validation.patients)
        return found, {"map_at_r": found}

    def memory(self) -> dict[str, Tensor]:
        """Return embeddings and patients of earlier batches, and the position of the next one."""
        place = torch.tensor([self._loss.queue_idx, int(self._loss.has_been_filled)])
        return {
            "vectors": self._loss.embedding_memory, "labels": self._loss.label_memory, "place": place
        }  # fmt: skip

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the memory of a checkpoint."""
        self._loss.embedding_memory = memory["vectors"].to(self._device)
        self._loss.label_memory = memory["labels"].to(self._device)
        self._loss.queue_idx, filled = memory["place"].tolist()
        self._loss.has_been_filled = bool(filled)


class PairScore(nn.Module):
    """An encoder with the layer that scores ``|sigmoid(z1) - sigmoid(z2)|`` (Fig. 8 of the paper)."""

    def __init__(self, encoder: nn.Module, dimension: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.score = nn.Linear(dimension, 1)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Compute the logit of each pair of embeddings, shape (n,)."""
        value: Tensor = self.score((torch.sigmoid(one) - torch.sigmoid(other)).abs())
        return value[:, 0]


class VerificationTask:
    """Cross entropy of the score of pairs; impostor pairs are drawn again each epoch (RNP in the paper)."""

    def __init__(
        self,
        recipe: VerificationRecipe,
        fit: PreprocessedImages,
        validation: PreprocessedImages,
        device: torch.device,
    ) -> None:
        self.facts: dict[str, Any] = {
            "name": "siamese-verification", "dimension": recipe.dimension,
            "depths": list(recipe.depths), "width": recipe.width,
        }  # fmt: skip
        torch.manual_seed(recipe.seed)
        self.encoder = build_network(self.facts)
        self.network = PairScore(self.encoder, recipe.dimension).to(device)
        self._recipe, self._fit, self._validation, self._device = recipe, fit, validation, device
        genuine = genuine_pairs(validation.patients)
        # Drawn once, so that epochs are comparable.
        impostors = impostor_pairs(validation.patients, len(genuine), np.random.default_rng(recipe.seed))
        self._pairs = np.concatenate([genuine, impostors])

    def batches(self, draw: np.random.Generator) -> list[NDArray[np.intp]]:
        """Draw the indices of the pairs of images of each batch, shape (n, 2)."""
        return pair_batches(self._fit.patients, self._recipe.batch, draw)

    def loss(self, batch: NDArray[np.intp], draw: torch.Generator) -> Tensor:
        """Compute the loss of one batch of pairs; both branches are one batch of twice the size."""
        images = self._fit.batch(batch.T.reshape(-1), self._device)
        images = self._fit.normalized(augment(images, self._recipe.augmentation, draw))
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            vectors = self.encoder(images)
        one, other = vectors.float().chunk(2)
        same = self._fit.patients[batch[:, 0]] == self._fit.patients[batch[:, 1]]
        wanted = torch.from_numpy(same.astype(np.float32)).to(self._device)
        return F.binary_cross_entropy_with_logits(self.network(one, other), wanted)

    def validate(self) -> tuple[float, dict[str, float]]:
        """Compute the negated loss on genuine pairs of the validation split and fixed impostor pairs."""
        vectors = torch.from_numpy(embed_preprocessed(self.encoder, self._validation, self._device))
        one, other = self._pairs.T
        same = self._validation.patients[one] == self._validation.patients[other]
        with torch.no_grad():
            logits = self.network(vectors[one].to(self._device), vectors[other].to(self._device)).cpu()
        loss = F.binary_cross_entropy_with_logits(logits, torch.from_numpy(same.astype(np.float32)))
        return -float(loss), {"validation_loss": float(loss)}

    def memory(self) -> dict[str, Tensor]:
        """Return no state."""
        return {}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Restore no state."""
