"""Nearest-neighbor search in memory: exact, or by inverted lists for many vectors."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.release.atomic_io import storage_errors
from medsanitize.verifiers.reid.calibration import clopper_pearson
from medsanitize.verifiers.reid.index.exact import nearest
from medsanitize.verifiers.reid.index.ivf import SHARD, rerank, write_inverted_lists

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Largest number of vectors that are searched exactly.
EXACT_UP_TO: Final = 1_000_000


@dataclass(frozen=True, slots=True, repr=False)
class VectorSearch:
    """Searchable vectors.

    Attributes
    ----------
    vectors
        Shape (n, dimension), in memory or memory-mapped.
    shards
        Open files of inverted lists; the search is exact without them.
    overlooked
        Upper 95 % bound of the share of nearest vectors that the search misses; 0 if it is exact.
    """

    vectors: NDArray[np.float32]
    shards: Sequence[Any] = ()
    overlooked: float = 0.0

    def nearest(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Find the ``k`` nearest vectors of every query.

        Parameters
        ----------
        queries : array of float32, shape (m, dimension)
            The queries.
        k : int
            Number of neighbors.

        Returns
        -------
        tuple of arrays, shape (queries, k) each
            Euclidean distances, ascending, and rows; equal distances are ordered by row. Where the inverted
            lists hold too few vectors, the distance is infinite and the row -1.
        """
        if not self.shards:
            return nearest(self.vectors, queries, k)
        return rerank(self.shards, self.vectors, queries, k)


def build_search(
    vectors: NDArray[np.float32],
    folder: Path | None = None,
    *,
    exact_up_to: int = EXACT_UP_TO,
    shard: int = SHARD,
) -> VectorSearch:
    """Make vectors searchable within this process.

    Parameters
    ----------
    vectors : array of float32, shape (n, dimension)
        The vectors.
    folder : Path, optional
        Folder for unnamed files of inverted lists; the folder for temporary files by default.
    exact_up_to, shard : int
        As in `medsanitize.verifiers.reid.index.index.build_index`.

    Raises
    ------
    EnvironmentFailure
        If the disk is full or fails.
    """
    if len(vectors) <= exact_up_to:
        return VectorSearch(vectors)
    with storage_errors(), ExitStack() as files:

        def place(_: int) -> Path:
            # faiss wants a path: Linux opens the unnamed file by its descriptor.
            file = files.enter_context(tempfile.TemporaryFile(dir=folder))
            return Path(f"/proc/self/fd/{file.fileno()}")

        found = write_inverted_lists(place, vectors, shard)
    return VectorSearch(vectors, found.shards, search_miss_bound(found.recall, found.measured))


def search_miss_bound(recall: float, measured: int) -> float:
    """Bound the share of nearest vectors that a search misses (95 %); 0 if it is exact.

    Parameters
    ----------
    recall : float
        Share of the measured queries whose nearest vector was found.
    measured : int
        Number of measured queries; 0 if the search is exact.
    """
    return clopper_pearson(round((1 - recall) * measured), measured)[1] if measured else 0.0
