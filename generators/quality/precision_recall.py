"""Precision, recall, density and coverage of two point sets.

Precision and recall after Kynkäänniemi et al. 2019, density and coverage after Naeem et al. 2020: each point
has a ball whose radius is the distance to the k-th nearest neighbor within its own set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.quality.interval import Estimate, mean_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# k of precision and recall (Kynkäänniemi et al. 2019, section 2).
NEAREST: Final = 3
# k of density and coverage (Naeem et al. 2020).
NEAREST_DENSE: Final = 5
# Rows per block: bounds the memory of the distance matrix.
_BLOCK: Final = 512
# Tolerance for points on the surface of a ball, which rounding may put outside.
_ROUNDING_TOLERANCE: Final = 1 + 1e-9
_EQUAL: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Shares of images that lie within the distribution of the other set.

    Intervals resample the tested images and keep the reference images fixed.

    Attributes
    ----------
    precision
        Share of synthetic images within a ball of a real image: realism.
    recall
        Share of real images within a ball of a synthetic image: completeness.
    density
        Mean number of real balls that contain a synthetic image, divided by k; 1 is as dense as real images.
    coverage
        Share of real images that have a synthetic image in their ball.
    """

    precision: Estimate
    recall: Estimate
    density: Estimate
    coverage: Estimate


def fidelity(
    real: NDArray[np.float32],
    synthetic: NDArray[np.float32],
    real_groups: NDArray[np.int64],
    synthetic_groups: NDArray[np.int64],
) -> Fidelity:
    """Compute the four metrics.

    Parameters
    ----------
    real, synthetic
        Features, ``(n, d)`` and ``(m, d)``, with more than five rows each.
    real_groups, synthetic_groups
        Group of each image, numbered from 0 without gaps. Whole groups are resampled.
    """
    import numpy as np

    near, dense = reaches(real, (NEAREST, NEAREST_DENSE))
    (theirs,) = reaches(synthetic, (NEAREST,))
    inside, within = np.empty(len(synthetic)), np.empty(len(synthetic))
    covered = np.zeros(len(real))
    for rows, apart in _distances(synthetic, real):
        inside[rows] = (apart <= near * _ROUNDING_TOLERANCE).any(1)
        among = apart <= dense * _ROUNDING_TOLERANCE
        within[rows] = among.sum(1) / NEAREST_DENSE
        covered[among.any(0)] = 1
    found = np.empty(len(real))
    for rows, apart in _distances(real, synthetic):
        found[rows] = (apart <= theirs * _ROUNDING_TOLERANCE).any(1)
    return Fidelity(
        precision=mean_of(inside, synthetic_groups),
        recall=mean_of(found, real_groups),
        density=mean_of(within, synthetic_groups),
        coverage=mean_of(covered, real_groups),
    )


def reaches(points: NDArray[np.float32], nearest: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """For each k, the distance of each point to its k-th nearest other point, ``(n,)``."""
    import numpy as np

    found = np.empty((len(points), len(nearest)))
    for rows, apart in _distances(points, points):
        # -1 sorts the point itself first even among duplicates, so that index k is the k-th other point.
        apart[np.arange(len(apart)), np.arange(rows.start, rows.start + len(apart))] = -1
        found[rows] = np.partition(apart, nearest, axis=1)[:, list(nearest)]
    return list(found.T)


def closest(points: NDArray[np.float32], among: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Indices of the ``count`` nearest points of ``among``, nearest first, ``(n, count)``."""
    import numpy as np

    parts = [np.argsort(apart, axis=1, kind="stable")[:, :count] for _, apart in _distances(points, among)]
    return np.concatenate(parts)


def _distances(
    points: NDArray[np.float32], among: NDArray[np.float32]
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield Euclidean distances of blocks of points to all others."""
    import numpy as np

    others = among.astype(np.float64)
    lengths = (others**2).sum(1)
    for start in range(0, len(points), _BLOCK):
        part = points[start : start + _BLOCK].astype(np.float64)
        squared = (part**2).sum(1)[:, None] + lengths - 2 * part @ others.T
        # Cancellation leaves a small remainder for equal points; their distance must be exactly 0.
        squared[squared < _EQUAL * lengths.max()] = 0
        yield slice(start, start + len(part)), np.sqrt(squared)
