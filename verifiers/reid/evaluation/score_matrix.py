"""Symmetric matrix of the scores of all pairs of images: 400 MB for 10,000 images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.reid.models.score_pairs import score_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

_ROWS: Final = 256


def distance_scores(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the negated Euclidean distance of every two embeddings; higher is more similar.

    Packhäuser et al. 2022 rank by the same distance.
    """
    import numpy as np

    # float64: for near vectors the difference of squares cancels.
    exact = np.asarray(vectors, dtype=np.float64)
    squares = np.einsum("ij,ij->i", exact, exact)
    scores = np.empty((len(exact), len(exact)), dtype=np.float32)
    for start in range(0, len(exact), _ROWS):
        end = start + _ROWS
        # Only the upper half is computed, so that both halves are equal in every bit.
        products = exact[start:end] @ exact[start:].T
        apart = np.maximum(squares[start:end, None] + squares[None, start:] - 2 * products, 0)
        scores[start:end, start:] = -np.sqrt(apart)
        scores[start:, start:end] = scores[start:end, start:].T
    return scores


def verifier_scores(
    vectors: NDArray[np.float32], verifier: Verification, done: Callable[[int], None] = lambda _: None
) -> NDArray[np.float32]:
    """Score every two embeddings by a verification model.

    Parameters
    ----------
    vectors : array of float32, shape (n, dimension)
        Embeddings.
    verifier : Verification
        The model.
    done : callable
        Called with the number of pairs finished since the last call; may raise to cancel.

    Returns
    -------
    array of float32, shape (n, n)
        Symmetric, with a diagonal of ones.
    """
    import numpy as np

    scores = np.ones((len(vectors), len(vectors)), dtype=np.float32)
    first, second = np.triu_indices(len(vectors), 1)
    found = score_rows(verifier, vectors, first, vectors, second, done=done)
    scores[first, second] = scores[second, first] = found
    return scores
