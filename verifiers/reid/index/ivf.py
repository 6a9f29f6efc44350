"""Approximate nearest-neighbor search for large sets: inverted lists of 8-bit codes with measured recall."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.verifiers.reid.index.exact import distances, nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TRAIN_PER_LIST: Final = 40
_AT_ONCE: Final = 100_000
# Vectors per file of codes.
SHARD: Final = 4_000_000
_QUERIES: Final = 500
TARGET_RECALL: Final = 0.99
# Codes are rounded to 8 bits: this many candidates per neighbor are ranked again by their exact distance.
RERANK_FACTOR: Final = 8


@dataclass(frozen=True, slots=True)
class InvertedIndex:
    """Inverted lists that were just built.

    Attributes
    ----------
    shards
        Open files, as `open_shards` returns them.
    probes
        Inverted lists that a search visits.
    recall, measured
        Share of ``measured`` queries whose nearest vector was found.
    """

    shards: list[Any]
    probes: int
    recall: float
    measured: int


def write_inverted_lists(
    place: Callable[[int], Path], vectors: NDArray[np.float32], shard: int = SHARD
) -> InvertedIndex:
    """Build inverted lists shard by shard, and find how many of them a search must visit.

    The lists are trained once on a sample of all vectors, so that the shards together find what one file
    would. One shard is in memory at a time: 128 bytes for a vector of 128 numbers.

    Parameters
    ----------
    place : callable
        Path of the file of each shard, by number.
    vectors : array of float32, shape (n, dimension)
        The vectors.
    shard : int
        Vectors per shard.

    Returns
    -------
    InvertedIndex
        Open shards with their recall.
    """
    import faiss
    import numpy as np

    count, dimension = vectors.shape
    # faiss needs at least 39 training vectors per list.
    lists = max(1, min(65536, int(2 * count**0.5), count // 39))
    learned = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dimension), dimension, lists, faiss.ScalarQuantizer.QT_8bit
    )
    learned.own_fields, learned.cp.seed = False, 1
    # Evenly spaced: the same vectors give the same lists, and the order of the images does not bias them.
    sample = np.linspace(0, count - 1, min(count, _TRAIN_PER_LIST * lists)).astype(np.int64)
    learned.train(np.ascontiguousarray(vectors[sample]))
    paths = []
    for number, begin in enumerate(range(0, count, shard)):
        index = faiss.clone_index(learned)
        end = min(begin + shard, count)
        for start in range(begin, end, _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, end), dtype=np.int64)
            # Row numbers as ids, so that every shard returns rows of the whole set.
            index.add_with_ids(np.ascontiguousarray(vectors[start : start + len(rows)]), rows)
        paths.append(place(number))
        faiss.write_index(index, str(paths[-1]))
        # Codes can be inverted like the embeddings.
        paths[-1].chmod(0o600)
    shards = open_shards(paths)
    return InvertedIndex(shards, *_tune(shards, vectors, lists))


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"inverted-{number:05d}.faiss"


def open_shards(paths: Iterable[Path], probes: int = 1) -> list[Any]:
    """Open shards memory-mapped; searches visit ``probes`` lists."""
    import faiss

    shards = []
    for path in paths:
        opened: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        opened.nprobe = probes
        shards.append(opened)
    return shards


def _tune(shards: Sequence[Any], vectors: NDArray[np.float32], lists: int) -> tuple[int, float, int]:
    """Double the visited lists until the recall reaches its target; queries are vectors of the index."""
    import numpy as np

    rows = np.unique(np.linspace(0, len(vectors) - 1, _QUERIES).astype(np.int64))
    queries = np.ascontiguousarray(vectors[rows])
    # The second nearest, since each query is its own nearest neighbor.
    true = nearest(vectors, queries, 2)[0][:, 1]
    probes = 1
    while True:
        for one in shards:
            one.nprobe = probes
        recall = float((rerank(shards, vectors, queries, 2)[0][:, 1] <= true).mean())
        if recall >= TARGET_RECALL or probes >= lists:
            return probes, round(recall, 6), len(rows)
        probes = min(lists, 2 * probes)


def rerank(
    shards: Sequence[Any], vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Find the ``k`` nearest vectors by exact distance among the nearest ``RERANK_FACTOR * k`` codes.

    Parameters
    ----------
    shards : sequence
        Open files of inverted lists.
    vectors : array of float32, shape (n, dimension)
        All vectors, for the exact distances.
    queries : array of float32, shape (m, dimension)
        The queries.
    k : int
        Number of neighbors.

    Returns
    -------
    tuple of arrays, shape (queries, k) each
        Euclidean distances, ascending, and rows; infinite and -1 where the visited lists hold too few
        vectors.
    """
    import numpy as np

    near = np.full((len(queries), k), np.inf, np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    wanted = min(len(vectors), RERANK_FACTOR * k)
    found_in = [shard.search(queries, wanted) for shard in shards]
    apart, candidates = (np.hstack(one) for one in zip(*found_in, strict=True))
    # faiss fills up with -1 where a shard has too few vectors.
    nearest_codes = np.argsort(np.where(candidates < 0, np.inf, apart), axis=1, kind="stable")[:, :wanted]
    for number, found in enumerate(np.take_along_axis(candidates, nearest_codes, 1)):
        found = np.sort(found[found >= 0])
        exact = distances(vectors[found], queries[number])
        best = np.argsort(exact, kind="stable")[:k]
        near[number, : len(best)], rows[number, : len(best)] = exact[best], found[best]
    return near, rows
