"""A release is read again from scratch and compared with its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from medsanitize.release import layout
from medsanitize.release.manifest import ObjectRow, count_patients, read_rows, write_objects, write_patients
from medsanitize.release.research_index import Row, index_row, write_index
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.result import CheckResult, Finding
from medsanitize.verifiers.leaks.audit import audit_release, second_opinion
from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
from pydicom.dataset import Dataset

NAMES = ("CT_small.dcm", "MR_small_RLE.dcm", "reportsi.dcm")


def make_release(
    made: ModuleType,
    root: Path,
    change: Callable[[ObjectRow], ObjectRow] = lambda row: row,
    describe: Callable[[Dataset], Row] = lambda _: {},
) -> Path:
    rows, described = [], {}
    for name in NAMES:
        data_set = made.make_released_object(name)
        data = made.to_bytes(data_set)
        path = f"data/{made.PSEUDONYM}/{data_set.SOPInstanceUID}.dcm"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        row = ObjectRow(
            object_id=str(data_set.SOPInstanceUID),
            path=path,
            kind="dicom",
            modality=str(data_set.Modality),
            sop_class=str(data_set.SOPClassUID),
            transfer_syntax=str(data_set.file_meta.TransferSyntaxUID),
            patient=made.PSEUDONYM,
            study=str(data_set.StudyInstanceUID),
            series=str(data_set.SeriesInstanceUID),
            instance=str(data_set.SOPInstanceUID),
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )
        rows.append(change(row))
        described[path] = describe(data_set)
    rows.sort(key=lambda row: (row.patient, row.study, row.series, row.instance))
    write_objects(rows, root, metadata={})
    write_patients(count_patients(root), root, metadata={})
    write_index((index_row(row, described.get(row.path, {})) for row in rows), root, metadata={})
    return root


def test_a_clean_release_passes_and_states_that_no_search_was_run(made: ModuleType, tmp_path: Path) -> None:
    audit = audit_release(make_release(made, tmp_path))

    assert (audit.findings, audit.objects, audit.sampled, audit.identifiers) == (
        (),
        3,
        3,
        CheckResult.NOT_RUN,
    )


def test_a_clean_release_passes_a_search(made: ModuleType, tmp_path: Path) -> None:
    audit = audit_release(
        make_release(made, tmp_path), build_identifier_search([KnownValue("name", "Doe^John")])
    )

    assert audit.identifiers is CheckResult.PASSED


def stated(data_set: Dataset) -> Row:
    return {"Manufacturer": str(data_set.Manufacturer)} if "Manufacturer" in data_set else {}


def test_an_index_that_says_what_the_headers_say_passes(made: ModuleType, tmp_path: Path) -> None:
    assert audit_release(make_release(made, tmp_path, describe=stated)).passed


@pytest.mark.parametrize(
    "wrong",
    [{"Manufacturer": "another"}, {"KVP": 7.5}, {"SeriesNumber": 991}, {"PatientAgeYears": 12}],
)
def test_an_index_that_says_something_else_than_the_header_is_found(
    wrong: Row, made: ModuleType, tmp_path: Path
) -> None:
    audit = audit_release(make_release(made, tmp_path, describe=lambda _: wrong))

    assert {finding.rule for _, finding in audit.findings} == {"audit:index"}


@pytest.mark.parametrize("kept", [slice(0, 2), slice(1, 3)])
def test_an_index_of_other_objects_is_found(kept: slice, made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path)
    rows = [index_row(row, {}) for row in read_rows(release)]
    write_index(iter(rows[kept]), release, metadata={})

    assert (layout.INDEX, Finding("file", "audit:index")) in audit_release(release).findings


def test_a_release_of_an_earlier_version_has_no_index(made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path)
    (release / layout.INDEX).unlink()

    assert audit_release(release).passed


def test_a_known_name_in_the_report_is_found(made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path)
    (release / "report.html").write_text("<p>John Doe</p>")

    audit = audit_release(release, build_identifier_search([KnownValue("name", "Doe^John")]))

    assert (audit.findings, audit.identifiers) == (
        (("report.html", Finding("file", "audit:name")),),
        CheckResult.FLAGGED,
    )


def test_a_file_missing_in_the_manifest_is_found(made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path)
    (release / "data" / "extra.dcm").write_bytes(b"x")

    assert audit_release(release).findings == (("data/extra.dcm", Finding("file", "audit:unlisted")),)


def test_a_missing_file_is_found(made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path)
    gone = min((release / "data").rglob("*.dcm"))
    gone.unlink()

    assert [finding for _, finding in audit_release(release).findings] == [Finding("file", "audit:missing")]


@pytest.mark.parametrize(
    "parts", ["x", "[1]", '[["a", "b", "c"]]', "[]", '[["a", Infinity, "c"]]', "[" * 5000]
)
def test_wrongly_listed_parts_are_found(parts: str, made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path, lambda row: replace(row, kind="slide", parts=parts))

    assert not audit_release(release).passed


def test_a_path_outside_the_release_is_found_and_not_followed(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "require_safe", str)  # a release by a program that ignores the layout
    release = make_release(
        made, tmp_path / "release", lambda row: replace(row, path="data/../../outside.dcm")
    )
    (tmp_path / "outside.dcm").write_bytes(b"DICM")

    findings = audit_release(release).findings

    assert {one for path, one in findings if path == "data/../../outside.dcm"} == {
        Finding("file", "audit:manifest")
    }


def test_a_changed_byte_is_found(made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path)
    changed = max((release / "data").rglob("*.dcm"), key=lambda path: path.stat().st_size)
    data = bytearray(changed.read_bytes())
    data[-5] ^= 1
    changed.write_bytes(bytes(data))

    assert Finding("file", "audit:digest") in [finding for _, finding in audit_release(release).findings]


@pytest.mark.parametrize(
    "column", ["modality", "study", "series", "instance", "sop_class", "transfer_syntax"]
)
def test_a_manifest_that_contradicts_the_object_is_found(
    made: ModuleType, tmp_path: Path, column: str
) -> None:
    release = make_release(made, tmp_path, lambda row: replace(row, **{column: "2.25.1"}))

    assert {finding.rule for _, finding in audit_release(release).findings} == {"audit:manifest"}


def test_wrong_sums_in_patient_rows_are_found(made: ModuleType, tmp_path: Path) -> None:
    release = make_release(made, tmp_path)
    write_patients([replace(next(count_patients(release)), objects=7)], release, metadata={})

    assert [finding for _, finding in audit_release(release).findings] == [Finding("file", "audit:manifest")]


def test_a_file_that_only_pydicom_cannot_read_is_found(made: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "object.dcm"
    data = made.to_bytes(made.make_released_object())
    start = data.index(b"\x08\0\x05\0CS")
    again = data.index(b"\x08\0\x08\0CS")
    path.write_bytes(data[:again] + data[start:again] + data[again:])

    assert list(second_opinion(path)) == [Finding("file", "audit:second-reader")]
