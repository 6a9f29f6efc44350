"""dicom-validator compares a released object with its source by the tables of the standard, offline."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pydicom
import pytest
from medsanitize.policies.tables.standard import iod_modules
from medsanitize.verifiers.validity import dicom_validator
from medsanitize.verifiers.validity.dicom_validator import compare_modules
from medsanitize.verifiers.validity.findings import NOT_READ
from pydicom.uid import DeflatedExplicitVRLittleEndian

from tests.helpers.hospital import real_file, write_ct

Change = Callable[[pydicom.Dataset], None]
needs_validator = pytest.mark.skipif(
    not dicom_validator.has_dicom_validator(), reason="needs dicom-validator"
)


def changed(source: Path, folder: Path, change: Change) -> Path:
    data_set = pydicom.dcmread(source)
    change(data_set)
    copy = folder / "changed.dcm"
    data_set.save_as(copy)
    return copy


@needs_validator
@pytest.mark.parametrize(
    "name", ["CT_small.dcm", "MR_small.dcm", "rtplan.dcm", "reportsi.dcm", "liver_1frame.dcm"]
)
def test_an_object_that_did_not_change_has_no_error_of_ours(name: str) -> None:
    found = compare_modules(real_file(name), real_file(name))

    assert (found.judged, found.introduced) == (True, {})


@needs_validator
@pytest.mark.parametrize(
    ("keyword", "kind"),
    [
        ("SeriesInstanceUID", "/SeriesInstanceUID(0020,000e) TagMissing Module=<general-series>"),
        ("PatientID", "/PatientID(0010,0020) TagMissing Module=<patient>"),
        ("Rows", "/Rows(0028,0010) TagMissing Module=<image-pixel>"),
    ],
)
def test_a_required_attribute_that_went_is_an_error_of_ours(keyword: str, kind: str, tmp_path: Path) -> None:
    source = real_file("CT_small.dcm")

    found = compare_modules(source, changed(source, tmp_path, lambda data: delattr(data, keyword)))

    assert found.introduced == {kind: 1}


@needs_validator
def test_an_empty_attribute_of_type_1_and_a_value_against_its_vr_are_errors_of_ours(tmp_path: Path) -> None:
    source = real_file("CT_small.dcm")

    def change(data: pydicom.Dataset) -> None:
        data.SOPInstanceUID = ""
        data.StudyDate = "QUIXLEYVANE"

    found = compare_modules(source, changed(source, tmp_path, change))

    assert found.introduced == {
        "/SOPInstanceUID(0008,0018) TagEmpty Module=<sop-common>": 1,
        "/StudyDate(0008,0020) InvalidValue Module=<general-study>": 1,
    }


@needs_validator
def test_an_attribute_within_a_sequence_is_named_by_its_path(tmp_path: Path) -> None:
    source = real_file("rtplan.dcm")

    found = compare_modules(
        source, changed(source, tmp_path, lambda d: delattr(d.BeamSequence[0], "BeamNumber"))
    )

    assert "/BeamSequence(300a,00b0)/BeamNumber(300a,00c0) TagMissing Module=<rt-beams>" in found.introduced


@needs_validator
def test_an_attribute_of_another_iod_is_an_error_of_ours(tmp_path: Path) -> None:
    source = real_file("CT_small.dcm")

    found = compare_modules(
        source, changed(source, tmp_path, lambda data: data.add_new(0x300A0003, "LO", "x"))
    )

    assert found.introduced == {"/RTPlanName(300a,0003) TagUnexpected": 1}


@needs_validator
def test_the_marks_of_a_release_are_no_error_where_the_iod_has_no_patient(tmp_path: Path) -> None:
    source = real_file("CT_small.dcm").parents[1] / "palettes" / "fall.dcm"

    def change(data: pydicom.Dataset) -> None:
        data.PatientIdentityRemoved = "YES"
        data.DeidentificationMethod = "x"
        data.RTPlanName = "x"

    found = compare_modules(source, changed(source, tmp_path, change))

    assert found.introduced == {"/RTPlanName(300a,0003) TagUnexpected": 1}


@needs_validator
def test_an_error_of_the_source_is_kept(tmp_path: Path) -> None:
    source = changed(real_file("CT_small.dcm"), tmp_path, lambda data: delattr(data, "SeriesInstanceUID"))

    found = compare_modules(source, source)

    assert (found.introduced, len(found.kept)) == ({}, 1)


@needs_validator
def test_a_macro_may_be_in_either_sequence_of_functional_groups(tmp_path: Path) -> None:
    source = real_file("liver_1frame.dcm")

    def move(data: pydicom.Dataset) -> None:
        shared = data.SharedFunctionalGroupsSequence[0]
        for item in data.PerFrameFunctionalGroupsSequence:
            item.PixelMeasuresSequence = shared.PixelMeasuresSequence
        del shared.PixelMeasuresSequence

    def cut(data: pydicom.Dataset) -> None:
        del data.PerFrameFunctionalGroupsSequence[0].SegmentIdentificationSequence[0].ReferencedSegmentNumber

    assert compare_modules(source, changed(source, tmp_path, move)).introduced == {}
    assert any(
        "ReferencedSegmentNumber" in kind
        for kind in compare_modules(source, changed(source, tmp_path, cut)).introduced
    )


@needs_validator
def test_a_deflated_object_is_judged(tmp_path: Path) -> None:
    source = write_ct(tmp_path / "a.dcm", 1)
    data_set = pydicom.dcmread(source)
    del data_set.Rows
    data_set.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    data_set.save_as(tmp_path / "b.dcm")

    found = compare_modules(source, tmp_path / "b.dcm")

    assert found.introduced == {"/Rows(0028,0010) TagMissing Module=<image-pixel>": 1}


@needs_validator
def test_an_unknown_attribute_has_neither_name_nor_number(tmp_path: Path) -> None:
    source = real_file("CT_small.dcm")

    found = compare_modules(
        source, changed(source, tmp_path, lambda d: d.add_new(0x00081961, "LO", "QUIXLEYVANE"))
    )

    assert found.introduced == {"/other attribute TagUnexpected": 1}


@needs_validator
def test_a_source_that_is_no_object_or_of_an_unknown_class_is_not_judged(tmp_path: Path) -> None:
    released = real_file("CT_small.dcm")
    (tmp_path / "b.dcm").write_bytes(b"no object")

    other = changed(released, tmp_path, lambda data: setattr(data, "SOPClassUID", "1.2.3"))

    assert not compare_modules(tmp_path / "b.dcm", released).judged
    assert not compare_modules(tmp_path / "missing.dcm", released).judged
    assert not compare_modules(other, other).judged


@needs_validator
def test_a_released_object_that_alone_is_not_read_to_its_end_is_an_error_of_ours(tmp_path: Path) -> None:
    source = real_file("CT_small.dcm")
    (tmp_path / "b.dcm").write_bytes(source.read_bytes()[:1000])

    assert compare_modules(source, tmp_path / "b.dcm").introduced == {NOT_READ: 1}


@needs_validator
@pytest.mark.parametrize(
    "stop",
    [
        "feff0de0 00000000",  # a delimiter outside of an item
        "1800 6000 5544 ff7f",  # a value that seems to go past the end of the file
    ],
)
def test_attributes_that_pydicom_does_not_reach_in_the_source_are_no_error_of_ours(
    stop: str, tmp_path: Path
) -> None:
    source, whole = tmp_path / "a.dcm", real_file("CT_small.dcm").read_bytes()
    at = whole.index(bytes.fromhex("2800 0200"))  # Samples per Pixel, before Rows
    source.write_bytes(whole[:at] + bytes.fromhex(stop) + whole[at : at + 20000])

    assert not compare_modules(source, real_file("CT_small.dcm")).judged


def test_without_the_package_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dicom_validator, "has_dicom_validator", lambda: False)

    assert not compare_modules(real_file("CT_small.dcm"), real_file("CT_small.dcm")).judged


@needs_validator
def test_the_part_that_downloads_the_standard_is_never_imported() -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from medsanitize.verifiers.validity.dicom_validator import compare_modules\n"
        "path = Path(sys.argv[1])\n"
        "assert compare_modules(path, path).judged\n"
        "print([name for name in sys.modules if 'edition_reader' in name])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(real_file("CT_small.dcm"))],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"


def test_the_modules_of_an_iod_have_usage_and_types() -> None:
    modules = {one.name: one for one in iod_modules("1.2.840.10008.5.1.4.1.1.2") or ()}

    assert modules["general-series"].usage == "M"
    assert modules["general-series"].attributes[0x0020000E] == ("1", {})
    assert modules["clinical-trial-subject"].usage == "U"
    assert iod_modules("1.2.3") is None
