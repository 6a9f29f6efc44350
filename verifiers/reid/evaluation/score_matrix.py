"""The score of every pair of images, in one symmetric matrix: 10,000 images take 400 MB."""

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
    """Return the negative Euclidean distance of every two vectors: higher is more alike."""
    import numpy as np

    exact = np.asarray(vectors, dtype=np.float64)
    squares = np.einsum("ij,ij->i", exact, exact)
    scores = np.empty((len(exact), len(exact)), dtype=np.float32)
    for start in range(0, len(exact), _ROWS):
        end = start + _ROWS
        # Only the upper half is computed, so that both halves agree in every bit.
        products = exact[start:end] @ exact[start:].T
        apart = np.maximum(squares[start:end, None] + squares[None, start:] - 2 * products, 0)
        scores[start:end, start:] = -np.sqrt(apart)
        scores[start:, start:end] = scores[start:end, start:].T
    return scores


def verifier_scores(
    vectors: NDArray[np.float32], verifier: Verification, done: Callable[[int], None] = lambda _: None
) -> NDArray[np.float32]:
    """Return the verifier's score of every two of its vectors; ``done`` is told of pairs, and may raise."""
    import numpy as np

    scores = np.ones((len(vectors), len(vectors)), dtype=np.float32)
    first, second = np.triu_indices(len(vectors), 1)
    found = score_rows(verifier, vectors, first, vectors, second, done=done)
    scores[first, second] = scores[second, first] = found
    return scores
