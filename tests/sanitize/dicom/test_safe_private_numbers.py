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
