"""Equal pixels have equal digests in any transfer syntax."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pydicom
import pytest
from medsanitize.verifiers.leaks.pixel_digest import pixel_digest
from pydicom.data import get_testdata_file
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian, JPEG2000Lossless, RLELossless


def path_of(name: str) -> Path:
    return Path(str(get_testdata_file(name, download=False)))


def written(data_set: pydicom.Dataset) -> bytes:
    stream = BytesIO()
    data_set.save_as(stream)
    return stream.getvalue()


def color(frames: int = 2) -> pydicom.Dataset:
    data_set = pydicom.dcmread(path_of("CT_small.dcm"))
    data_set.Rows, data_set.Columns, data_set.SamplesPerPixel, data_set.NumberOfFrames = 64, 48, 3, frames
    data_set.BitsAllocated = data_set.BitsStored = 8
    data_set.HighBit, data_set.PixelRepresentation, data_set.PlanarConfiguration = 7, 0, 0
    data_set.PhotometricInterpretation = "RGB"
    data_set.PixelData = (np.arange(frames * 64 * 48 * 3) % 251).astype(np.uint8).tobytes()
    data_set["PixelData"].VR = "OB"
    return data_set


@pytest.mark.parametrize(
    "name",
    [
        "MR_small_RLE.dcm",
        "MR_small_jp2klossless.dcm",
        "MR_small_jpeg_ls_lossless.dcm",
        "MR_small_bigendian.dcm",
        "MR_small_implicit.dcm",
        "MR_small_expb.dcm",
        "MR_small_padded.dcm",
    ],
)
def test_the_same_image_in_another_syntax_has_the_same_digest(name: str) -> None:
    assert pixel_digest(path_of(name)) == pixel_digest(path_of("MR_small.dcm"))


def test_bytes_and_path_give_the_same_digest() -> None:
    path = path_of("MR_small_RLE.dcm")

    assert pixel_digest(path.read_bytes()) == pixel_digest(path)


def test_odd_sized_color_images_agree_across_byte_orders() -> None:
    little, big = path_of("SC_rgb_small_odd.dcm"), path_of("SC_rgb_small_odd_big_endian.dcm")

    assert pixel_digest(little) == pixel_digest(big)


def test_a_deflated_image_has_the_digest_of_the_plain_one() -> None:
    data_set = pydicom.dcmread(path_of("MR_small.dcm"))
    data_set.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian

    assert pixel_digest(written(data_set)) == pixel_digest(path_of("MR_small.dcm"))


@pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless])
def test_color_frames_agree_with_their_compressed_form(syntax: pydicom.uid.UID) -> None:
    plain = color()
    squeezed = color()
    squeezed.compress(syntax, generate_instance_uid=False)

    assert pixel_digest(written(squeezed)) == pixel_digest(written(plain))


def test_color_by_plane_has_the_digest_of_color_by_pixel() -> None:
    by_pixel, by_plane = color(), color()
    samples = np.frombuffer(by_plane.PixelData, dtype=np.uint8).reshape(2, 64 * 48, 3)
    by_plane.PlanarConfiguration = 1
    by_plane.PixelData = samples.transpose(0, 2, 1).tobytes()

    assert pixel_digest(written(by_plane)) == pixel_digest(written(by_pixel))


def test_padding_is_ignored_and_a_changed_sample_is_not() -> None:
    original = color(frames=1)
    original.Rows = original.Columns = 3
    original.PixelData = bytes(range(27)) + b"\0"
    changed = pydicom.Dataset()
    changed.update(original)
    changed.file_meta = original.file_meta
    changed.PixelData = bytes(range(1, 28)) + b"\0"

    assert pixel_digest(written(original)) != pixel_digest(written(changed))


@pytest.mark.parametrize(("rows", "columns"), [(64, 256), (256, 64)])
def test_the_same_bytes_in_another_shape_have_another_digest(rows: int, columns: int) -> None:
    data_set = pydicom.dcmread(path_of("CT_small.dcm"))
    data_set.Rows, data_set.Columns = rows, columns

    assert pixel_digest(written(data_set)) != pixel_digest(path_of("CT_small.dcm"))


@pytest.mark.parametrize("name", ["reportsi.dcm", "MR_truncated.dcm", "J2K_pixelrep_mismatch.dcm"])
def test_objects_without_decodable_pixels_have_no_digest(name: str) -> None:
    assert pixel_digest(path_of(name)) is None


def test_an_image_with_too_few_pixels_has_no_digest() -> None:
    data_set = pydicom.dcmread(path_of("CT_small.dcm"))
    data_set.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data_set.PixelData = data_set.PixelData[:-2]

    assert pixel_digest(written(data_set)) is None
