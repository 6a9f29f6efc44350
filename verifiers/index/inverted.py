"""The approximate search for large sets: inverted lists of 8-bit codes, and their measured recall."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.index.exact import distances, nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TRAIN_PER_LIST: Final = 40
_AT_ONCE: Final = 100_000
_QUERIES: Final = 500
WANTED_RECALL: Final = 0.99
WIDER: Final = 8
"""How many times more candidates than neighbours are ranked again by their exact distance."""


def write_inverted(path: Path, vectors: NDArray[np.float32]) -> tuple[int, float, int]:
    """Build inverted lists over ``vectors`` and find how many a search must visit.

    Returns
    -------
    tuple of int, float, int
        Lists to visit, share of queries whose nearest vector is found with that, number of these queries.
    """
    import faiss
    import numpy as np

    count, dimension = vectors.shape
    lists = max(1, min(65536, int(2 * count**0.5), count // 39))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dimension), dimension, lists, faiss.ScalarQuantizer.QT_8bit
    )
    index.own_fields, index.cp.seed = False, 1
    sample = np.linspace(0, count - 1, min(count, _TRAIN_PER_LIST * lists)).astype(np.int64)
    index.train(np.ascontiguousarray(vectors[sample]))
    for start in range(0, count, _AT_ONCE):
        index.add(np.ascontiguousarray(vectors[start : start + _AT_ONCE]))
    probes, recall, queries = _tune(index, vectors, lists)
    path.unlink(missing_ok=True)
    faiss.write_index(index, str(path))
    path.chmod(0o600)
    return probes, recall, queries


def _tune(index: Any, vectors: NDArray[np.float32], lists: int) -> tuple[int, float, int]:
    """Double the visited lists until the recall is as wanted; queries are vectors of the index itself."""
    import numpy as np

    rows = np.unique(np.linspace(0, len(vectors) - 1, _QUERIES).astype(np.int64))
    queries = np.ascontiguousarray(vectors[rows])
    # Each query is its own nearest neighbour, which is no merit. Who comes far behind is nobody's mate.
    true = nearest(vectors, queries, 2)[0][:, 1]
    probes = 1
    while True:
        index.nprobe = probes
        recall = float((ranked_again(index, vectors, queries, 2)[0][:, 1] <= true).mean())
        if recall >= WANTED_RECALL or probes >= lists:
            return probes, round(recall, 6), len(rows)
        probes = min(lists, 2 * probes)


def ranked_again(
    index: Any, vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The ``k`` nearest by exact distance among ``WIDER * k`` candidates of the codes; -1 where too few."""
    import numpy as np

    near = np.full((len(queries), k), np.inf, np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    _, candidates = index.search(queries, min(len(vectors), WIDER * k))
    for number, found in enumerate(candidates):
        found = np.sort(found[found >= 0])
        exact = distances(vectors[found], queries[number])
        best = np.argsort(exact, kind="stable")[:k]
        near[number, : len(best)], rows[number, : len(best)] = exact[best], found[best]
    return near, rows
