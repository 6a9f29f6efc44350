"""The exact search: every vector is looked at, a chunk at a time, so that they need not fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHUNK: Final = 262_144
_SPARE: Final = 8


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

    faiss finds a few more than asked by squared distances in float32, and these are ranked again.
    """
    import faiss
    import numpy as np

    wanted = min(k + _SPARE, len(vectors))
    best = np.empty((len(queries), 0), np.float32)
    rows = np.empty((len(queries), 0), np.int64)
    for start in range(0, len(vectors), _CHUNK):
        chunk = np.ascontiguousarray(vectors[start : start + _CHUNK])
        near, found = faiss.knn(np.ascontiguousarray(queries), chunk, min(wanted, len(chunk)))
        best, rows = np.hstack([best, near]), np.hstack([rows, found + start])
        kept = np.lexsort((rows, best), axis=1)[:, :wanted]
        best, rows = np.take_along_axis(best, kept, 1), np.take_along_axis(rows, kept, 1)
    k = min(k, len(vectors))
    near, found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for number, candidates in enumerate(rows):
        candidates = np.sort(candidates)
        exact = distances(vectors[candidates], queries[number])
        first = np.argsort(exact, kind="stable")[:k]
        near[number], found[number] = exact[first], candidates[first]
    return near, found
