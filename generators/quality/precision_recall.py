"""Is each image where the others are? Precision and recall, density and coverage of two clouds of points.

Precision and recall after Kynkäänniemi et al. 2019, density and coverage after Naeem et al. 2020: around each
point lies a ball that reaches to its k-th nearest neighbour of its own side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.quality.interval import Estimate, mean_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAREST: Final = 3
"""k of precision and recall."""
NEAREST_DENSE: Final = 5
"""k of density and coverage."""
_BLOCK: Final = 512
# What rounding may put a point outside of a ball whose edge it lies on.
_SLACK: Final = 1 + 1e-9
_EQUAL: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Shares of images that lie among those of the other side.

    Intervals draw the images that are asked about; those they are held against stay as they are.

    Attributes
    ----------
    precision
        Of synthetic images within the ball of a real one: are they realistic?
    recall
        Of real images within the ball of a synthetic one: is everything there?
    density
        In how many balls of real images a synthetic one lies, by k: 1 is as dense as the real ones.
    coverage
        Of real images with a synthetic one in their ball.
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
    """Measure all four.

    Parameters
    ----------
    real, synthetic
        Features, ``(n, d)`` and ``(m, d)``; more than five of either.
    real_groups, synthetic_groups
        Number of each image's group, from 0 without a gap; groups are drawn as wholes.
    """
    import numpy as np

    near, dense = reaches(real, (NEAREST, NEAREST_DENSE))
    (theirs,) = reaches(synthetic, (NEAREST,))
    inside, within = np.empty(len(synthetic)), np.empty(len(synthetic))
    covered = np.zeros(len(real))
    for rows, apart in _distances(synthetic, real):
        inside[rows] = (apart <= near * _SLACK).any(1)
        among = apart <= dense * _SLACK
        within[rows] = among.sum(1) / NEAREST_DENSE
        covered[among.any(0)] = 1
    found = np.empty(len(real))
    for rows, apart in _distances(real, synthetic):
        found[rows] = (apart <= theirs * _SLACK).any(1)
    return Fidelity(
        precision=mean_of(inside, synthetic_groups),
        recall=mean_of(found, real_groups),
        density=mean_of(within, synthetic_groups),
        coverage=mean_of(covered, real_groups),
    )


def reaches(points: NDArray[np.float32], nearest: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """For each k, the distance of each point to its k-th nearest other, ``(n,)``."""
    import numpy as np

    found = np.empty((len(points), len(nearest)))
    for rows, apart in _distances(points, points):
        apart[np.arange(len(apart)), np.arange(rows.start, rows.start + len(apart))] = -1
        found[rows] = np.partition(apart, nearest, axis=1)[:, list(nearest)]
    return list(found.T)


def closest(points: NDArray[np.float32], among: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Places of the ``count`` nearest of ``among`` to each point, the nearest first, ``(n, count)``."""
    import numpy as np

    parts = [np.argsort(apart, axis=1, kind="stable")[:, :count] for _, apart in _distances(points, among)]
    return np.concatenate(parts)


def _distances(
    points: NDArray[np.float32], among: NDArray[np.float32]
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Euclidean distances of blocks of points to all the others."""
    import numpy as np

    others = among.astype(np.float64)
    lengths = (others**2).sum(1)
    for start in range(0, len(points), _BLOCK):
        part = points[start : start + _BLOCK].astype(np.float64)
        squared = (part**2).sum(1)[:, None] + lengths - 2 * part @ others.T
        # The difference of large numbers: what rounding leaves of equal points is nothing.
        squared[squared < _EQUAL * lengths.max()] = 0
        yield slice(start, start + len(part)), np.sqrt(squared)
