"""Build an index of embeddings, open it, search it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release.atomic_io import storage_errors
from medsanitize.verifiers.reid.index.index_folder import (
    ROWS,
    IndexMetadata,
    map_vectors,
    read_metadata,
    remove_shards,
    write_metadata,
    write_parts,
)
from medsanitize.verifiers.reid.index.ivf import SHARD, open_shards, shard_name, write_inverted_lists
from medsanitize.verifiers.reid.index.search import EXACT_UP_TO, VectorSearch, search_miss_bound

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Index:
    """An open index, memory-mapped.

    Attributes
    ----------
    about
        What it says of itself: count, dimension, model, and how much of the truth a search finds.
    searched
        Its vectors, mapped.
    """

    about: IndexMetadata
    folder: Path
    searched: VectorSearch = field(repr=False)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Find the nearest vectors.

        Parameters
        ----------
        queries : array, (n, dimension)
            float32, of the model that the index names.
        k : int
            Neighbours wanted of each.

        Returns
        -------
        tuple of array, (n, k') each
            Euclidean distances, ascending, and row numbers, with k' = min(k, count); equal distances come by
            row. Where inverted lists held fewer, the distance is infinite and the row -1.

        Raises
        ------
        UsageError
            When the queries are of another length.
        """
        if queries.ndim != 2 or queries.shape[1] != self.about.dimension:
            raise UsageError(
                "The queries are of another length than the vectors of the index", "Embed both with one model"
            )
        return self.searched.nearest(queries, min(k, self.about.count))

    def rows(self) -> pa.Table:
        """The table of what the vectors belong to, in their order."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_table(self.folder / ROWS, page_checksum_verification=True)
        except (pa.ArrowException, OSError, ValueError):
            raise IntegrityError("The index is damaged", "Build it again") from None


def build_index(
    folder: Path,
    batches: Iterable[tuple[NDArray[np.float32], pa.RecordBatch]],
    *,
    dimension: int,
    model: str,
    exact_up_to: int = EXACT_UP_TO,
    shard: int = SHARD,
) -> Index:
    """Write an index, a batch at a time, and open it.

    Parameters
    ----------
    folder : Path
        Made with mode 0700; an index that is there is replaced. For the holder's eyes alone.
    batches : iterable of (array, RecordBatch)
        Vectors ``(n, dimension)``, float32, and n rows saying what they belong to; one schema throughout.
    dimension : int
        Length of a vector.
    model : str
        Digest of the model.
    exact_up_to : int
        More vectors than this are searched by inverted lists.
    shard : int
        Vectors of each file of inverted lists; one of them is in memory at a time.

    Raises
    ------
    UsageError
        When there are no vectors, or they are not of this length.
    EnvironmentFailure
        When the disk is full or fails.
    """
    count = write_parts(folder, batches, dimension)
    about = IndexMetadata(dimension, count, model, {})
    with storage_errors():
        remove_shards(folder)
        if count > exact_up_to:
            vectors = map_vectors(folder, about)
            found = write_inverted_lists(lambda number: folder / shard_name(number), vectors, shard)
            about = IndexMetadata(dimension, count, model, {}, found.probes, found.recall, found.measured)
    write_metadata(folder, about)
    return open_index(folder)


def open_index(folder: Path, *, model: str | None = None, digest: str | None = None) -> Index:
    """Open an index once the digest of each of its files is what it was.

    Parameters
    ----------
    folder : Path
        Where `build_index` wrote it.
    model : str or None
        Digest of the model of the queries.
    digest : str or None
        Of ``index.json``, where somebody else states it.

    Raises
    ------
    IntegrityError
        When a file is missing or changed; it is not opened then.
    UsageError
        When the index is of another model.
    """
    about = read_metadata(folder, digest)
    if model is not None and about.model != model:
        raise UsageError("The index was made by another model", "Build it again with this one")
    shards = open_shards((folder / shard_name(number) for number in range(about.shards)), about.probes)
    missed = search_miss_bound(about.recall, about.measured)
    return Index(about, folder, VectorSearch(map_vectors(folder, about), shards, missed))
