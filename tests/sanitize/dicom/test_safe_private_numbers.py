"""Safe private numbers are kept with any value, also in implicit VR."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from medsanitize.sanitize.dicom.private_attributes import _has_form
from medsanitize.sanitize.result import Sanitized
from pydicom.dataset import Dataset
from pydicom.uid import ImplicitVRLittleEndian

Real = Callable[[str], Dataset]
Release = Callable[..., tuple[Sanitized, bytes, Dataset]]


@pytest.mark.parametrize("value", [0.0, 1.0, 2.0, 32.0, 0.015625, -4.5])
def test_a_safe_number_is_kept_in_implicit_vr(value: float, real: Real, release: Release) -> None:
    data_set = real("MR_small_implicit.dcm")
    data_set.add_new(0x20050010, "LO", "Philips MR Imaging DD 001")
    data_set.add_new(0x2005100D, "FL", value)

    assert data_set.file_meta.TransferSyntaxUID == ImplicitVRLittleEndian
    _, _, out = release(data_set)

    written = out[0x2005100D].value
    assert (struct.unpack("<f", written)[0] if isinstance(written, bytes) else written) == value


@pytest.mark.parametrize("text", [b"DOE\0", b"JANE", b"AB\0\0"])
def test_a_text_in_place_of_a_number_is_detected(text: bytes) -> None:
    assert not _has_form(b"FL", b"", "1", text)


ELSCINT, GE, PHILIPS = "ELSCINT1", "GEMS_PARM_01", "Philips PET Private Group"


def with_private(data_set: Dataset, creator: str, tag: int, vr: str, value: str) -> Dataset:
    data_set.add_new(tag & 0xFFFF0000 | 0x10, "LO", creator)
    data_set.add_new(tag, vr, value)
    return data_set


@pytest.mark.parametrize(
    "value",
    ["4711081", "471108", "0047110", "4711081.0", "4711081.25", "4.711081E6", "471108100e-2", "-4711081"],
)
def test_a_number_as_long_as_a_patient_number_is_no_dose_length_product(
    value: str, real: Real, release: Release
) -> None:
    done, _, out = release(with_private(real("CT_small.dcm"), ELSCINT, 0x00E11021, "DS", value))

    assert 0x00E11021 not in out
    assert done.record.rules["X:long-number"] == 1


@pytest.mark.parametrize(
    ("creator", "tag", "vr", "value"),
    [
        (ELSCINT, 0x00E11021, "DS", "1234.5"),
        (ELSCINT, 0x01F11026, "DS", "0.9843750"),
        (ELSCINT, 0x00E11050, "DS", "12.3456789"),
        (PHILIPS, 0x70531000, "DS", "0.000551123"),
        (PHILIPS, 0x70531009, "DS", "1.483705E+00"),
        (GE, 0x00431039, "IS", "1000000800\\8\\0\\0"),
        (GE, 0x00431039, "IS", "268436456\\8\\0\\0"),
        (GE, 0x00431039, "IS", "800\\8\\0\\0"),
    ],
)
def test_a_documented_number_is_kept(
    creator: str, tag: int, vr: str, value: str, real: Real, release: Release
) -> None:
    _, _, out = release(with_private(real("CT_small.dcm"), creator, tag, vr, value))

    expected = with_private(Dataset(), creator, tag, vr, value)
    assert out[tag].value == expected[tag].value


@pytest.mark.parametrize("value", ["471108100\\8\\0\\0", "800\\4711081\\0\\0", "1000471108\\8\\0\\0"])
def test_another_long_number_is_no_b_value(value: str, real: Real, release: Release) -> None:
    _, _, out = release(with_private(real("MR_small.dcm"), GE, 0x00431039, "IS", value))

    assert 0x00431039 not in out


@pytest.mark.parametrize("patient", ["4711081", "K4711081", "0004711081"])
@pytest.mark.parametrize(
    ("tag", "vr"),
    [(0x2005100D, "FL"), (0x00189073, "FD"), (0x00189327, "FD"), (0x00189313, "FD"), (0x00187FFE, "UL")],
)
@pytest.mark.parametrize("name", ["MR_small.dcm", "MR_small_implicit.dcm", "MR_small_bigendian.dcm"])
def test_a_known_number_is_removed_from_binary_numbers(
    patient: str, tag: int, vr: str, name: str, real: Real, release: Release
) -> None:
    data_set = real(name)
    data_set.PatientID = patient
    data_set.add_new(0x20050010, "LO", "Philips MR Imaging DD 001")
    data_set.add_new(tag, vr, [4711081] * 3 if tag == 0x00189313 else 4711081)

    _, out, _ = release(data_set)

    order = ">" if name.endswith("bigendian.dcm") else "<"
    form = {"FL": "f", "FD": "d", "UL": "I"}[vr]
    assert struct.pack(f"{order}{form}", 4711081) not in out


def test_other_binary_numbers_stay(real: Real, release: Release) -> None:
    data_set = real("MR_small.dcm")
    data_set.PatientID = "4711081"
    data_set.AcquisitionDuration = 4711082.0

    _, _, out = release(data_set)

    assert out.AcquisitionDuration == 4711082.0
