"""AdamW (Loshchilov and Hutter 2019) on arrays of a state, as torch computes it, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from medsanitize.verifiers.reid.training.sums import SERVER_ONLY, Arrays, State
from numpy.typing import NDArray

_FIRST, _SECOND = f"{SERVER_ONLY}first.", f"{SERVER_ONLY}second."
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


@dataclass(frozen=True, slots=True)
class AdamW:
    """The optimizer of some parameters.

    Attributes
    ----------
    rates
        Learning rate by name of the parameter.
    decay
        Weight decay.
    """

    rates: Mapping[str, float]
    decay: float

    def start(self, parameters: Arrays) -> dict[str, NDArray[np.float64]]:
        """Return the moments before the first step, as a part of a state."""
        return {
            f"{moment}{name}": np.zeros_like(parameters[name])
            for moment in (_FIRST, _SECOND)
            for name in self.rates
        }

    def stepped(self, state: State, gradients: Arrays, step: int) -> dict[str, NDArray[np.float64]]:
        """Return parameters and moments after a step, counted from 1."""
        following = {}
        for name, rate in self.rates.items():
            first = _BETAS[0] * state[f"{_FIRST}{name}"] + (1 - _BETAS[0]) * gradients[name]
            second = _BETAS[1] * state[f"{_SECOND}{name}"] + (1 - _BETAS[1]) * gradients[name] ** 2
            deviation = np.sqrt(second / (1 - _BETAS[1] ** step)) + _EPSILON
            move = first / (1 - _BETAS[0] ** step) / deviation
            following[name] = state[name] * (1 - rate * self.decay) - rate * move
            following[f"{_FIRST}{name}"], following[f"{_SECOND}{name}"] = first, second
        return following
