"""The approximate search for large sets: inverted lists of 8-bit codes, and their measured recall."""

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
SHARD: Final = 4_000_000
"""Vectors of a file of codes."""
_QUERIES: Final = 500
TARGET_RECALL: Final = 0.99
RERANK_FACTOR: Final = 8
"""How many times more candidates than neighbours are ranked again by their exact distance."""


@dataclass(frozen=True, slots=True)
class InvertedIndex:
    """Inverted lists that were just written.

    Attributes
    ----------
    shards
        Open files, as `open_shards` gives them.
    probes
        Lists that a search visits.
    recall, measured
        Share of so many queries whose nearest vector is found with that.
    """

    shards: list[Any]
    probes: int
    recall: float
    measured: int


def write_inverted_lists(
    place: Callable[[int], Path], vectors: NDArray[np.float32], shard: int = SHARD
) -> InvertedIndex:
    """Build inverted lists over ``vectors``, a shard at a time, and find how many lists a search must visit.

    The lists are learned once from a sample of all, so that the shards together find what one file would. A
    shard is what memory must hold: 128 bytes a vector of 128 numbers. ``place`` says where each is written.

    Returns
    -------
    Inverted
    """
    import faiss
    import numpy as np

    count, dimension = vectors.shape
    lists = max(1, min(65536, int(2 * count**0.5), count // 39))
    learned = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dimension), dimension, lists, faiss.ScalarQuantizer.QT_8bit
    )
    learned.own_fields, learned.cp.seed = False, 1
    sample = np.linspace(0, count - 1, min(count, _TRAIN_PER_LIST * lists)).astype(np.int64)
    learned.train(np.ascontiguousarray(vectors[sample]))
    paths = []
    for number, begin in enumerate(range(0, count, shard)):
        index = faiss.clone_index(learned)
        end = min(begin + shard, count)
        for start in range(begin, end, _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, end), dtype=np.int64)
            index.add_with_ids(np.ascontiguousarray(vectors[start : start + len(rows)]), rows)
        paths.append(place(number))
        faiss.write_index(index, str(paths[-1]))
        paths[-1].chmod(0o600)
    shards = open_shards(paths)
    return InvertedIndex(shards, *_tune(shards, vectors, lists))


def shard_name(number: int) -> str:
    """Name of the file of a shard."""
    return f"inverted-{number:05d}.faiss"


def open_shards(paths: Iterable[Path], probes: int = 1) -> list[Any]:
    """The shards, read from disk as they are needed; searches visit ``probes`` lists."""
    import faiss

    shards = []
    for path in paths:
        opened: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        opened.nprobe = probes
        shards.append(opened)
    return shards


def _tune(shards: Sequence[Any], vectors: NDArray[np.float32], lists: int) -> tuple[int, float, int]:
    """Double the visited lists until the recall is as wanted; queries are vectors of the index itself."""
    import numpy as np

    rows = np.unique(np.linspace(0, len(vectors) - 1, _QUERIES).astype(np.int64))
    queries = np.ascontiguousarray(vectors[rows])
    # Each query is its own nearest neighbour, which is no merit. Who comes far behind is nobody's mate.
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
    """The ``k`` nearest by exact distance among ``WIDER * k`` candidates of the codes; -1 where too few.

    Candidates are those of all shards together, the nearest by their codes.
    """
    import numpy as np

    near = np.full((len(queries), k), np.inf, np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    wanted = min(len(vectors), RERANK_FACTOR * k)
    found_in = [shard.search(queries, wanted) for shard in shards]
    apart, candidates = (np.hstack(one) for one in zip(*found_in, strict=True))
    # A shard that has too few gives -1, at an infinite distance.
    nearest_codes = np.argsort(np.where(candidates < 0, np.inf, apart), axis=1, kind="stable")[:, :wanted]
    for number, found in enumerate(np.take_along_axis(candidates, nearest_codes, 1)):
        found = np.sort(found[found >= 0])
        exact = distances(vectors[found], queries[number])
        best = np.argsort(exact, kind="stable")[:k]
        near[number, : len(best)], rows[number, : len(best)] = exact[best], found[best]
    return near, rows
