"""Diversity of a set of images: structural similarity and feature distance over all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.quality.interval import Estimate
from medsanitize.generators.quality.ssim import similarity, structure
from medsanitize.verifiers.reid.evaluation.bootstrap import intervals, quadratic, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# At most 64 images are compared: SSIM is computed for each of the 2,016 pairs.
IMAGES: Final = 64
_SEED: Final = 20_241_020


@dataclass(frozen=True, slots=True)
class Diversity:
    """Means over all pairs of images of different groups.

    Attributes
    ----------
    images
        Number of images compared, selected at random.
    ssim
        Mean structural similarity; lower is more varied.
    distance
        Mean Euclidean distance of features; higher is more varied.
    """

    images: int
    ssim: Estimate
    distance: Estimate


def diversity(
    squares: NDArray[np.float32], features: NDArray[np.float32], groups: NDArray[np.int64]
) -> Diversity:
    """Compare every pair of up to ``IMAGES`` images, one image per group.

    Parameters
    ----------
    squares
        Preprocessed images, ``(n, s, s)``, in [0, 1].
    features
        ``(n, d)``.
    groups
        ``(n,)``. Images of one group are never compared.
    """
    import numpy as np

    order = np.random.default_rng(_SEED).permutation(len(squares))
    # One image per patient: images of one patient are similar and would lower the measured diversity.
    _, first = np.unique(groups[order], return_index=True)
    chosen = order[np.sort(first)][:IMAGES]
    seen = [structure(squares[place]) for place in chosen]
    alike = np.zeros((len(seen), len(seen)))
    for one in range(len(seen)):
        for other in range(one):
            alike[one, other] = alike[other, one] = similarity(seen[one], seen[other])
    points = features[chosen].astype(np.float64)
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    return Diversity(len(chosen), mean_of_pairs(alike), mean_of_pairs(apart))


def mean_of_pairs(values: NDArray[np.float64]) -> Estimate:
    """Mean of the off-diagonal entries of a symmetric ``(n, n)`` matrix; images are resampled, not pairs."""
    import numpy as np

    others = 1 - np.eye(len(values))
    paired = values * others

    def statistic(drawn: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return {"mean": ratio(quadratic(drawn, paired), quadratic(drawn, others))}

    low, high = intervals(len(values), statistic)["mean"]
    return Estimate(float(paired.sum() / others.sum()), low, high)
