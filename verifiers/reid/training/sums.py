"""Training from sums over images only, so that several sites can train together without showing an image.

Rounds alternate: every site computes its contribution from the state, contributions are added, and the next
state follows from the sums. Nothing else is exchanged, and the order of the sites does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.float64]]
State = Mapping[str, NDArray[np.float64]]
PHASE = "phase"
# Not sent to the sites, which do not need it.
SERVER_ONLY = "server."
COUNTS = ("fit_images", "fit_patients", "validation_images", "validation_patients")


@dataclass(frozen=True, slots=True)
class Summed:
    """One array that is summed.

    Attributes
    ----------
    shape
        Its shape.
    bound
        Largest absolute value of the sum; the precision follows from it.
    """

    shape: tuple[int, ...]
    bound: float


@dataclass(frozen=True, slots=True)
class SiteImages:
    """The images of one site, split by patient.

    Attributes
    ----------
    fit, validation
        Both parts.
    unfinished
        Folder of the cached features.
    progress, cancellation
        Of the site.
    """

    fit: TrainingDataset
    validation: TrainingDataset
    unfinished: Path
    progress: Progress
    cancellation: Cancellation

    def counts(self) -> dict[str, NDArray[np.float64]]:
        """Count images and patients of both parts."""
        numbers = [
            number
            for part in (self.fit, self.validation)
            for number in (len(part), len(np.unique(part.patients)))
        ]
        return {name: np.array(float(number)) for name, number in zip(COUNTS, numbers, strict=True)}


class SummedTraining(Protocol):
    """A training by rounds of sums."""

    def start(self) -> State:
        """Return the state before the first round."""

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed in the round of a state; empty when nothing remains."""

    def contribution(self, state: State, site: SiteImages, number: int, /) -> Arrays:
        """Compute what a site adds in the round of a number, from 0."""

    def following(self, state: State, sums: Arrays) -> State:
        """Return the state that follows from the sums."""

    def trained(self, state: State) -> TrainedModel:
        """Return the network of a state in which only calibration remains, or nothing."""


def counted(most: int) -> dict[str, Summed]:
    """Return what every training sums first: counts of images and patients."""
    return {name: Summed((), float(most)) for name in COUNTS}


def phase_of(state: State) -> int:
    """Return the number of the phase of a state."""
    return int(state[PHASE])


def packed_triangle(square: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangle of a symmetric matrix as a vector."""
    return square[np.triu_indices(len(square))]


def unpacked_triangle(packed: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Return the symmetric matrix of an upper triangle."""
    square = np.zeros((side, side))
    square[np.triu_indices(side)] = packed
    return square + np.triu(square, 1).T


def triangle(side: int) -> tuple[int, ...]:
    """Return the shape of the upper triangle of a matrix."""
    return (side * (side + 1) // 2,)
