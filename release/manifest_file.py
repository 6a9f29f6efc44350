"""Files of the manifest: Parquet with documented columns and page checksums. Equal rows give equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from medsanitize.errors import IntegrityError
from medsanitize.release import layout
from medsanitize.release.parquet_io import make_array, read_record_batches

# Raised when a column is added or changes its meaning.
SCHEMA_VERSION: Final = "5"
ROWS_PER_GROUP: Final = 4096
_NO_DICTIONARY: Final = frozenset(
    {"object_id", "path", "instance", "SOPInstanceUID", "sha256", "parts", "pixels_sha256", "bytes"}
)
"""Columns with mostly distinct values, for which a dictionary would only cost memory."""


def column(name: str, kind: Any, description: str, *, nullable: bool = False) -> Any:
    """Return a column whose description is part of the file."""
    # Stored in the file, so that the table documents itself.
    return pa.field(name, kind, nullable=nullable, metadata={"description": description})


def read_batches(
    path: Path, schema: pa.Schema, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read one manifest file in batches, verifying page checksums.

    Parameters
    ----------
    path : Path
        The Parquet file.
    schema : pa.Schema
        The schema of the table; the file must have exactly this schema.
    columns : sequence of str, optional
        Columns to read; by default all.

    Raises
    ------
    IntegrityError
        The file is missing, truncated or of another schema, or a page does not match its checksum.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if not file.schema_arrow.equals(schema):
                raise _unreadable(path)
            yield from read_record_batches(file, ROWS_PER_GROUP, columns)
    except (pa.ArrowException, OSError, ValueError):
        raise _unreadable(path) from None


def with_metadata(schema: pa.Schema, metadata: Mapping[str, str]) -> pa.Schema:
    """Return the schema with metadata of the file and the versions of schema and layout."""
    facts = {**metadata, "schema_version": SCHEMA_VERSION, "format_version": layout.FORMAT_VERSION}
    # Sorted, because the order of metadata is part of the bytes of the file.
    return schema.with_metadata(dict(sorted(facts.items())))


def write_table(
    path: Path,
    schema: pa.Schema,
    rows: Iterator[Any],
    order: Sequence[str],
    get: Callable[[Any, str], Any] = getattr,
) -> None:
    """Write rows into one file, a row group at a time.

    Parameters
    ----------
    path : Path
        Its folder exists; an earlier file is replaced.
    schema : pa.Schema
        Columns, with the metadata of the file.
    rows : iterator
        Sorted by ``order``.
    order : sequence of str
        Columns that the file says it is sorted by.
    get : callable
        Returns the value of a row in a column.
    """
    sorting = [pq.SortingColumn(schema.get_field_index(name)) for name in order]
    with pq.ParquetWriter(
        # Stated explicitly: new defaults of pyarrow must not change the bytes.
        path,
        schema,
        version="2.6",
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in _NO_DICTIONARY],
        write_page_checksum=True,
        write_page_index=True,
        sorting_columns=sorting,
    ) as writer:
        while batch := list(islice(rows, ROWS_PER_GROUP)):
            arrays = [make_array([get(row, field.name) for row in batch], field.type) for field in schema]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _unreadable(path: Path) -> IntegrityError:
    return IntegrityError(f"{layout.MANIFEST}/{path.name} is damaged", "Fetch the release again")
