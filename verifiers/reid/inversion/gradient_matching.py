"""Improved deep leakage from gradients: images whose gradient has the direction of the one that was sent.

After Geiping et al. 2020: the cosine between the gradients, a total variation prior, signed steps of Adam and
values kept in range. The search starts among the principal directions of other people's images, a linear form
of the generative prior of Jeon et al. 2021, so that minutes on a processor are enough. The class of a single
image is read from the last layer (iDLG, Zhao et al. 2020). Those of larger batches the attacker is told,
which makes the attack stronger than it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from medsanitize.verifiers.reid.inversion.training_step import AttackedNetwork, Batch
from numpy.typing import NDArray
from torch import Tensor

_DIRECTIONS = 64
# Share of the iterations that search among directions; the others search single pixels.
_COARSE = 0.6
# First steps, in deviations and in parts of the range of gray values; both fall to nearly nothing.
_COARSE_RATE, _FINE_RATE = 0.1, 0.01
# Weights of the mean square of coordinates, and of the mean absolute difference of neighboring pixels.
_PLAUSIBLE, _SMOOTH = 1e-3, 0.02
_TINY = 1e-20


@dataclass(frozen=True, slots=True, repr=False)
class Prior:
    """What the attacker knows of such images.

    Attributes
    ----------
    mean
        Mean of other people's images, ``(size, size)``.
    directions
        Their principal directions, times the deviations along them, ``(k, size, size)``.
    """

    mean: Tensor
    directions: Tensor


def prior_of(images: NDArray[np.float32]) -> Prior:
    """Compute a prior from images of other people, ``(n, size, size)`` in [0, 1]."""
    mean = images.mean(axis=0)
    rows = (images - mean).reshape(len(images), -1)
    _, deviations, axes = np.linalg.svd(rows, full_matrices=False)
    kept = min(_DIRECTIONS, len(images) - 1)
    scaled = axes[:kept] * (deviations[:kept, None] / np.sqrt(len(images)))
    directions = scaled.reshape(kept, *mean.shape)
    return Prior(torch.from_numpy(mean), torch.from_numpy(np.asarray(directions, np.float32)))


def class_of(gradient: Sequence[Tensor]) -> int:
    """Read the class of a single image from the gradient of the last layer's bias: the only negative number.

    Parameters
    ----------
    gradient
        Gradient of a classifier whose last parameter is that bias.
    """
    return int(gradient[-1].argmin())


def reconstruct(
    classifier: AttackedNetwork,
    sent: Sequence[Tensor],
    classes: Tensor,
    prior: Prior,
    iterations: int,
    check: Callable[[], None],
) -> Tensor:
    """Search images whose gradient has the direction of the one that was sent.

    Parameters
    ----------
    classifier
        The classifier before the step.
    sent
        The gradient.
    classes
        Class of each image, int64, shape (n,).
    prior
        What the attacker knows of such images.
    iterations
        Number of steps of the search.
    check
        Called before every iteration; may raise to cancel.

    Returns
    -------
    Tensor
        Gray values in [0, 1], shape (n, size, size).
    """
    length = _length(sent)

    def distance(images: Tensor) -> Tensor:
        check()
        found = classifier.gradient(Batch(images, classes), differentiable=True)
        product = torch.stack([(one * other).sum() for one, other in zip(found, sent, strict=True)]).sum()
        return 1 - product / (_length(found) * length + _TINY)

    coarse = max(1, round(_COARSE * iterations))
    images = _among_directions(distance, len(classes), prior, coarse)
    return _among_pixels(distance, images, max(1, iterations - coarse))[:, 0]


def _among_directions(
    distance: Callable[[Tensor], Tensor], count: int, prior: Prior, iterations: int
) -> Tensor:
    # Not all zero: images of one class would stay equal for ever.
    draw = torch.Generator().manual_seed(0)
    start = torch.randn((count, len(prior.directions)), generator=draw) * (0.1 if count > 1 else 0.0)
    coordinates = start.requires_grad_()

    def images() -> Tensor:
        return (prior.mean + torch.einsum("nk,kij->nij", coordinates, prior.directions))[:, None]

    optimizer = torch.optim.Adam([coordinates], lr=_COARSE_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)
    for _ in range(iterations):
        loss = distance(images()) + _PLAUSIBLE * coordinates.square().mean()
        (coordinates.grad,) = torch.autograd.grad(loss, [coordinates])
        optimizer.step()
        schedule.step()
    return images().detach().clamp(0, 1)


def _among_pixels(distance: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> Tensor:
    images = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([images], lr=_FINE_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)
    for _ in range(iterations):
        (gradient,) = torch.autograd.grad(distance(images) + _SMOOTH * _variation(images), [images])
        # The sign only: gradients of gradients of piecewise linear networks vary in size by orders.
        images.grad = gradient.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            images.clamp_(0, 1)
    return images.detach()


def _length(gradient: Sequence[Tensor]) -> Tensor:
    return torch.stack([one.square().sum() for one in gradient]).sum().sqrt()


def _variation(images: Tensor) -> Tensor:
    across = (images[..., 1:] - images[..., :-1]).abs().mean()
    return across + (images[..., 1:, :] - images[..., :-1, :]).abs().mean()
