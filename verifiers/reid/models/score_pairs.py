"""Scores of many pairs of embeddings by a verification model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Verification
    from numpy.typing import NDArray

# Pairs per block, whose embeddings stay in the cache.
_AT_ONCE: Final = 128


def score_rows(
    verifier: Verification,
    one: NDArray[np.float32],
    first: NDArray[np.int64],
    other: NDArray[np.float32],
    second: NDArray[np.int64],
    *,
    done: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float32]:
    """Score pairs of embeddings.

    Parameters
    ----------
    verifier : Verification
        The model.
    one, other : array of float32, shapes (n, dimension) and (m, dimension)
        Embeddings.
    first, second : array of int64, shape (pairs,)
        Rows of ``one`` and of ``other`` that make a pair.
    done : callable
        Called with the number of pairs scored since the last call; may raise to cancel.

    Returns
    -------
    array of float32, shape (pairs,)
        Score of each pair.
    """
    return _rows(verifier.score, one, first, other, second, done)


def raw_rows(
    verifier: Verification,
    one: NDArray[np.float32],
    first: NDArray[np.int64],
    other: NDArray[np.float32],
    second: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Score pairs as `score_rows` does, unbounded; see `Verification.raw`."""
    return _rows(verifier.raw, one, first, other, second, lambda _: None)


def _rows(
    score: Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]],
    one: NDArray[np.float32],
    first: NDArray[np.int64],
    other: NDArray[np.float32],
    second: NDArray[np.int64],
    done: Callable[[int], None],
) -> NDArray[np.float32]:
    import numpy as np
    from threadpoolctl import threadpool_limits

    found = np.empty(len(first), np.float32)
    # Small products gain nothing from threads, and threads that wait for busy cores make them 100 times
    # slower.
    with threadpool_limits(1, "blas"):
        for start in range(0, len(first), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            found[part] = score(one[first[part]], other[second[part]])
            done(len(found[part]))
    return found


def raw_matches(
    verifier: Verification,
    one: NDArray[np.float32],
    first: NDArray[np.int64],
    other: NDArray[np.float32],
    second: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Match pairs of embeddings by a verification model before any normalization, if it tells that.

    Parameters are those of `score_rows`; of other models the unbounded score is returned.
    """
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import RawMatching

    match = verifier.likeness if isinstance(verifier, RawMatching) else verifier.raw
    return _rows(match, one, first, other, second, lambda _: None).astype(np.float64)
