"""Real files with the defects of real files are mended, and the mend is named in the record."""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from medsanitize import Deidentifier, ReleaseKey
from medsanitize.policies.model import Policy
from medsanitize.sanitize.result import Sanitized
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Sanitize = Callable[..., tuple[Sanitized, bytes]]
Real = Callable[[str], Dataset]
Load = Callable[..., bytes]

FOLDER = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent
# Each is argued in docs/real-files.md.
HELD = {
    "MR_truncated.dcm": "truncated",
    "rtplan_truncated.dcm": "length-past-end",
    "SC_rgb_jpeg.dcm": "malformed-vr",
}
PHILIPS_SPECTRUM = "1.3.46.670589.11.0.0.12.1"


def elements(data: bytes) -> int:
    """Where the data set of a file of explicit VR little endian starts."""
    return 144 + int.from_bytes(data[140:144], "little")


def inserted(data: bytes, more: bytes) -> bytes:
    """A file with bytes before its first element of group 0010."""
    at = data.index(b"\x10\x00\x10\x00PN", elements(data))
    return data[:at] + more + data[at:]


def test_all_of_pydicoms_test_files_but_three_are_released() -> None:
    deidentify = Deidentifier(
        {"preset": "ps3.15-basic", "pixels": {"faces": "ignore"}}, ReleaseKey.generate()
    )
    results = {path.name: deidentify(path) for path in FOLDER.rglob("*") if path.is_file()}
    objects = {name: result for name, result in results.items() if result.kind not in ("dicomdir", "other")}

    assert len(objects) >= 130
    held = {name: one.findings[0].rule for name, one in objects.items() if one.outcome != "released"}
    assert held == HELD


def test_an_element_without_vr_is_read_by_the_dictionary(load_bytes: Load, release: Release) -> None:
    data = load_bytes("CT_small.dcm").replace(b"\x18\x00\x50\x00DS", b"\x18\x00\x50\x00  ", 1)

    _, _, released = release(data)

    assert released["SliceThickness"].VR == "DS"
    assert released.SliceThickness == pydicom.dcmread(BytesIO(load_bytes("CT_small.dcm"))).SliceThickness


@pytest.mark.parametrize(
    "stray",
    [
        struct.pack("<HHL", 0xFFFE, 0xE000, 0),
        struct.pack("<HHL", 0xFFFE, 0xE00D, 0),
        struct.pack("<HHL", 0xFFFE, 0xE0DD, 0),
        struct.pack("<HHL", 0xFFFE, 0xE000, 0xFFFFFFFF),
        struct.pack("<HHL", 0xFFFE, 0xE000, 10) + struct.pack("<HH2sH", 0x18, 0x6012, b"US", 2) + b"\1\0",
    ],
)
def test_items_outside_of_a_sequence_are_removed(
    stray: bytes, load_bytes: Load, release: Release, real: Real
) -> None:
    done, _, released = release(inserted(load_bytes("CT_small.dcm"), stray))

    assert done.record.rules["X:stray-item"] == 1
    assert released.PixelData == real("CT_small.dcm").PixelData


@pytest.mark.parametrize("number", [0xE000, 0xE00D, 0xE0DD])
def test_names_after_a_stray_item_are_known_in_the_rest_of_the_object(
    number: int, real: Real, load_bytes: Load, release: Release
) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientName = "Quixleyvane^Zyphora"
    data_set.SeriesDescription = "HEAD Quixleyvane"

    _, out, _ = release(inserted(load_bytes(data_set), struct.pack("<HHL", 0xFFFE, number, 0)))

    assert b"Quixleyvane" not in out


def test_an_unreadable_number_of_frames_is_stated_again(release: Release, load_bytes: Load) -> None:
    done, _, released = release(load_bytes("badVR.dcm"))

    assert (released.NumberOfFrames, done.record.frames) == (15, 15)
    assert done.record.rules["D:number-of-frames"] == 1


def test_pixels_that_nothing_describes_are_left_out(release: Release, real: Real) -> None:
    data_set = real("CT_small.dcm")
    del data_set.Rows, data_set.Columns

    done, _, released = release(data_set)

    assert "PixelData" not in released
    assert done.record.rules["X:undecodable-pixels"] == 1


def test_an_object_of_an_unknown_transfer_syntax_keeps_its_header_only(
    load_bytes: Load, release: Release
) -> None:
    old, new = b"1.2.840.10008.1.2.1\0", b"1.2.840.113619.5.2\0\0"
    done, _, released = release(load_bytes("CT_small.dcm").replace(old, new, 1))

    assert "PixelData" not in released
    assert released.Modality == "CT"
    assert (done.record.rows, done.record.rules["X:undecodable-pixels"]) == (None, 1)
    assert released.file_meta.TransferSyntaxUID == "1.2.840.10008.1.2.1"


def test_an_object_of_a_documented_private_class_is_released(release: Release, real: Real) -> None:
    data_set = real("CT_small.dcm")
    data_set.SOPClassUID = data_set.file_meta.MediaStorageSOPClassUID = PHILIPS_SPECTRUM
    data_set.PatientComments = "Quixleyvane"

    _, out, released = release(data_set)

    assert released.SOPClassUID == PHILIPS_SPECTRUM
    assert b"Quixleyvane" not in out


def test_an_object_of_an_unknown_private_class_is_quarantined(sanitize: Sanitize, real: Real) -> None:
    data_set = real("CT_small.dcm")
    data_set.SOPClassUID = data_set.file_meta.MediaStorageSOPClassUID = "2.25.1234567890"

    done, _ = sanitize(data_set)

    assert [finding.rule for finding in done.record.findings] == ["unknown-sop-class"]


@pytest.mark.parametrize("number", ["APPROVAL-7", None])
def test_the_name_of_an_ethics_committee_goes_with_its_approval_number(
    number: str | None, release: Release, real: Real
) -> None:
    data_set = real("CT_small.dcm")
    data_set.ClinicalTrialProtocolEthicsCommitteeName = "Quixleyvane Board"
    if number:
        data_set.ClinicalTrialProtocolEthicsCommitteeApprovalNumber = number

    released = release(data_set)[2]

    assert ("ClinicalTrialProtocolEthicsCommitteeName" in released) == (
        "ClinicalTrialProtocolEthicsCommitteeApprovalNumber" in released
    )


def test_texts_padded_with_null_bytes_are_padded_with_spaces(load_bytes: Load, release: Release) -> None:
    data = load_bytes("CT_small.dcm").replace(b"MONOCHROME2 ", b"MONOCHROME2\0", 1)

    _, out, released = release(data)

    assert released.PhotometricInterpretation == "MONOCHROME2"
    assert b"MONOCHROME2 " in out


@pytest.mark.parametrize("preset", ["ps3.15-basic", "research"])
def test_an_enumerated_value_of_a_required_attribute_stays(
    preset: str, make_policy: Callable[..., Policy], release: Release, real: Real
) -> None:
    data_set = real("MR_small.dcm")
    data_set.AnatomicalOrientationType = "BIPED"
    policy = make_policy(
        preset, dicom={"options": {"clean_pixel_data": False}}, pixels={"at_risk": "release"}
    )

    assert release(data_set, policy)[2].AnatomicalOrientationType == "BIPED"
