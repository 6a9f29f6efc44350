"""On-disk index of embeddings: build, open and search."""

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
        Metadata: count, dimension, model and recall.
    folder
        Folder of the index.
    searched
        Its vectors, memory-mapped.
    """

    about: IndexMetadata
    folder: Path
    searched: VectorSearch = field(repr=False)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Find the nearest vectors.

        Parameters
        ----------
        queries : array of float32, shape (n, dimension)
            Embeddings by the model of the index.
        k : int
            Number of neighbors per query.

        Returns
        -------
        tuple of arrays, shape (n, min(k, count)) each
            Euclidean distances, ascending, and row numbers; equal distances are ordered by row. Where the
            inverted lists hold too few vectors, the distance is infinite and the row -1.

        Raises
        ------
        UsageError
            If the queries have another dimension.
        """
        if queries.ndim != 2 or queries.shape[1] != self.about.dimension:
            raise UsageError(
                "The queries and the indexed vectors differ in length", "Embed both with the same model"
            )
        return self.searched.nearest(queries, min(k, self.about.count))

    def rows(self) -> pa.Table:
        """Return the table of the objects that the vectors belong to, in the order of the vectors.

        Raises
        ------
        IntegrityError
            If the table is damaged.
        """
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
    """Write an index batch by batch, and open it.

    Parameters
    ----------
    folder : Path
        Created with mode 0700; an existing index is replaced. Contains PHI.
    batches : iterable of (array of float32, shape (n, dimension), RecordBatch)
        Vectors, and n rows that describe their objects; all batches have one schema.
    dimension : int
        Length of a vector.
    model : str
        Digest of the model.
    exact_up_to : int
        With more vectors than this, the search is approximate (inverted lists).
    shard : int
        Vectors per file of inverted lists; one shard at a time is in memory.

    Raises
    ------
    UsageError
        If there are no vectors, or one is not finite or of another length.
    EnvironmentFailure
        If the disk is full or fails.
    """
    count = write_parts(folder, batches, dimension)
    about = IndexMetadata(dimension, count, model, {})
    with storage_errors():
        # Shards of an earlier index would become part of the new metadata.
        remove_shards(folder)
        if count > exact_up_to:
            vectors = map_vectors(folder, about)
            found = write_inverted_lists(lambda number: folder / shard_name(number), vectors, shard)
            about = IndexMetadata(dimension, count, model, {}, found.probes, found.recall, found.measured)
    write_metadata(folder, about)
    return open_index(folder)


def open_index(folder: Path, *, model: str | None = None, digest: str | None = None) -> Index:
    """Open an index after verifying the digest of each of its files.

    Parameters
    ----------
    folder : Path
        Output of `build_index`.
    model : str or None
        Digest of the model of the queries.
    digest : str or None
        Expected digest of ``index.json``, from a trusted source.

    Raises
    ------
    IntegrityError
        If a file is missing or was changed; no file is then opened.
    UsageError
        If the index is of another model.
    """
    about = read_metadata(folder, digest)
    if model is not None and about.model != model:
        raise UsageError("The index was built with another model", "Build it again with this model")
    shards = open_shards((folder / shard_name(number) for number in range(about.shards)), about.probes)
    missed = search_miss_bound(about.recall, about.measured)
    return Index(about, folder, VectorSearch(map_vectors(folder, about), shards, missed))
