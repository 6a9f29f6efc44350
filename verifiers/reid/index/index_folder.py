"""Files of an on-disk index: vectors, the table of their objects, and the digest of each file.

``index.json`` is written last and lists every other file with its SHA-256.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.release.checksums import digest_file
from medsanitize.verifiers.reid.index.ivf import shard_name

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

METADATA: Final = "index.json"
VECTORS: Final = "vectors.f32"
ROWS: Final = "rows.parquet"
_SHARDS: Final = "inverted-*.faiss"
_FORMAT: Final = 2
_DAMAGED: Final = ("The index is damaged", "Build it again")


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """Metadata of an index.

    Attributes
    ----------
    dimension, count
        Length and number of the vectors.
    model
        Digest of the model; embeddings of different models are not comparable.
    files
        SHA-256 by file name.
    probes
        Inverted lists that a search visits; 0 if the search is exact.
    recall
        Share of ``measured`` queries whose nearest vector was found; 1 if the search is exact.
    measured
        Number of queries behind ``recall``; 0 if the search is exact.
    """

    dimension: int
    count: int
    model: str
    files: dict[str, str]
    probes: int = 0
    recall: float = 1.0
    measured: int = 0

    @property
    def shards(self) -> int:
        """Number of files of inverted lists; 0 if the search is exact."""
        return len(self.files) - len((VECTORS, ROWS))


def write_parts(
    folder: Path, batches: Iterable[tuple[NDArray[np.float32], pa.RecordBatch]], dimension: int
) -> int:
    """Write vectors and their rows batch by batch, and return their number; vector n belongs to row n.

    Parameters
    ----------
    folder : Path
        The index; created with mode 0700.
    batches : iterable of (array of float32, shape (n, dimension), RecordBatch)
        Vectors with their rows.
    dimension : int
        Length of a vector.

    Raises
    ------
    UsageError
        If there are no vectors, or a batch is not of this dimension or not finite.
    EnvironmentFailure
        If the disk is full or fails.
    """
    import numpy as np
    import pyarrow.parquet as pq

    count, writer = 0, None
    with storage_errors():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        # First: an interrupted rebuild must not leave a valid-looking index.json.
        (folder / METADATA).unlink(missing_ok=True)
        with _private(folder / VECTORS) as file:
            try:
                for vectors, rows in batches:
                    # Neither the exact search nor faiss orders NaN.
                    if vectors.shape != (rows.num_rows, dimension) or not np.isfinite(vectors).all():
                        raise UsageError(
                            "Embeddings are not of the stated length, or not finite",
                            "Embed all images again with the same model",
                        )
                    if writer is None:
                        # Created first, since ParquetWriter would use the default mode.
                        _private(folder / ROWS).close()
                        writer = pq.ParquetWriter(folder / ROWS, rows.schema, write_page_checksum=True)
                    file.write(np.ascontiguousarray(vectors, "<f4").tobytes())
                    writer.write_batch(rows)
                    count += rows.num_rows
            finally:
                if writer is not None:
                    writer.close()
    if not count:
        raise UsageError("There is nothing to index", "Pass at least one readable image")
    return count


def _private(path: Path) -> Any:
    """Create a file that only its owner can read, as embeddings can be inverted."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")


def remove_shards(folder: Path) -> None:
    """Remove the inverted lists of an earlier index."""
    for path in folder.glob(_SHARDS):
        path.unlink()


def write_metadata(folder: Path, about: IndexMetadata) -> None:
    """Finish an index: digest its files and write the metadata."""
    names = [VECTORS, ROWS, *sorted(path.name for path in folder.glob(_SHARDS))]
    files = {name: digest_file(folder / name) for name in names}
    facts = {**asdict(about), "files": files, "format": _FORMAT}
    write_atomic(folder / METADATA, document_json(facts))
    with storage_errors():
        (folder / METADATA).chmod(0o600)


def read_metadata(folder: Path, digest: str | None = None) -> IndexMetadata:
    """Read the metadata and verify the digest of every file; ``digest`` is that of the metadata itself.

    Parameters
    ----------
    folder : Path
        The index.
    digest : str or None
        Expected SHA-256 of the metadata file, from a trusted source.

    Raises
    ------
    IntegrityError
        If a file is missing, was changed, or is not of the stated size.
    """
    try:
        content = (folder / METADATA).read_bytes()
        facts: dict[str, Any] = json.loads(content)
        known = digest in (None, sha256(content).hexdigest()) and facts.pop("format") == _FORMAT
        about = IndexMetadata(**facts)
        # Known names only: the metadata cannot name files outside the folder.
        named = {VECTORS, ROWS, *(shard_name(number) for number in range(about.shards))}
        whole = known and set(about.files) == named and bool(about.shards) == bool(about.probes)
        # Verified before any library opens a file: faiss trusts what it reads.
        for name, digest in sorted(about.files.items()) if whole else ():
            whole = whole and digest_file(folder / name) == digest
        size = (folder / VECTORS).stat().st_size if whole else -1
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise IntegrityError(*_DAMAGED) from None
    if not whole or size != 4 * about.count * about.dimension:
        raise IntegrityError(*_DAMAGED)
    return about


def map_vectors(folder: Path, about: IndexMetadata) -> NDArray[np.float32]:
    """Return the vectors, shape (count, dimension), memory-mapped."""
    import numpy as np

    return np.memmap(folder / VECTORS, dtype="<f4", mode="r", shape=(about.count, about.dimension))
