"""The demo export is deterministic and has the properties of real exports."""

from __future__ import annotations

import csv
import hashlib
import warnings
from pathlib import Path

import pydicom
import pytest
from medsanitize.errors import UsageError
from medsanitize.pipeline.demo.export import DemoExport, make_export
from medsanitize.verifiers.leaks import dicom_reader
from medsanitize.verifiers.leaks.pixel_digest import pixel_digest


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> DemoExport:
    return make_export(tmp_path_factory.mktemp("demo") / "export")


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def sound(export: DemoExport) -> list[Path]:
    paths = []
    for path in sorted(export.folder.rglob("*")):
        if path.is_file() and path.name != "DICOMDIR":
            try:
                dicom_reader.read(path)
            except dicom_reader.MalformedFile:
                continue
            paths.append(path)
    return paths


def test_the_export_is_deterministic(export: DemoExport, tmp_path: Path) -> None:
    again = make_export(tmp_path / "export")

    assert digests(again.folder) == digests(export.folder)
    assert again.planted.read_bytes() == export.planted.read_bytes()


def test_the_number_of_files_is_reported(export: DemoExport) -> None:
    assert export.files == len(digests(export.folder))


def test_only_the_broken_and_foreign_files_are_invalid(export: DemoExport) -> None:
    names = {path.relative_to(export.folder).as_posix() for path in sound(export)}

    assert set(digests(export.folder)) - names == {
        "CASTELLANOS_INES/CT3.dcm",
        "DICOMDIR",
        "FAIRWEATHER_IMOGEN_MRN-4821377/screenshot.png",
        "MUELLER_JOERG/IMG_0417.JPG",
        "OKAFOR/scan 1.tif",
        "README.txt",
        "Rossetti, Giulio (1931)/S23-0417.svs",
        "Thumbs.db",
        "empty.dcm",
    }


def test_planted_identifiers_match_the_answer_key(export: DemoExport) -> None:
    with export.planted.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    encodings = ("utf-8", "latin-1", "iso2022_jp")

    missing = []
    for row in rows:
        raw = (export.folder / row["file"]).read_bytes()
        value = row["value"].split("=")[0]
        spelled = {value.encode(encoding) for encoding in encodings if _can(value, encoding)}
        if row["location"] != "pixels" and not any(one in raw for one in spelled):
            missing.append(row["location"])

    assert (missing, len(rows) > 400) == ([], True)


def _can(value: str, encoding: str) -> bool:
    try:
        value.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def test_every_modality_and_kind_is_included(export: DemoExport) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data_sets = [pydicom.dcmread(path) for path in sound(export)]

    assert {str(data_set.Modality) for data_set in data_sets} == {"CT", "MR", "US", "DX", "SR", "RTSTRUCT"}
    assert any(data_set.file_meta.TransferSyntaxUID.is_compressed for data_set in data_sets)
    assert any(int(data_set.get("NumberOfFrames", 1)) > 1 for data_set in data_sets)


def test_patients_are_distinguished_by_issuer(export: DemoExport) -> None:
    data_sets = [pydicom.dcmread(path) for path in sound(export)]

    keys = {(str(d.IssuerOfPatientID), str(d.PatientID)) for d in data_sets}

    assert (len(keys), len({identifier for _, identifier in keys})) == (export.patients, export.patients - 1)


def test_one_duplicate_image_and_one_in_two_transfer_syntaxes_exist(export: DemoExport) -> None:
    same_bytes = list(digests(export.folder).values())
    pixels = [digest for path in sound(export) if (digest := pixel_digest(path)) is not None]

    assert (len(same_bytes) - len(set(same_bytes)), len(pixels) - len(set(pixels))) == (1, 2)


def test_the_burned_in_name_is_brighter_than_its_surroundings(export: DemoExport) -> None:
    still = pydicom.dcmread(export.folder / "OKAFOR" / "20230405_US" / "still.dcm").pixel_array

    assert (still == 255).sum() > 500
    assert still[24:].max() < 255


def test_references_point_to_objects_of_the_export(export: DemoExport) -> None:
    data_sets = [pydicom.dcmread(path) for path in sound(export)]
    instances = {str(data_set.SOPInstanceUID) for data_set in data_sets}

    referred = {
        str(item.ReferencedSOPInstanceUID)
        for data_set in data_sets
        for item in data_set.get("ReferencedImageSequence", [])
    }

    assert (len(referred), referred <= instances) == (5, True)


def test_a_non_empty_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("x")

    with pytest.raises(UsageError, match="not empty"):
        make_export(tmp_path)
