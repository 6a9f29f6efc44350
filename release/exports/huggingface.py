"""A release as Parquet files with the objects in them, which `datasets` of Hugging Face loads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from medsanitize.progress import Cancellation
from medsanitize.release.atomic_io import write_atomic
from medsanitize.release.exports.export_folder import ExportFolder
from medsanitize.release.exports.released_objects import ReleasedObject, VerifiedFile
from medsanitize.release.research_index import INDEX_SCHEMA

SCHEMA: Final = pa.schema(
    [
        *(pa.field(field.name, field.type) for field in INDEX_SCHEMA if field.name != "path"),
        pa.field("file_name", pa.string()),
        pa.field("file", pa.large_binary()),
    ]
)
"""The columns of the research index, and the name and the bytes of the released file."""
# Rows are held in memory until a row group is written.
_GROUP_BYTES: Final = 64_000_000
_CARD: Final = """\
---
pretty_name: {name}
configs:
- config_name: default
  data_files:
  - split: train
    path: data/*.parquet
---

Exported from {title} by medsanitize. Column `file` has the bytes of the released file, `file_name` its name;
the other columns are those of the research index of the release. `EXPORT.json` has the digests of the release
and of these files.
"""


def write_card(folder: ExportFolder) -> None:
    """Write the dataset card, by which the library finds the files."""
    named = folder.facts["release"]
    card = _CARD.format(name=json.dumps(named["name"]), title=f"{named['name']} {named['version']}")
    write_atomic(folder.path / "README.md", card.encode("utf-8"))


def write_parquet(
    path: Path, members: Iterable[ReleasedObject], release: Path, cancellation: Cancellation
) -> None:
    """Write one Parquet file; see `webdataset.write_tar`."""
    rows = (_row(release, one, cancellation) for one in members)
    with pq.ParquetWriter(
        path, SCHEMA, version="2.6", compression="zstd", write_page_checksum=True
    ) as writer:
        for first in rows:
            writer.write_batch(pa.RecordBatch.from_pylist(_group(chain((first,), rows)), schema=SCHEMA))


def _row(release: Path, row: ReleasedObject, cancellation: Cancellation) -> dict[str, Any]:
    cancellation.check()
    with VerifiedFile(release, row) as file:
        data = b"".join(iter(lambda: file.read(1 << 20), b""))
    return {**row.described, "file_name": PurePosixPath(row.path).name, "file": data}


def _group(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row["file"])
        if size >= _GROUP_BYTES:
            break
    return group
