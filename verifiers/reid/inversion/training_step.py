"""One training step of a classifier, and the gradient that a hospital sends of it, protected or not.

Batch normalization uses fixed statistics: a step with differential privacy must not mix patients, and all
settings attack the same network. Every image is of another patient, so that a batch has as many patients as
images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from medsanitize.verifiers.reid.models.networks.build import build_network
from medsanitize.verifiers.reid.training.densenet_classifier import Classes, DenseRecipe
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyPlan
from medsanitize.verifiers.reid.training.private_gradients import ClippedSum
from medsanitize.verifiers.reid.training.train_siamese import DEVIATION, MEAN
from torch import Tensor, nn
from torch.nn import functional as F

# Largest norm of a patient's gradient.
CLIP = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Images of one step.

    Attributes
    ----------
    images
        Gray values in [0, 1], shape (n, 1, size, size).
    classes
        Number of the class of each image, int64, shape (n,).
    """

    images: Tensor
    classes: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def one(self, place: int) -> Batch:
        """Return a batch with a single image."""
        return Batch(self.images[place : place + 1], self.classes[place : place + 1])


class AttackedNetwork(Protocol):
    """A classifier at the start of its training, whose weights the attacker knows."""

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """Its weights; the last are the biases of the classes."""

    def loss(self, batch: Batch) -> Tensor:
        """Compute the mean cross entropy of a batch."""

    def gradient(self, batch: Batch, *, differentiable: bool = False) -> tuple[Tensor, ...]:
        """Compute the gradient of the loss of a batch."""


class AttackedClassifier:
    """A classifier of radiographs, as `AttackedNetwork`.

    Parameters
    ----------
    recipe
        Recipe with the depths and the growth of the network.
    count
        Number of classes.
    """

    def __init__(self, recipe: DenseRecipe, count: int) -> None:
        torch.manual_seed(recipe.seed)
        encoder = build_network({"name": "densenet", "depths": list(recipe.depths), "growth": recipe.growth})
        backbone = encoder.get_submodule("backbone")
        self.network = Classes(encoder, int(getattr(backbone, "channels")), count).eval()  # noqa: B009
        self.parameters = tuple(self.network.parameters())

    def loss(self, batch: Batch) -> Tensor:
        """Compute the mean cross entropy of a batch."""
        mean, deviation = (torch.tensor(one).reshape(1, 3, 1, 1) for one in (MEAN, DEVIATION))
        vectors = self.network.encoder((batch.images.expand(-1, 3, -1, -1) - mean) / deviation)
        return F.cross_entropy(self.network(vectors), batch.classes)

    def gradient(self, batch: Batch, *, differentiable: bool = False) -> tuple[Tensor, ...]:
        """Compute the gradient of the loss of a batch."""
        return torch.autograd.grad(self.loss(batch), self.parameters, create_graph=differentiable)


def clipped_gradient(classifier: AttackedNetwork, batch: Batch) -> tuple[Tensor, ...]:
    """Compute the mean of the patients' gradients, each shortened to a norm of at most `CLIP`."""
    return tuple(one.float() / len(batch) for one in _clipped_sum(classifier, batch).sums)


def private_gradient(
    classifier: AttackedNetwork, batch: Batch, plan: PrivacyPlan, key: NoiseKey, step: int
) -> tuple[Tensor, ...]:
    """Compute the gradient of a step with differential privacy, as the private training releases it."""
    _clipped_sum(classifier, batch).release(plan, key, step)
    released = [one.grad for one in classifier.parameters]
    for one in classifier.parameters:
        one.grad = None
    return tuple(one for one in released if one is not None)


def _clipped_sum(classifier: AttackedNetwork, batch: Batch) -> ClippedSum:
    total = ClippedSum(classifier.parameters, CLIP)
    for place in range(len(batch)):
        total.add(classifier.loss(batch.one(place)))
    return total
