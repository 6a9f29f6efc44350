"""Fréchet distance of two point sets, each approximated by a Gaussian (Dowson and Landau 1982).

The estimate is biased upwards for few points in many dimensions. It is therefore reported together with the
distance of two halves of the real images, and of one half and equally many synthetic images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.generators.quality.interval import Estimate
from medsanitize.verifiers.reid.evaluation.bootstrap import draws

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Fewer resamples than elsewhere: each takes a singular value decomposition. They give a deviation only.
DRAWS: Final = 100
HALVINGS: Final = 10
_SEED: Final = 20_241_019
# 0.975 quantile of the standard normal distribution: half the width of a 95 % interval.
_Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Frechet:
    """The Fréchet distance with its interval and two reference distances.

    Attributes
    ----------
    distance
        Of all real and all synthetic images. The interval is the value plus and minus 1.96 bootstrap standard
        deviations.
    size
        Number of images per set in `matched` and `real`, which are means over ten random halvings.
    matched
        Distance of a half of the real images and equally many synthetic ones.
    real
        Distance of two halves of the real images that share no patient: the value of perfect images.
    """

    distance: Estimate
    size: int
    matched: float
    real: float


def frechet_distance(
    one: NDArray[np.float64],
    other: NDArray[np.float64],
    one_weights: NDArray[np.float64] | None = None,
    other_weights: NDArray[np.float64] | None = None,
) -> float:
    """Squared Fréchet distance of two Gaussians with the weighted means and covariances of the points.

    ``|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2))``.

    Parameters
    ----------
    one, other
        ``(n, d)`` and ``(m, d)``.
    one_weights, other_weights
        Multiplicity of each point, ``(n,)`` and ``(m,)``; 1 by default.
    """
    import numpy as np

    first_mean, first = _centered(one, one_weights)
    second_mean, second = _centered(other, other_weights)
    # With S1 = A'A and S2 = B'B, tr((S1 S2)^(1/2)) is the sum of the singular values of A B'.
    shared = np.linalg.svd(_short(first) @ _short(second).T, compute_uv=False).sum()
    between = ((first_mean - second_mean) ** 2).sum()
    return float(between + (first**2).sum() + (second**2).sum() - 2 * shared)


def frechet(
    real: NDArray[np.float32],
    synthetic: NDArray[np.float32],
    real_groups: NDArray[np.int64],
    synthetic_groups: NDArray[np.int64],
) -> Frechet:
    """Compute the distance of two sets of features with its interval and references.

    Parameters
    ----------
    real, synthetic
        ``(n, d)`` and ``(m, d)``.
    real_groups, synthetic_groups
        Group of each image, numbered from 0 without gaps. Whole groups are resampled and halved.
    """
    import numpy as np

    ours, theirs = real.astype(np.float64), synthetic.astype(np.float64)
    value = frechet_distance(ours, theirs)
    blocks = (
        np.concatenate(list(draws(int(groups.max()) + 1, DRAWS)))[:, groups]
        for groups in (real_groups, synthetic_groups)
    )
    # draws() is seeded: reversed, so that both sets do not get the same resamples.
    pairs = zip(next(blocks), next(blocks)[::-1], strict=True)
    drawn = [frechet_distance(ours, theirs, *weights) for weights in pairs]
    # Not percentiles: resampling with replacement repeats points, which increases the distance itself.
    wide = _Z_95 * float(np.std(drawn, ddof=1))
    size, matched, apart = _references(ours, theirs, real_groups)
    return Frechet(Estimate(value, max(value - wide, 0.0), value + wide), size, matched, apart)


def _references(
    real: NDArray[np.float64], synthetic: NDArray[np.float64], groups: NDArray[np.int64]
) -> tuple[int, float, float]:
    """Size of a set, mean distance of half to synthetic, and mean distance of half to half."""
    import numpy as np

    draw = np.random.default_rng(_SEED)
    halves = [_halves(groups, draw) for _ in range(HALVINGS)]
    size = min(*(len(half) for pair in halves for half in pair), len(synthetic))
    found = []
    for one, other in halves:
        kept = draw.permutation(one)[:size]
        found.append(
            (
                frechet_distance(real[kept], synthetic[draw.permutation(len(synthetic))[:size]]),
                frechet_distance(real[kept], real[draw.permutation(other)[:size]]),
            )
        )
    matched, apart = np.mean(found, 0)
    return size, float(matched), float(apart)


def _halves(
    groups: NDArray[np.int64], draw: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the images of two random halves; no group is split."""
    import numpy as np

    counts = np.bincount(groups)
    order = draw.permutation(len(counts))
    first = order[np.cumsum(counts[order]) <= len(groups) / 2]
    inside = np.isin(groups, first)
    return np.flatnonzero(inside), np.flatnonzero(~inside)


def _centered(
    points: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean, and centered points ``P`` scaled so that ``P'P`` is the covariance."""
    import numpy as np

    counted = np.ones(len(points)) if weights is None else weights
    mean = counted @ points / counted.sum()
    kept = counted > 0
    scale = np.sqrt(counted[kept] / max(counted.sum() - 1, 1))
    return mean, (points[kept] - mean) * scale[:, None]


def _short(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reduce to at most ``d`` rows with the same product ``P'P``."""
    import numpy as np

    if len(points) <= points.shape[1]:
        return points
    # P = QR with orthogonal Q gives P'P = R'R; the singular value decomposition is then d x d at most.
    short: NDArray[np.float64] = np.linalg.qr(points, mode="r")  # type: ignore[assignment]
    return short
