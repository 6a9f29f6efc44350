"""Are the images nearer to the patients who were trained on than to those who were not?

An alarm and no more: images of no one are as near to both, but a generator that copies one time in a hundred
hardly moves the share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.parameters import TESTED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DRAWS: Final = 9_999
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class NearestNeighborTest:
    """How many images are nearer to training than to holdout.

    Attributes
    ----------
    share
        Of the images.
    lower
        One-sided bound of it; 0.5 or less says nothing.
    images, patients
        Images, and patients of either split.
    """

    share: float
    lower: float
    images: int
    patients: int

    @property
    def alarm(self) -> bool:
        """Whether more are nearer to training than chance explains."""
        return self.lower > 0.5


def nearest_neighbor_test(
    nearest: NDArray[np.int64], in_training: NDArray[np.bool_], patients: int
) -> NearestNeighborTest:
    """Judge where images have their nearest image.

    Images that are near one patient are not independent. Which patient of a pair was trained on is exchanged
    by chance, 9,999 times, and the bound is what that leaves of the share.

    Parameters
    ----------
    nearest : array of int, shape (images,)
        Pair of patients, from 0, that the nearest image belongs to.
    in_training : array of bool, shape (images,)
        Whether it is of the pair's training patient.
    patients : int
        Pairs.
    """
    import numpy as np

    images = len(nearest)
    if not images or not patients:
        return NearestNeighborTest(0.0, 0.0, images, patients)
    weights = np.bincount(nearest, np.where(in_training, 1.0, -1.0), patients)
    share = 0.5 + weights.sum() / (2 * images)
    draw = np.random.default_rng(0)
    moved = [
        draw.choice([-1.0, 1.0], (min(_AT_ONCE, _DRAWS - start), patients)) @ weights
        for start in range(0, _DRAWS, _AT_ONCE)
    ]
    by_chance = np.sort(np.concatenate(moved)) / (2 * images)
    # Of as many draws and the one that happened, this one is the rank that the confidence asks for.
    rank = int(np.ceil(TESTED * (_DRAWS + 1))) - 1
    return NearestNeighborTest(float(share), float(max(share - by_chance[rank], 0.0)), images, patients)
