"""Arrow arrays from Python values, and batches of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


# pyarrow.array imports pandas on its first call, if installed: 0.5 s and 50 MB per process.
def make_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Create an array; None becomes null.

    Parameters
    ----------
    values : sequence
        Numbers, booleans or strings. All strings together have at most 2 GiB in UTF-8.
    kind : pa.DataType
        A number type, ``bool_`` or ``string``.

    Returns
    -------
    pa.Array
        Equal to ``pa.array(values, kind)``.
    """
    nulls, valid = 0, None
    if None in values:
        present = [value is not None for value in values]
        nulls, valid = present.count(False), _bits(present)
        nothing = "" if pa.types.is_string(kind) else 0
        values = [nothing if value is None else value for value in values]
    if pa.types.is_string(kind):
        buffers = _texts(values)
    elif pa.types.is_boolean(kind):
        buffers = [_bits(values)]
    else:
        buffers = [pa.py_buffer(np.array(values, kind.to_pandas_dtype()))]
    return pa.Array.from_buffers(kind, len(values), [valid, *buffers], nulls)


def _texts(values: Sequence[str]) -> list[pa.Buffer]:
    """Return the buffers of a string array: end offsets, and all texts joined."""
    whole, ends = "".join(values), np.zeros(len(values) + 1, np.int32)
    # ASCII texts have as many bytes as characters and need not be encoded one by one.
    sizes = map(len, values if whole.isascii() else (value.encode() for value in values))
    np.cumsum(np.fromiter(sizes, np.int32, len(values)), out=ends[1:])
    return [pa.py_buffer(ends), pa.py_buffer(whole.encode())]


# Arrow bitmaps store the least significant bit first.
def _bits(flags: Iterable[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(list(flags), np.bool_), bitorder="little"))


def read_record_batches(
    file: pq.ParquetFile, rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file in batches.

    Parameters
    ----------
    file : pq.ParquetFile
        The open file.
    rows : int
        Maximum number of rows per batch; no batch spans two row groups.
    columns : sequence of str, optional
        Columns to read; by default all.
    """
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=rows, row_groups=[group], columns=columns, use_threads=False)
