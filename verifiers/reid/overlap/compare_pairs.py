"""Scores of pairs of images: the search for candidate pairs, and their similarity by the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.models.score_pairs import score_rows
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import Embeddings

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

# The verification model scores all pairs of images up to this number, beyond it only pairs of neighbors.
EVERY_PAIR_UP_TO: Final = 1 << 20
NEIGHBORS: Final = 20
_AT_ONCE: Final = 1 << 14
_MAX_NEIGHBORS: Final = 2_000
_QUERIES: Final = 4_096


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scored pairs; all arrays have one entry per pair.

    Attributes
    ----------
    first, second
        Rows of the embeddings of the first and of the second dataset, in ascending order.
    distance
        Euclidean distance of the embeddings of the retrieval model.
    score
        Higher is more similar: score of the verification model, or the negated distance without one.
    complete
        Whether every pair within the requested distance is included.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    distance: NDArray[np.float64]
    score: NDArray[np.float64]
    complete: bool = True


def score_pairs(
    one: Embeddings,
    other: Embeddings,
    verifier: Verification | None,
    *,
    within: float,
    neighbors: int = NEIGHBORS,
) -> PairScores:
    """Find and score pairs of images of two datasets.

    Parameters
    ----------
    one, other : Embeddings
        Embeddings by the same models.
    verifier : Verification or None
        Scores the pairs; without it the score is the negated distance.
    within : float
        Every pair up to this distance is included, unless ``complete`` of the result is False.
    neighbors : int
        The nearest neighbors of every image, in both directions, are included at any distance. If there are
        few enough pairs, a verification model scores all of them.

    Returns
    -------
    PairScores
        Rows of ``first`` are those of ``one``, rows of ``second`` those of ``other``.
    """
    import numpy as np

    complete = True
    if verifier is not None and is_exhaustive([len(one.first), len(other.first)]):
        pairs = np.indices((len(one.first), len(other.first)), np.int64).reshape(2, -1)
    else:
        forth, all_forth = _near(one, other, within, neighbors)
        back, all_back = _near(other, one, within, neighbors)
        # Both directions, as being a nearest neighbor is not symmetric.
        pairs = np.unique(np.hstack([forth, back[::-1]]), axis=1)
        complete = all_forth and all_back
    return _scored(one, other, verifier, pairs, complete)


def score_within(
    one: Embeddings, verifier: Verification | None, *, within: float, neighbors: int = NEIGHBORS
) -> PairScores:
    """Find and score pairs of different patients within a dataset.

    Parameters
    ----------
    one : Embeddings
        Embeddings of the dataset.
    verifier, within, neighbors
        See `score_pairs`.
    """
    import numpy as np

    complete = True
    if verifier is not None and is_exhaustive([len(one.first)] * 2):
        pairs = np.stack(np.triu_indices(len(one.first), 1)).astype(np.int64)
    else:
        # One neighbor more, since every image is its own nearest neighbor.
        near, complete = _near(one, one, within, neighbors + 1)
        pairs = np.unique(np.sort(near[:, near[0] != near[1]], axis=0), axis=1)
    return _scored(one, one, verifier, pairs[:, one.patients[pairs[0]] != one.patients[pairs[1]]], complete)


def is_exhaustive(images: Sequence[int]) -> bool:
    """Whether a verification model scores all pairs of the two largest datasets.

    Parameters
    ----------
    images : sequence of int
        Number of images of each dataset.
    """
    largest = sorted(images)[-2:]
    return len(largest) < 2 or largest[0] * largest[1] <= EVERY_PAIR_UP_TO


def score_all_within(one: Embeddings, verifier: Verification | None) -> PairScores:
    """Score all pairs of images of one dataset."""
    import numpy as np

    pairs = np.stack(np.triu_indices(len(one.first), 1)).astype(np.int64)
    return _scored(one, one, verifier, pairs, complete=True)


def _scored(
    one: Embeddings,
    other: Embeddings,
    verifier: Verification | None,
    pairs: NDArray[np.int64],
    complete: bool,
) -> PairScores:
    import numpy as np

    first, second = pairs
    distance, score = np.empty(len(first)), np.empty(len(first))
    for start in range(0, len(first), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        i, j = first[part], second[part]
        distance[part] = _distances(one.first, other.first, i, j)
        if verifier is None:
            score[part] = -distance[part]
        elif one.second is None or other.second is None:
            raise ValueError("the verification model has not read these images")
        else:
            score[part] = score_rows(verifier, one.second, i, other.second, j)
    # Rounded: the last bits depend on how a BLAS library blocks its sums, and no decision may.
    return PairScores(first, second, distance.round(6), score.round(6), complete)


def _near(
    queries: Embeddings, vectors: Embeddings, within: float, neighbors: int
) -> tuple[NDArray[np.int64], bool]:
    """Pairs of queries and nearest rows, shape (2, n), with all rows up to the distance ``within``."""
    import numpy as np

    found, complete = [np.empty((2, 0), np.int64)], True
    todo, wanted = np.arange(len(queries.images)), neighbors
    while len(todo):
        later = []
        for start in range(0, len(todo), _QUERIES):
            batch = todo[start : start + _QUERIES]
            near, rows = vectors.search.nearest(queries.first[batch], min(wanted, len(vectors.images)))
            full = (near[:, -1] <= within) & (rows.shape[1] < len(vectors.images))
            # Gives up at a limit, since one query may have the whole dataset within the distance.
            if wanted >= _MAX_NEIGHBORS:
                complete, full = complete and not full.any(), np.zeros_like(full)
            pairs = np.stack([np.repeat(batch[~full], rows.shape[1]), rows[~full].reshape(-1)])
            # Row -1: the visited lists had too few vectors, so that the next nearest ones are unknown.
            complete = complete and bool((pairs[1] >= 0).all())
            found.append(pairs[:, pairs[1] >= 0])
            later.append(batch[full])
        todo, wanted = np.concatenate(later), 4 * wanted
    return np.hstack(found), complete


def _distances(
    one: NDArray[np.float32], other: NDArray[np.float32], i: NDArray[np.int64], j: NDArray[np.int64]
) -> NDArray[np.float64]:
    import numpy as np

    found = np.empty(len(i))
    # Blocks of 32 MiB in float64.
    step = max(1, (1 << 22) // one.shape[1])
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        apart = one[i[part]].astype(np.float64) - other[j[part]]
        found[part] = np.sqrt(np.einsum("nd,nd->n", apart, apart))
    return found
