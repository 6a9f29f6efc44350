"""Queries of a release: its tables, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release.manifest import ObjectRow, count_patients, write_objects, write_patients
from medsanitize.release.query import query_release
from medsanitize.release.research_index import index_row, write_index

PAGE = Path(__file__).parents[2] / "docs/query.md"
EXAMPLES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.S)


def test_the_documentation_has_ten_examples() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("sql", EXAMPLES)
def test_an_example_of_the_documentation_runs(sql: str, staged: Path) -> None:
    assert query_release(staged, sql).column_names


def test_a_series_has_its_number_of_objects(staged: Path) -> None:
    found = query_release(staged, "SELECT PatientID, instanceCount FROM series ORDER BY SeriesInstanceUID")

    assert found.to_pylist() == [
        {"PatientID": "P000000", "instanceCount": 2},
        {"PatientID": "P000000", "instanceCount": 2},
        {"PatientID": "P000001", "instanceCount": 2},
    ]


def test_pictures_are_no_series(make_row: Callable[..., ObjectRow], tmp_path: Path) -> None:
    rows = [replace(make_row(number, b"x"), series="", path=f"data/{number}.png") for number in range(2)]
    write_objects(rows, tmp_path, metadata={})
    write_patients(count_patients(tmp_path), tmp_path, metadata={})
    write_index((index_row(row, {}) for row in rows), tmp_path, metadata={})

    assert query_release(tmp_path, "SELECT * FROM series").num_rows == 0


def test_a_table_can_be_read_twice_in_one_query(staged: Path) -> None:
    sql = "SELECT count(*) AS n FROM index a JOIN index b USING (object_id) JOIN objects USING (object_id)"

    assert query_release(staged, sql).to_pylist() == [{"n": 6}]


def test_paths_with_signs_of_patterns_are_read(make_staging: Callable[..., Path], tmp_path: Path) -> None:
    release = make_staging(tmp_path / "a[1]*?", [b"x"])

    assert query_release(release, "SELECT path FROM index").num_rows == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY index TO '/tmp/index.csv'",
        "ATTACH '/tmp/other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM read_parquet('https://example.org/a.parquet')",
    ],
)
def test_a_query_reaches_no_file_network_or_setting(sql: str, staged: Path) -> None:
    with pytest.raises(UsageError):
        query_release(staged, sql)


def test_variables_of_the_program_are_no_tables(staged: Path) -> None:
    with pytest.raises(UsageError, match="not valid"):
        query_release(staged, "SELECT * FROM found")


@pytest.mark.parametrize("sql", ["", "SELEC", "SELECT nothing FROM index", "SELECT 1; SELECT"])
def test_what_is_no_query_is_a_usage_error(sql: str, staged: Path) -> None:
    with pytest.raises(UsageError):
        query_release(staged, sql)


def test_an_error_quotes_no_value(staged: Path) -> None:
    with pytest.raises(UsageError) as failed:
        query_release(staged, "SELECT CAST(path AS INTEGER) FROM index")

    assert "P000000" not in str(failed.value)


def test_a_release_without_index_says_so(staged: Path) -> None:
    (staged / "manifest/index.parquet").unlink()

    with pytest.raises(IntegrityError, match="no research index"):
        query_release(staged, "SELECT 1")


def test_the_command_prints_a_table_or_json(make_release: Callable[..., Path], tmp_path: Path) -> None:
    make_release(tmp_path / "release")
    query = ["query", str(tmp_path / "release"), "SELECT Modality, count(*) AS n FROM index GROUP BY ALL"]

    shown, as_json = CliRunner().invoke(cli, query), CliRunner().invoke(cli, [*query, "--json"])

    assert shown.output == "Modality  n\nCT        6\n"
    assert json.loads(as_json.output)["rows"] == [{"Modality": "CT", "n": 6}]


def test_json_has_no_nan(make_release: Callable[..., Path], tmp_path: Path) -> None:
    make_release(tmp_path / "release")

    done = CliRunner().invoke(
        cli, ["query", str(tmp_path / "release"), "SELECT 'nan'::DOUBLE AS x", "--json"]
    )

    assert json.loads(done.output)["rows"] == [{"x": None}]


def test_a_damaged_page_is_an_error(staged: Path) -> None:
    path = staged / "manifest/index.parquet"
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 4] ^= 255
    path.write_bytes(data)

    with pytest.raises(IntegrityError):
        query_release(staged, "SELECT path FROM index")


def test_columns_of_the_same_name_are_all_shown(make_release: Callable[..., Path], tmp_path: Path) -> None:
    made = make_release(tmp_path / "release")
    sql = "SELECT index.path, objects.path, 1 AS path_1 FROM index JOIN objects USING (object_id) LIMIT 1"

    shown, as_json = (CliRunner().invoke(cli, ["query", str(made), sql, *more]) for more in ([], ["--json"]))

    assert (shown.exit_code, shown.output.split()[:3]) == (0, ["path", "path_1", "path_1_1"])
    assert list(json.loads(as_json.output)["rows"][0]) == ["path", "path_1", "path_1_1"]
