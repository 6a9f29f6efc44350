"""Images from the gradient of a linear first layer: read off for one image, unmixed for a batch.

A row of the gradient of the weights is a sum of the images, each times the error of the image at that unit,
and the gradient of the biases is the sum of these errors. One image is their quotient (Phong et al. 2018).
Those of a batch are the independent components of the rows (cocktail party attack, Kariyappa et al. 2023);
differences of neighboring pixels are unmixed, since they are more independent than gray values, and the
biases give sign and scale of each component.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from medsanitize.verifiers.reid.inversion.training_step import Batch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

_STEPS = 200
_CLOSE = 1e-7
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class PerceptronRecipe:
    """A classifier whose first layer is linear in the gray values: the most that a gradient can give away.

    Attributes
    ----------
    name
        Value of ``--recipe``.
    units
        Units of the first layer; a step of fewer images than units can be unmixed.
    epochs, seed
        Epochs by which a private training is planned, and the seed of the weights.
    """

    name: str = "perceptron"
    units: int = 128
    epochs: int = 20
    seed: int = 0


class Perceptron:
    """The classifier at the start of its training, as `training_step.AttackedNetwork`.

    Parameters
    ----------
    recipe
        The recipe.
    size
        Width and height of the images in pixels.
    count
        Number of classes.
    """

    def __init__(self, recipe: PerceptronRecipe, size: int, count: int) -> None:
        torch.manual_seed(recipe.seed)
        self.size = size
        layers = nn.Linear(size * size, recipe.units), nn.Sigmoid(), nn.Linear(recipe.units, count)
        self.network = nn.Sequential(nn.Flatten(), *layers)
        self.parameters = tuple(self.network.parameters())

    def loss(self, batch: Batch) -> Tensor:
        """Compute the mean cross entropy of a batch."""
        return F.cross_entropy(self.network(batch.images), batch.classes)

    def gradient(self, batch: Batch, *, differentiable: bool = False) -> tuple[Tensor, ...]:
        """Compute the gradient of the loss of a batch."""
        return torch.autograd.grad(self.loss(batch), self.parameters, create_graph=differentiable)


def unmixed(sent: Sequence[Tensor], size: int, count: int, check: Callable[[], None]) -> NDArray[np.float32]:
    """Reconstruct the images of a step from the gradient of a `Perceptron`, ``(count, size, size)``.

    Parameters
    ----------
    sent
        The gradient: weights and biases of the first layer come first.
    size
        Width and height of the images in pixels.
    count
        Number of images of the step.
    check
        Called before every step of the search; may raise to cancel.
    """
    rows, biases = (one.double().numpy() for one in sent[:2])
    # The span of the images: count directions, whatever the number of units.
    left, deviations, right = np.linalg.svd(rows, full_matrices=False)
    kept = min(count, int((deviations > _TINY * deviations[0]).sum()))
    mixed = deviations[:kept, None] * right[:kept]
    constants = left[:, :kept].T @ biases
    turned = _independent(_differences(mixed.reshape(kept, size, size)), check)
    scale = turned @ constants
    images = (turned @ mixed) / np.where(np.abs(scale) > _TINY, scale, _TINY)[:, None]
    found = np.clip(images, 0, 1).reshape(kept, size, size).astype(np.float32)
    # Noise may leave fewer directions than images.
    return np.concatenate([found, np.repeat(found[:1], count - kept, axis=0)])


def _differences(maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differences of neighboring pixels, which mix as the images do, ``(n, k)``."""
    across, down = np.diff(maps, axis=2), np.diff(maps, axis=1)
    return np.concatenate([one.reshape(len(maps), -1) for one in (across, down)], axis=1)


def _independent(signals: NDArray[np.float64], check: Callable[[], None]) -> NDArray[np.float64]:
    """Rows that map mixed signals to independent ones (FastICA, Hyvärinen 1999, symmetric, tanh)."""
    count, length = signals.shape
    values, axes = np.linalg.eigh(signals @ signals.T / length)
    # Relative: signals of vanishing size would be noise blown up.
    whitening = (axes / np.sqrt(np.maximum(values, _TINY * values[-1]))).T
    white = whitening @ signals
    turn = _orthogonal(np.random.default_rng(0).standard_normal((count, count)))
    for _ in range(_STEPS):
        check()
        curved = np.tanh(turn @ white)
        slopes = (1 - curved * curved).mean(1)
        following = _orthogonal(curved @ white.T / length - slopes[:, None] * turn)
        moved = np.abs(np.abs((following * turn).sum(1)) - 1).max()
        turn = following
        if moved < _CLOSE:
            break
    return np.asarray(turn @ whitening)


def _orthogonal(square: NDArray[np.float64]) -> NDArray[np.float64]:
    left, _, right = np.linalg.svd(square)
    return np.asarray(left @ right)
