"""The search for the nearest vectors: one and all of them, or by inverted lists where there are too many."""

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

EXACT_UP_TO: Final = 1_000_000
"""So many vectors are searched one and all; more of them by inverted lists."""


@dataclass(frozen=True, slots=True, repr=False)
class VectorSearch:
    """Vectors that can be searched.

    Attributes
    ----------
    vectors
        ``(n, dimension)``, in memory or mapped.
    shards
        Open files of inverted lists; without them every vector is looked at.
    overlooked
        Upper bound (95 %) of the share of nearest vectors that a search does not find; 0 where exact.
    """

    vectors: NDArray[np.float32]
    shards: Sequence[Any] = ()
    overlooked: float = 0.0

    def nearest(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The ``k`` nearest of every query: Euclidean distances, ascending, and rows; equal ones by row.

        Where inverted lists held fewer, the distance is infinite and the row -1.
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
    """Make vectors searchable for as long as this process lives.

    Parameters
    ----------
    vectors : array, (n, dimension)
        float32.
    folder : Path, optional
        Where files without a name may lie, by default where temporary files do: lists of many vectors are
        not held in memory.
    exact_up_to, shard : int
        As in `build_index`.

    Raises
    ------
    EnvironmentFailure
        When the disk is full or fails.
    """
    if len(vectors) <= exact_up_to:
        return VectorSearch(vectors)
    with storage_errors(), ExitStack() as files:

        def place(_: int) -> Path:
            # Linux opens a file that has no name any more by its descriptor.
            file = files.enter_context(tempfile.TemporaryFile(dir=folder))
            return Path(f"/proc/self/fd/{file.fileno()}")

        found = write_inverted_lists(place, vectors, shard)
    return VectorSearch(vectors, found.shards, search_miss_bound(found.recall, found.measured))


def search_miss_bound(recall: float, measured: int) -> float:
    """Upper bound (95 %) of what a search misses that found this share of so many; 0 where it is exact."""
    return clopper_pearson(round((1 - recall) * measured), measured)[1] if measured else 0.0
