"""The research index of a published release, beside its objects and its report."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pydicom
import pytest
from medsanitize import Release
from medsanitize.pipeline.stages.tally import Tally

from tests.helpers.hospital import prepare, write_ct
from tests.helpers.synthesis import run_policy
from tests.release.conftest import row_of


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of four slices of two patients, who have an age and a sex."""
    base = tmp_path_factory.mktemp("index")
    for number in range(4):
        said = {"PatientAge": f"0{40 + number // 2}Y", "PatientSex": "FM"[number // 2]}
        write_ct(base / f"export/{number}.dcm", number, f"MRN{number // 2}", number // 2, **said)
    policy = prepare(base, preset="research", pixels="{faces: ignore, search: at-risk}")
    assert run_policy(policy).ending == "published"
    return base


def test_a_row_says_what_the_file_at_its_path_says(base: Path) -> None:
    rows = pq.read_table(base / "release/manifest/index.parquet").to_pylist()

    assert len(rows) == 4
    for row in rows:
        data = pydicom.dcmread(base / "release" / row["path"])
        for keyword in ("PatientID", "SOPInstanceUID", "PatientAge", "PatientSex", "Manufacturer", "Rows"):
            assert row[keyword] == data[keyword].value
        assert (row["KVP"], row["PixelSpacingRow"]) == (float(data.KVP), float(data.PixelSpacing[0]))


def test_the_objects_of_index_and_manifest_are_the_same(base: Path) -> None:
    sql = "SELECT count(*) AS n FROM index JOIN objects USING (object_id, path)"

    assert Release(base / "release").query(sql).to_pylist() == [{"n": 4}]


def test_the_release_with_its_index_is_intact(base: Path) -> None:
    assert Release(base / "release").verify().status == "intact"


def test_the_report_counts_patients_by_age_and_sex(base: Path) -> None:
    report = (base / "release/report.html").read_text()

    assert "What the released headers say" in report
    assert "40-49" in report


def test_a_patient_counts_once_for_a_value_and_for_each_of_several_values() -> None:
    tally = Tally()
    for number, sex in enumerate(["F", "F", "M"]):
        tally.add(row_of(number, b"x"), {}, research={"PatientSex": sex, "PatientAgeYears": 39})
    tally.add(row_of(4, b"x"), {}, research={"PatientSex": "F", "PatientAgeYears": 90})

    assert tally.distributions["Sex"] == {"F": 2, "M": 1}
    assert tally.distributions["Age in years"] == {"30-39": 1, "90 or more": 1}
