"""Recovers embeddings from inner products between them, with embeddings of other people's images as prior.

An inner product with a known embedding is a linear equation. With as many independent equations as an
embedding has numbers, the solution is exact; with fewer, the missing part is what embeddings of other people
make most likely. Without any, the axes of the unknown embeddings are laid onto those of the other people's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Part of the mean variance that every direction gets: no direction is taken to be empty.
_SHRINKAGE: Final = 0.02
# Equations below this part of the strongest one are rounding errors.
_INDEPENDENT: Final = 1e-13
# Axes whose products decide the sign of a further one.
_LEADING_AXES: Final = 12
_TINY: Final = 1e-12


def recover_from_scores(
    scores: NDArray[np.float64],
    queries: NDArray[np.float64],
    others: NDArray[np.float64],
    *,
    noise: float = 0.0,
) -> NDArray[np.float64]:
    """Recover embeddings from their inner products with known ones.

    This is the conditional mean of a normal distribution with mean and covariance of ``others``.

    Parameters
    ----------
    scores : array of float64, shape (n, k)
        Inner products of n unknown embeddings and k known ones.
    queries : array of float64, shape (k, dimension)
        The known embeddings.
    others : array of float64, shape (m, dimension)
        Embeddings of other people's images.
    noise : float
        Standard deviation of the errors of the scores.

    Returns
    -------
    array of float64, shape (n, dimension)
        Estimates of the unknown embeddings.
    """
    import numpy as np

    mean = others.mean(axis=0)
    covariance = np.cov(others, rowvar=False)
    dimension = len(covariance)
    covariance = covariance + _SHRINKAGE * max(np.trace(covariance), _TINY) / dimension * np.eye(dimension)
    explained = queries @ covariance
    known = explained @ queries.T + noise**2 * np.eye(len(queries))
    weights = np.linalg.pinv(known, rcond=_INDEPENDENT, hermitian=True) @ explained
    estimates: NDArray[np.float64] = mean + (scores - queries @ mean) @ weights
    return estimates


def recover_from_gram(
    gram: NDArray[np.float64],
    known: NDArray[np.intp],
    embeddings: NDArray[np.float64],
    others: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Recover embeddings from the matrix of their inner products, some of them being known.

    Parameters
    ----------
    gram : array of float64, shape (n, n)
        Inner products of all embeddings.
    known : array of int, shape (k,)
        Rows whose embeddings are known; may be empty.
    embeddings : array of float64, shape (k, dimension)
        Embeddings of these rows.
    others : array of float64, shape (m, dimension)
        Embeddings of other people's images.

    Returns
    -------
    array of float64, shape (n, dimension)
        Estimates of all rows.
    """
    if len(known):
        return recover_from_scores(gram[:, known], embeddings, others)
    return align_axes(coordinates_of(gram, others.shape[1]), others)


def coordinates_of(gram: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Factor a Gram matrix: the embeddings up to a rotation, with their principal axes in order."""
    import numpy as np

    values, vectors = np.linalg.eigh(gram)
    kept = np.argsort(-values)[:dimension]
    coordinates: NDArray[np.float64] = vectors[:, kept] * np.sqrt(np.clip(values[kept], 0, None))
    return coordinates


def align_axes(coordinates: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotate rows so that their principal axes are those of other people's embeddings.

    The direction of each axis is the one whose first and third moments resemble those of the others.

    Parameters
    ----------
    coordinates : array of float64, shape (n, at most dimension)
        Rows up to a rotation, with their principal axes in order.
    others : array of float64, shape (m, dimension)
        Embeddings of other people's images.
    """
    import numpy as np

    axes = np.linalg.svd(others, full_matrices=False)[2]
    count = min(coordinates.shape[1], len(axes))
    rows = coordinates[:, :count]
    signs = _directions(_of_unit_size(rows), _of_unit_size(others @ axes[:count].T))
    aligned: NDArray[np.float64] = rows * signs @ axes[:count]
    return aligned


def _directions(rows: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find the sign of each axis of ``rows``, one after the other."""
    import numpy as np

    signs = np.ones(rows.shape[1])
    for axis in range(len(signs)):
        # Axes before this one have their signs.
        leading = min(axis, _LEADING_AXES)
        ours = _odd_moments(rows[:, axis], rows[:, :leading] * signs[:leading])
        theirs = _odd_moments(others[:, axis], others[:, :leading])
        signs[axis] = 1 if ours @ theirs >= 0 else -1
    return signs


def _odd_moments(axis: NDArray[np.float64], leading: NDArray[np.float64]) -> NDArray[np.float64]:
    """Moments that change their sign with the axis: mean, skewness, products with pairs of other axes."""
    import numpy as np

    pairs = np.einsum("n,ni,nj->ij", axis, leading, leading) / len(axis)
    upper = pairs[np.triu_indices(leading.shape[1])]
    return np.concatenate([[axis.mean(), (axis**3).mean()], upper])


def _of_unit_size(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    size = np.sqrt((rows**2).mean(axis=0))
    scaled: NDArray[np.float64] = rows / np.where(size > _TINY, size, 1)
    return scaled
