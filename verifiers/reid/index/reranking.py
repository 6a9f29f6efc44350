"""Search of a whole gallery: several scores fused, and ranks corrected by what else is near.

Two images of one patient are each among the other's nearest images, and the images near one of them are near
the other; the nearest image of a stranger has nearer ones itself. Re-ranking by k-reciprocal neighbors (Zhong
et al. 2017) counts that. It uses no patient, but all images: it ranks a gallery and says nothing about a
single pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

# Neighbors that must be mutual: most patients have few images. With 4 or 6, the nearest image was a mate less
# often at hospitals held out.
NEIGHBORS: Final = 2
# Weight of the score itself.
OWN_WEIGHT: Final = 0.5
# Share of its own set that a neighbor's mutual neighbors must have in common with it to be added.
_COMMON: Final = 2 / 3


def fuse_scores(scores: Sequence[NDArray[np.floating]], weights: Sequence[float]) -> NDArray[np.float64]:
    """Add weighted scores, each in deviations from its mean over all pairs.

    Parameters
    ----------
    scores : sequence of arrays, shape (images, images) each
        Symmetric; higher is more similar.
    weights : sequence of float
        Weight of each.

    Returns
    -------
    array of float64, shape (images, images)
        Symmetric. The diagonal has no meaning.
    """
    import numpy as np

    pairs = np.triu_indices(len(scores[0]), 1)
    fused = np.zeros(scores[0].shape)
    for one, weight in zip(scores, weights, strict=True):
        values = one[pairs].astype(np.float64)
        # Equal scores say nothing, and have no deviation to divide by.
        if len(values) and values.std() > 0:
            fused += weight * (one - values.mean()) / values.std()
    return fused


def rerank_scores(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Re-rank all images for every image by k-reciprocal neighbors.

    Parameters
    ----------
    scores : array, shape (images, images)
        Symmetric; higher is more similar. The diagonal has no effect.

    Returns
    -------
    array of float64, shape (images, images)
        Higher is more similar; to be compared within a row only. The diagonal has no meaning.
    """
    import numpy as np

    apart = -np.array(scores, np.float64)
    np.fill_diagonal(apart, np.inf)
    apart -= apart.min()
    np.fill_diagonal(apart, 0)
    apart /= np.maximum(apart.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    # Row by row, as a gallery may be large.
    order = np.stack([np.argsort(row, kind="stable")[: NEIGHBORS + 1] for row in apart])
    sets = _neighbor_sets(apart, order)
    apart *= OWN_WEIGHT
    apart += (1 - OWN_WEIGHT) * _jaccard_distances(sets)
    return np.asarray(-apart)


def _neighbor_sets(apart: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float32]:
    """Fuzzy set of the mutual neighbors of every image, one row each that sums to 1."""
    import numpy as np

    mutual = [_mutual(order, image, NEIGHBORS) for image in range(len(order))]
    close = [_mutual(order, image, NEIGHBORS // 2) for image in range(len(order))]
    sets = np.zeros(apart.shape, np.float32)
    for image, own in enumerate(mutual):
        members = own
        for neighbor in own:
            theirs = close[neighbor]
            if len(np.intersect1d(theirs, own)) > _COMMON * len(theirs):
                members = np.union1d(members, theirs)
        weights = np.exp(-apart[image, members])
        sets[image, members] = weights / weights.sum()
    return sets


def _mutual(order: NDArray[np.intp], image: int, count: int) -> NDArray[np.intp]:
    """The ``count`` nearest images that have the image among their own nearest, and the image itself."""
    import numpy as np

    near = order[image, : count + 1]
    return np.asarray(near[(order[near, : count + 1] == image).any(axis=1)])


def _jaccard_distances(sets: NDArray[np.float32]) -> NDArray[np.float32]:
    """One minus the Jaccard index of every two fuzzy sets, whose rows sum to 1."""
    import numpy as np

    columns = [np.flatnonzero(column) for column in sets.T]
    distances = np.empty(sets.shape, np.float32)
    for image, own in enumerate(sets):
        common = np.zeros(len(sets), np.float32)
        for member in np.flatnonzero(own):
            holders = columns[member]
            common[holders] += np.minimum(own[member], sets[holders, member])
        distances[image] = 1 - common / (2 - common)
    return distances
