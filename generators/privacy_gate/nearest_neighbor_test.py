"""Nearest neighbor test: are synthetic images nearer to training patients than to holdout patients?

An alarm only. A generator that memorized nothing gives a share of one half, but one that copies every
hundredth image hardly changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.privacy_gate.parameters import TEST_CONFIDENCE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With the observed value 10,000 in total, so that the quantile is an integer rank.
_DRAWS: Final = 9_999
# Permutations per block: bounds memory.
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class NearestNeighborTest:
    """Share of images that are nearer to training than to holdout.

    Attributes
    ----------
    share
        Of all images.
    lower
        One-sided lower bound; above 0.5 it raises the alarm.
    images, patients
        Number of images, and of patients per split.
    """

    share: float
    lower: float
    images: int
    patients: int

    @property
    def alarm(self) -> bool:
        """Whether significantly more images are nearer to training."""
        return self.lower > 0.5


def nearest_neighbor_test(
    nearest: NDArray[np.int64], in_training: NDArray[np.bool_], patients: int
) -> NearestNeighborTest:
    """Test where images have their nearest neighbor, with a permutation test by patient pairs.

    Images near one patient are not independent. The null distribution therefore exchanges, 9,999 times, which
    patient of each pair was trained on.

    Parameters
    ----------
    nearest : array of int, shape (images,)
        Pair of patients, from 0, that the nearest image belongs to.
    in_training : array of bool, shape (images,)
        Whether that is the training patient of the pair.
    patients : int
        Number of pairs.
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
    # Rank of the confidence among the permutations and the observed value.
    rank = int(np.ceil(TEST_CONFIDENCE * (_DRAWS + 1))) - 1
    return NearestNeighborTest(float(share), float(max(share - by_chance[rank], 0.0)), images, patients)
