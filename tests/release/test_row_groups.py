"""Rows of Parquet files are read without keeping earlier row groups in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from medsanitize.release.parquet_io import read_record_batches

GROUPS = 60


def write_groups(path: Path) -> pa.Schema:
    """Sixty row groups of 100 texts of 5 KB, all different."""
    schema = pa.schema([pa.field("number", pa.string()), pa.field("text", pa.string())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for group in range(GROUPS):
            numbers = [str(group * 100 + row) for row in range(100)]
            texts = [f"{number:>5}" * 1000 for number in numbers]
            writer.write_batch(pa.record_batch([pa.array(numbers), pa.array(texts)], schema=schema))
    return schema


def test_every_row_is_read_once_and_in_order(tmp_path: Path) -> None:
    write_groups(tmp_path / "t.parquet")
    with pq.ParquetFile(tmp_path / "t.parquet") as file:
        batches = list(read_record_batches(file, 64, ["number"]))
    assert [value for batch in batches for value in batch["number"].to_pylist()] == [
        str(number) for number in range(GROUPS * 100)
    ]
    assert {batch.num_rows for batch in batches} == {64, 36}


def test_earlier_row_groups_are_released_from_memory(tmp_path: Path) -> None:
    write_groups(tmp_path / "t.parquet")
    before = pa.total_allocated_bytes()
    with pq.ParquetFile(tmp_path / "t.parquet") as file:
        held = [pa.total_allocated_bytes() - before for _ in read_record_batches(file, 100)]
    assert max(held) < 5 * 2**20
