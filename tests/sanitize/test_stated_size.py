"""The size of an image as the inventory reads it, from which the work that an object makes is estimated."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.sanitize.context import ImageSize
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.raster.raster_sanitizer import inspect_raster
from PIL import Image
from pydicom.data import get_testdata_file


def object_of(name: str) -> bytes:
    return Path(str(get_testdata_file(name, download=False))).read_bytes()


@pytest.mark.parametrize(
    "name",
    ["CT_small.dcm", "MR_small_bigendian.dcm", "examples_ybr_color.dcm", "SC_rgb_rle_16bit_2frame.dcm"],
)
def test_the_size_is_that_of_the_header(name: str) -> None:
    data = object_of(name)
    header = pydicom.dcmread(BytesIO(data), stop_before_pixels=True)
    seen = inspect_dicom(data).image
    assert seen is not None
    frames = int(header.get("NumberOfFrames", 1))
    assert (seen.rows, seen.columns, seen.frames) == (header.Rows, header.Columns, frames)


@pytest.mark.parametrize(
    ("name", "expected"), [("CT_small.dcm", False), ("SC_rgb_rle_16bit_2frame.dcm", True)]
)
def test_text_is_expected_as_the_sanitizer_expects_it(name: str, expected: bool) -> None:
    seen = inspect_dicom(object_of(name)).image
    assert seen is not None
    assert seen.may_show_text is expected


def test_an_object_without_an_image_has_no_size() -> None:
    assert inspect_dicom(object_of("rtplan.dcm")).image is None


@pytest.mark.parametrize("form", ["png", "jpeg", "tiff"])
def test_a_picture_states_its_size(form: str) -> None:
    stream = BytesIO()
    Image.new("L", (70, 48)).save(stream, form)
    seen = inspect_raster(stream.getvalue())
    assert seen is not None
    assert seen.image == ImageSize(48, 70, 1, may_show_text=True)


@given(st.integers(8, 200), st.binary(max_size=4))
def test_no_content_of_a_picture_raises(cut: int, put: bytes) -> None:
    stream = BytesIO()
    Image.new("L", (70, 48)).save(stream, "tiff")
    data = stream.getvalue()
    seen = inspect_raster(data[:cut] + put + data[cut + len(put) :])
    assert seen is None or seen.image is None or min(seen.image.rows, seen.image.columns) >= 0
