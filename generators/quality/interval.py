"""Estimates with 95 % bootstrap intervals; whole patients are resampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medsanitize.verifiers.reid.evaluation.bootstrap import intervals, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_of(values: NDArray[np.float64], groups: NDArray[np.int64]) -> Estimate:
    """Mean of one value per image; whole groups are resampled.

    Parameters
    ----------
    values
        ``(n,)``.
    groups
        Group of each image, ``(n,)``, numbered from 0 without gaps.
    """
    import numpy as np

    sums = np.bincount(groups, values)
    counts = np.bincount(groups).astype(np.float64)
    found = intervals(len(counts), lambda drawn: {"mean": ratio(drawn @ sums, drawn @ counts)})
    low, high = found["mean"]
    return Estimate(float(values.mean()), low, high)
