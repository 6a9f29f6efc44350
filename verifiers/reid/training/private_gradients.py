"""Gradients with differential privacy, one per patient and step.

The gradient of a patient comes from a backward pass of that patient's images alone. It is exact for every
layer that mixes no rows of a batch, needs the memory of two gradients whatever the number of patients, and
on a CPU is faster than gradients per image from hooks or ``vmap``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from medsanitize.errors import UsageError
from medsanitize.verifiers.reid.training.keyed_noise import NoiseKey
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyPlan
from numpy.typing import NDArray
from torch import Tensor, nn


def check_network(network: nn.Module) -> None:
    """Check that no layer mixes the images of different patients.

    Raises
    ------
    UsageError
        If one does, such as batch normalization, or keeps statistics of what it has seen.
    """
    from opacus.validators import ModuleValidator

    training = network.training
    # Layers in evaluation mode are reported as such, and not examined.
    faults = ModuleValidator.validate(network.train(), strict=False)
    network.train(training)
    if faults:
        raise UsageError(
            "The network has layers that mix patients, such as batch normalization: their gradients cannot be"
            " bounded for each patient",
            "Use group normalization",
        )


def sampled_patients(plan: PrivacyPlan, key: NoiseKey, step: int) -> NDArray[np.intp]:
    """Draw the patients of a step: each takes part independently, with the probability of the plan.

    The bound holds for this way of sampling only, so that there is no other.
    """
    return np.flatnonzero(key.uniform(f"patients/{step}", plan.patients) < plan.mechanism.rate)


class ClippedSum:
    """Sum of the gradients of patients, each scaled down to the clipping bound.

    Parameters
    ----------
    parameters
        The trained parameters.
    clip
        The largest norm over all parameters of one patient's gradient.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], clip: float) -> None:
        self._parameters: Sequence[nn.Parameter] = [one for one in parameters if one.requires_grad]
        self._clip = clip
        # In float64: rounding of the sum must not let a patient add more than the bound.
        self.sums = [torch.zeros_like(one, dtype=torch.float64) for one in self._parameters]

    def add(self, loss: Tensor) -> float:
        """Add the gradient of one patient's loss and return its norm before clipping."""
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        return self.add_gradients([one.double() if one is not None else None for one in gradients])

    def add_gradients(self, gradients: Sequence[Tensor | None]) -> float:
        """Add one patient's gradient and return its norm before clipping; one that is not finite is zero."""
        norm = math.sqrt(sum(float(one.square().sum()) for one in gradients if one is not None))
        # A number that is not finite would show that this patient took part.
        if not math.isfinite(norm):
            return norm
        scale = min(1.0, self._clip / max(norm, 1e-30))
        for total, one in zip(self.sums, gradients, strict=True):
            if one is not None:
                total.add_(one, alpha=scale)
        return norm

    def release(self, plan: PrivacyPlan, key: NoiseKey, step: int) -> None:
        """Set the gradients of the parameters: the sum with noise, by the expected number of patients."""
        deviation = plan.mechanism.noise * self._clip
        for number, (parameter, total) in enumerate(zip(self._parameters, self.sums, strict=True)):
            drawn = key.gaussian(f"noise/{step}/{number}", total.numel()).reshape(tuple(total.shape))
            noisy = total + torch.from_numpy(drawn).to(total.device) * deviation
            # Not by the number that took part, which depends on the patients.
            parameter.grad = (noisy / plan.expected).to(parameter.dtype)
