"""The exact search: every vector is looked at, a chunk at a time, so that they need not fit into memory."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_VECTORS: Final = 4_096
_QUERIES: Final = 1_024
"""So many of both are compared in one product: what it makes, 16 MiB, hardly leaves the cache."""
_SPARE: Final = 64
_ROUNDING: Final = 2.0**-24


def distances(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Euclidean distances of one query, summed in float64: they depend on no library's way of blocking."""
    import numpy as np

    apart = vectors.astype(np.float64) - query.astype(np.float64)
    near: NDArray[np.float32] = np.sqrt((apart * apart).sum(axis=1)).astype(np.float32)
    return near


def nearest(
    vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The ``k`` nearest of every query: Euclidean distances, ascending, and rows; equal ones by row.

    Products of matrices in float32 leave those that could be among them, whatever the rounding, and these
    are ranked by their distance in float64.
    """
    import numpy as np

    k = min(k, len(vectors))
    near, found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), _QUERIES):
        some = np.asarray(queries[start : start + _QUERIES])
        of, rows = _candidates(vectors, some, k)
        ends = np.searchsorted(of, np.arange(len(some) + 1))
        for number, (begin, end) in enumerate(pairwise(ends)):
            candidates = np.sort(rows[begin:end])
            exact = distances(vectors[candidates], some[number])
            first = np.argsort(exact, kind="stable")[:k]
            near[start + number], found[start + number] = exact[first], candidates[first]
    return near, found


def _candidates(
    vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of queries, ascending, and rows of vectors that may be among their ``k`` nearest.

    The nearest v of a query q has the largest q.v - |v|^2 / 2: one product of (q, 1) and (v, -|v|^2 / 2).
    """
    import numpy as np

    asked = np.hstack([queries, np.ones((len(queries), 1), np.float32)])
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
    of, rows, values = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
    limits, longest, kept = np.full(len(queries), -np.inf), 0.0, 0
    for start in range(0, len(vectors), _VECTORS):
        chunk = np.asarray(vectors[start : start + _VECTORS])
        squares = np.einsum("nd,nd->n", chunk, chunk, dtype=np.float64)
        products = asked @ np.hstack([chunk, (-squares / 2).astype(np.float32)[:, None]]).T
        longest = max(longest, float(squares.max()) ** 0.5)
        slack = 2 * asked.shape[1] * _ROUNDING * longest * (lengths + longest / 2)
        if start == 0 and len(chunk) >= k:
            limits = np.partition(products, -k, axis=1)[:, -k] - slack
        found = np.flatnonzero(products >= limits.astype(np.float32)[:, None])
        of, rows = np.hstack([of, found // len(chunk)]), np.hstack([rows, found % len(chunk) + start])
        values = np.hstack([values, products.reshape(-1)[found]])
        if len(of) > 2 * kept or start + _VECTORS >= len(vectors):
            best, limits = _best(of, rows, values, k, slack)
            of, rows, values, kept = of[best], rows[best], values[best], len(best)
    return of, rows


def _best(
    of: NDArray[np.int64],
    rows: NDArray[np.int64],
    values: NDArray[np.float32],
    k: int,
    slack: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places of the ``k`` largest values of every query, and of those hardly smaller; and from where on."""
    import numpy as np

    order = np.lexsort((rows, -values, of))
    starts = np.searchsorted(of[order], np.arange(len(slack)))
    rank = np.arange(len(order)) - starts[of[order]]
    full = np.bincount(of, minlength=len(slack)) >= k
    limits = np.full(len(slack), -np.inf)
    limits[full] = values[order][starts[full] + k - 1] - slack[full]
    near = (rank < k) | ((values[order] >= limits[of[order]]) & (rank < k + _SPARE))
    return order[near], limits
