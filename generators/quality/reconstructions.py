"""How much images that an attack reconstructed resemble the originals, beside what needs no attack.

SSIM of radiographs of one region is high for any two of them. Two guesses are therefore compared in the same
way: images of other patients, and their mean, which resembles everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.generators.quality.interval import Estimate, mean_of
from medsanitize.generators.quality.ssim import similarity, structure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Resemblance:
    """SSIM with the originals, mean over them with 95 % intervals.

    Attributes
    ----------
    images
        Number of originals, each of another patient.
    reconstructed
        SSIM of the best-matched reconstructions.
    others, mean
        SSIM of best-matched images of other patients, and of the mean of those.
    gain
        What the reconstructions exceed the better guess by, image by image.
    """

    images: int
    reconstructed: Estimate
    others: Estimate
    mean: Estimate
    gain: Estimate

    @property
    def above_chance(self) -> bool:
        """Whether the reconstructions resemble the originals more than the better guess does."""
        return self.gain.low > 0


def resemblance(
    steps: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]], others: NDArray[np.float32]
) -> Resemblance:
    """Compare reconstructions with their originals.

    Parameters
    ----------
    steps
        Originals and reconstructions of each attacked step, ``(n, size, size)`` in [0, 1]; their order within
        a step is unknown to the attacker.
    others
        Images of other patients, at least as many as the largest step has.
    """
    import numpy as np

    guess = others.mean(axis=0, keepdims=True)
    rows: list[NDArray[np.float64]] = []
    start = 0
    for originals, made in steps:
        count = len(originals)
        # Each step with other images, so that one of them does not decide.
        drawn = np.take(others, range(start, start + count), axis=0, mode="wrap")
        average = np.repeat(guess, count, axis=0)
        rows.append(np.stack([matched(originals, one)[1] for one in (made, drawn, average)]))
        start += count
    found, unrelated, average = np.concatenate(rows, axis=1)
    each = np.arange(len(found))
    gain = found - np.maximum(unrelated, average)
    reached, other, mean, more = (mean_of(one, each) for one in (found, unrelated, average, gain))
    return Resemblance(len(found), reached, other, mean, more)


def matched(
    originals: NDArray[np.float32], made: NDArray[np.float32]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Assign a reconstruction to each original so that the sum of SSIM is largest.

    Returns
    -------
    array of int, array of float64
        Reconstruction of each original, and their SSIM.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    ours, theirs = ([structure(one) for one in images] for images in (originals, made))
    table = np.array([[similarity(one, other) for other in theirs] for one in ours])
    rows, columns = linear_sum_assignment(-table)
    return np.asarray(columns), np.asarray(table[rows, columns])
