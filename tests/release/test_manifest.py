"""The manifest: order, documentation, page checksums, constant memory, determinism."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from medsanitize.errors import IntegrityError
from medsanitize.release.manifest import (
    OBJECT_SCHEMA,
    PATIENT_SCHEMA,
    ObjectRow,
    PatientRow,
    count_patients,
    read_objects,
    read_rows,
    write_objects,
    write_patients,
)

Rows = Callable[..., ObjectRow]


def test_every_column_is_flat_documented_and_named_in_snake_case() -> None:
    plain = {pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.float64()}
    for schema in (OBJECT_SCHEMA, PATIENT_SCHEMA):
        for column in schema:
            assert column.type in plain
            assert column.metadata[b"description"].endswith(b".")
            assert column.name == column.name.lower()


def test_the_dataclasses_and_the_schemas_name_the_same_columns() -> None:
    assert [field.name for field in fields(ObjectRow)] == OBJECT_SCHEMA.names
    assert [field.name for field in fields(PatientRow)] == PATIENT_SCHEMA.names


def test_rows_are_read_back_as_written(tmp_path: Path, make_row: Rows) -> None:
    rows = [make_row(0, b"a"), replace(make_row(1, b"b"), pixels_sha256=None, rows=None, match_bound=0.001)]
    write_objects(rows, tmp_path, metadata={})
    assert list(read_rows(tmp_path)) == rows


def test_the_manifest_is_deterministic(tmp_path: Path, make_row: Rows) -> None:
    for name in ("a", "b"):
        write_objects((make_row(n, b"x") for n in range(9)), tmp_path / name, metadata={"tool_version": "1"})
    first, second = ((tmp_path / name / "manifest/objects.parquet").read_bytes() for name in ("a", "b"))
    assert first == second


def test_many_rows_are_split_into_numbered_parts_in_order(tmp_path: Path, make_row: Rows) -> None:
    paths = write_objects((make_row(n, b"x") for n in range(10)), tmp_path, metadata={}, rows_per_file=4)
    assert [path.name for path in paths] == [f"objects-0000{n}.parquet" for n in range(3)]
    assert [row.object_id for row in read_rows(tmp_path)] == [f"o{n}" for n in range(10)]


def test_a_full_file_is_not_followed_by_an_empty_part(tmp_path: Path, make_row: Rows) -> None:
    paths = write_objects((make_row(n, b"x") for n in range(4)), tmp_path, metadata={}, rows_per_file=4)
    assert [path.name for path in paths] == ["objects.parquet"]


def test_no_rows_give_an_empty_manifest(tmp_path: Path) -> None:
    write_objects((), tmp_path, metadata={})
    assert sum(batch.num_rows for batch in read_objects(tmp_path)) == 0


def test_parts_of_an_earlier_attempt_are_replaced(tmp_path: Path, make_row: Rows) -> None:
    write_objects((make_row(n, b"x") for n in range(10)), tmp_path, metadata={}, rows_per_file=4)
    write_objects([make_row(0, b"x")], tmp_path, metadata={})
    assert [path.name for path in (tmp_path / "manifest").iterdir()] == ["objects.parquet"]


def test_the_file_states_versions_and_sorting(tmp_path: Path, make_row: Rows) -> None:
    (path,) = write_objects(
        [make_row(0, b"x")], tmp_path, metadata={"policy_digest": "d", "tool_version": "1"}
    )
    metadata = pq.read_metadata(path)
    assert {
        key: metadata.metadata[key] for key in (b"schema_version", b"policy_digest", b"tool_version")
    } == {
        b"schema_version": b"5",
        b"policy_digest": b"d",
        b"tool_version": b"1",
    }
    assert [column.column_index for column in metadata.row_group(0).sorting_columns] == [6, 7, 8, 9]


@pytest.mark.parametrize(
    "change",
    [
        {"path": "data/../x.dcm"},
        {"path": "/data/x.dcm"},
        {"path": "data/.hidden.dcm"},
        {"path": "data/a\nb.dcm"},
        {"path": "elsewhere/x.dcm"},
        {"sha256": "A" * 64},
        {"pixels_sha256": "short"},
    ],
)
def test_an_unsafe_row_is_rejected(tmp_path: Path, make_row: Rows, change: dict[str, str]) -> None:
    with pytest.raises(IntegrityError):
        write_objects([replace(make_row(0, b"x"), **change)], tmp_path, metadata={})


@pytest.mark.parametrize("order", [(1, 0), (0, 0)])
def test_unsorted_or_repeated_rows_are_rejected(
    tmp_path: Path, make_row: Rows, order: tuple[int, int]
) -> None:
    with pytest.raises(IntegrityError, match="not sorted"):
        write_objects([make_row(n, b"x") for n in order], tmp_path, metadata={})


def test_a_flipped_bit_in_a_page_is_detected_on_reading(tmp_path: Path, make_row: Rows) -> None:
    (path,) = write_objects((make_row(n, b"x") for n in range(50)), tmp_path, metadata={})
    content = bytearray(path.read_bytes())
    content[120] ^= 1
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"manifest/objects\.parquet is damaged"):
        list(read_objects(tmp_path))


def test_a_truncated_or_missing_manifest_is_an_integrity_error(tmp_path: Path, make_row: Rows) -> None:
    with pytest.raises(IntegrityError, match="no object manifest"):
        list(read_objects(tmp_path))
    (path,) = write_objects([make_row(0, b"x")], tmp_path, metadata={})
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match="damaged"):
        list(read_objects(tmp_path))


def test_patient_rows_are_aggregated_from_the_objects(tmp_path: Path, make_row: Rows) -> None:
    rows = [make_row(n, b"xy") for n in range(5)]
    rows[1] = replace(rows[1], modality="SEG")
    write_objects(rows, tmp_path, metadata={})
    first = PatientRow(patient="P000000", studies=1, series=2, objects=4, bytes=8, modalities="CT,SEG")
    assert next(count_patients(tmp_path)) == first
    write_patients(count_patients(tmp_path), tmp_path, metadata={})
    assert pq.read_table(tmp_path / "manifest/patients.parquet").num_rows == 2


_MEASURE = """
import resource, sys
from pathlib import Path
from medsanitize.release.manifest import ObjectRow, count_patients, write_objects
def rows(n):
    for i in range(n):
        names = f"P{i // 100:07d}", f"2.25.{10**9 + i // 50}", f"2.25.{10**9 + i // 10}", f"2.25.{10**9 + i}"
        path = "data/" + "/".join(names)
        yield ObjectRow(names[3], path, "dicom", "CT", "1.2", "1.2", *names, 1, f"{i:064x}")
write_objects(rows(int(sys.argv[1])), Path(sys.argv[2]), metadata={})
list(count_patients(Path(sys.argv[2])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_is_independent_of_the_number_of_rows(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        command = [sys.executable, "-c", _MEASURE, str(rows), str(tmp_path / str(rows))]
        return int(subprocess.run(command, capture_output=True, check=True).stdout)

    assert peak(60_000) < 1.2 * peak(10_000)
