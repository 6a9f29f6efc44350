"""DICOM objects are read as a viewer shows them, against known pixels and tables."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.errors import UnreadablePicture
from medsanitize.verifiers.reid.images.dicom import MOST_FRAME_BYTES
from medsanitize.verifiers.reid.images.grayscale import display_values
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.read import ImageRegion, read_image
from numpy.typing import NDArray
from pydicom import dcmread
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels.utils import pixel_array
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLSLossless,
    RLELossless,
)


def real(name: str) -> Path:
    return Path(str(get_testdata_file(name, download=False)))


def made(pixels: NDArray[Any], **attributes: Any) -> Dataset:
    """A grayscale object with the given samples."""
    ds = Dataset()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.file_meta.MediaStorageSOPClassUID = ds.SOPClassUID = "1.2.840.10008.5.1.4.1.1.1.1"
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID = "1.2.3.4"
    ds.Modality, ds.SamplesPerPixel, ds.PhotometricInterpretation = "DX", 1, "MONOCHROME2"
    ds.Rows, ds.Columns = pixels.shape[-2:]
    if pixels.ndim == 3:
        ds.NumberOfFrames = len(pixels)
    ds.BitsAllocated = ds.BitsStored = 8 * pixels.dtype.itemsize
    ds.HighBit = ds.BitsStored - 1
    ds.PixelRepresentation = int(pixels.dtype.kind == "i")
    ds.PixelData = pixels.tobytes()
    ds["PixelData"].VR = "OB" if pixels.dtype.itemsize == 1 else "OW"
    for name, value in attributes.items():
        setattr(ds, name, value)
    return ds


def saved(folder: Path, ds: Dataset) -> Path:
    path = folder / "one"
    ds.save_as(path, enforce_file_format=True)
    return path


def lut(entries: list[int], first: int, bits: int) -> Dataset:
    item = Dataset()
    item.add_new(0x00283002, "SS" if first < 0 else "US", [len(entries), first, bits])
    item.add_new(0x00283006, "US", entries)
    return item


RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


class TestValues:
    def test_8_bit_images_without_a_window_keep_their_range(self, tmp_path: Path) -> None:
        picture = read_image(saved(tmp_path, made(RAMP)))
        assert np.allclose(picture.pixels, RAMP / 255)

    def test_monochrome1_is_inverted(self, tmp_path: Path) -> None:
        ds = made(RAMP, PhotometricInterpretation="MONOCHROME1")
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, 1 - RAMP / 255)

    def test_a_linear_window_follows_the_formula_of_the_standard(self, tmp_path: Path) -> None:
        values = np.arange(-8, 8, dtype=np.int16).reshape(4, 4)
        ds = made(values, WindowCenter="0", WindowWidth="9")
        expected = np.clip((values - (0 - 0.5)) / (9 - 1) + 0.5, 0, 1)
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, expected)

    def test_an_exact_linear_window_has_no_half_value_offset(self, tmp_path: Path) -> None:
        values = np.arange(16, dtype=np.uint16).reshape(4, 4)
        ds = made(values, WindowCenter="8", WindowWidth="8", VOILUTFunction="LINEAR_EXACT")
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, np.clip((values - 8.0) / 8 + 0.5, 0, 1))

    def test_a_sigmoid_window_follows_the_formula(self, tmp_path: Path) -> None:
        values = np.arange(16, dtype=np.uint16).reshape(4, 4)
        ds = made(values, WindowCenter="8", WindowWidth="4", VOILUTFunction="SIGMOID")
        assert np.allclose(
            read_image(saved(tmp_path, ds)).pixels, 1 / (1 + np.exp(-(values - 8.0))), atol=1e-6
        )

    def test_the_first_of_several_windows_applies_to_rescaled_values(self, tmp_path: Path) -> None:
        values = np.arange(16, dtype=np.uint16).reshape(4, 4)
        ds = made(
            values, WindowCenter=["0", "9"], WindowWidth=["21", "1"], RescaleSlope="2", RescaleIntercept="-16"
        )
        assert np.allclose(
            read_image(saved(tmp_path, ds)).pixels, np.clip((2.0 * values - 15.5) / 20 + 0.5, 0, 1)
        )

    def test_an_invalid_window_is_ignored(self, tmp_path: Path) -> None:
        values = np.arange(16, dtype=np.uint16).reshape(4, 4)
        ds = made(values, WindowCenter="40000", WindowWidth="10")
        pixels = read_image(saved(tmp_path, ds)).pixels
        assert (pixels.min(), pixels.max()) == (0, 1)

    def test_a_modality_lut_is_applied_before_a_voi_lut(self, tmp_path: Path) -> None:
        values = np.array([[0, 1], [2, 3]], np.uint8)
        ds = made(values)
        ds.ModalityLUTSequence = [lut([10, 20, 30], 1, 8)]
        ds.ModalityLUTSequence[0].ModalityLUTType = "US"
        ds.VOILUTSequence = [lut([0, 1023, 512], 19, 10)]
        # 0 and 1 give 10 (below the table's first: its first), 2 gives 20, 3 gives 30.
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, np.array([[0, 0], [1023, 512]]) / 1023)

    def test_a_voi_lut_takes_precedence_over_a_window(self, tmp_path: Path) -> None:
        values = np.array([[0, 1], [2, 3]], np.uint8)
        ds = made(values, WindowCenter="2", WindowWidth="2", VOILUTSequence=[lut([3, 2, 1, 0], 0, 2)])
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, 1 - values / 3)

    def test_a_voi_lut_can_begin_below_zero(self, tmp_path: Path) -> None:
        values = np.array([[-2, -1], [0, 1]], np.int16)
        ds = made(values, VOILUTSequence=[lut([0, 85, 170, 255], -2, 8)])
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, [[0, 1 / 3], [2 / 3, 1]])

    def test_an_empty_lut_is_rejected(self, tmp_path: Path) -> None:
        ds = made(RAMP)
        item = Dataset()
        item.add_new(0x00283002, "US", [4, 0, 99])
        item.add_new(0x00283006, "US", [1, 2, 3, 4])
        ds.VOILUTSequence = [item]
        with pytest.raises(UnreadablePicture, match="header: lookup-table"):
            read_image(saved(tmp_path, ds))

    def test_deeper_images_without_a_window_are_scaled_between_percentiles(self, tmp_path: Path) -> None:
        values = np.full((100, 100), 1000, np.uint16)
        values[:, 50:] = 3000
        values[0, 0], values[0, 1] = 65535, 0
        pixels = read_image(saved(tmp_path, made(values))).pixels
        assert (pixels[5, 5], pixels[5, 95], pixels[0, 0]) == (0, 1, 1)

    def test_padding_is_excluded_from_the_range_and_dark(self, tmp_path: Path) -> None:
        values = np.tile(np.array([100, 200], np.uint16), (20, 10))
        values[:10] = 0
        ds = made(values, PhotometricInterpretation="MONOCHROME1")
        ds.add_new(0x00280120, "US", 0)
        pixels = read_image(saved(tmp_path, ds)).pixels
        assert (pixels[0, 0], pixels[19, 0], pixels[19, 1]) == (0, 1, 0)

    def test_bits_above_bits_stored_are_ignored(self, tmp_path: Path) -> None:
        values = np.arange(16, dtype=np.uint16).reshape(4, 4)
        ds = made(values | 0xF000, BitsStored=8, HighBit=7)
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, values / 255)

    def test_enhanced_objects_use_the_transformation_of_their_functional_groups(self, tmp_path: Path) -> None:
        values = np.stack([np.full((4, 4), one, np.uint16) for one in (0, 1, 2)])
        values[:, 0, 0] = 9
        ds = made(values)
        groups = []
        for center in ("100", "5", "100"):
            window, group = Dataset(), Dataset()
            window.WindowCenter, window.WindowWidth, window.VOILUTFunction = center, "10", "LINEAR_EXACT"
            group.FrameVOILUTSequence = [window]
            groups.append(group)
        ds.PerFrameFunctionalGroupsSequence = groups
        pixels = read_image(saved(tmp_path, ds)).pixels
        assert np.allclose((pixels[0, 0], pixels[3, 3]), (0.9, 0.1))

    @given(st.integers(1, 4000), st.integers(2, 4000), st.booleans())
    def test_pixels_are_in_the_unit_range_and_keep_their_order(
        self, center: int, width: int, inverted: bool
    ) -> None:
        values = np.arange(4096, dtype=np.uint16).reshape(64, 64)
        ds = made(values, WindowCenter=str(center), WindowWidth=str(width), BitsStored=12, HighBit=11)
        if inverted:
            ds.PhotometricInterpretation = "MONOCHROME1"
        pixels = display_values(values, ds, 0).reshape(-1)
        assert pixels.min() >= 0
        assert pixels.max() <= 1
        assert (np.diff(pixels) * (-1 if inverted else 1) >= 0).all()


class TestEncodings:
    @pytest.mark.parametrize(
        "syntax", [ImplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian]
    )
    def test_uncompressed_syntaxes_give_the_same_picture(self, tmp_path: Path, syntax: str) -> None:
        values = (np.arange(256, dtype=np.uint16) * 16).reshape(16, 16)
        plain = read_image(saved(tmp_path, made(values))).pixels
        ds = made(values)
        ds.file_meta.TransferSyntaxUID = syntax
        if syntax == ExplicitVRBigEndian:
            ds.PixelData = values.astype(">u2").tobytes()
        path = tmp_path / "other"
        little = syntax != ExplicitVRBigEndian
        ds.save_as(
            path, implicit_vr=syntax == ImplicitVRLittleEndian, little_endian=little, enforce_file_format=True
        )
        assert np.array_equal(read_image(path).pixels, plain)

    @pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless, JPEGLSLossless])
    @pytest.mark.parametrize("signed", [False, True])
    def test_lossless_syntaxes_give_the_same_picture(self, tmp_path: Path, syntax: str, signed: bool) -> None:
        values = (np.arange(1024).reshape(32, 32) * 3 - (1500 if signed else 0)).astype(
            "<i2" if signed else "<u2"
        )
        plain = read_image(saved(tmp_path, made(values))).pixels
        ds = made(values)
        ds.compress(syntax, generate_instance_uid=False)
        assert np.array_equal(read_image(saved(tmp_path, ds)).pixels, plain)

    def test_a_data_set_without_meta_information_is_read(self, tmp_path: Path) -> None:
        ds = made(RAMP)
        path = tmp_path / "bare"
        ds.save_as(path, enforce_file_format=False)
        data = path.read_bytes()
        start = data.index(b"\x08\x00\x16\x00UI")
        path.write_bytes(data[start:])
        assert np.allclose(read_image(path).pixels, RAMP / 255)

    @pytest.mark.parametrize(
        "name",
        [
            "CT_small.dcm",
            "MR_small.dcm",
            "MR_small_bigendian.dcm",
            "MR_small_implicit.dcm",
            "MR_small_RLE.dcm",
            "MR_small_jp2klossless.dcm",
            "MR_small_jpeg_ls_lossless.dcm",
            "JPEG2000.dcm",
            "JPEGLSNearLossless_16.dcm",
            "image_dfl.dcm",
            "rtdose.dcm",
            "examples_overlay.dcm",
            "liver_1frame.dcm",
        ],
    )
    def test_real_files_agree_with_the_decoder_of_pydicom(self, name: str) -> None:
        ds = dcmread(real(name), force=True)
        frames = int(ds.get("NumberOfFrames", 1))
        expected = display_values(pixel_array(ds, index=frames // 2), ds, frames // 2)
        assert np.allclose(read_image(real(name)).pixels, expected)

    @pytest.mark.parametrize("name", ["JPGExtended.dcm", "JPEG-lossy.dcm"])
    def test_12_bit_jpeg_is_read(self, name: str) -> None:
        picture = read_image(real(name))
        assert picture.pixels.shape == (1024, 256)
        assert 0.05 < picture.pixels.mean() < 0.5

    @pytest.mark.parametrize(
        "name",
        [
            "SC_rgb_rle.dcm",
            "SC_rgb_rle_16bit.dcm",
            "SC_rgb_rle_32bit.dcm",
            "SC_rgb_dcmtk_+eb+cr.dcm",
            "SC_rgb_dcmtk_+eb+cy+s4.dcm",
            "SC_rgb_jpeg_gdcm.dcm",
            "SC_rgb_jls_lossy_line.dcm",
            "SC_ybr_full_422_uncompressed.dcm",
        ],
    )
    def test_colors_match_the_test_chart(self, name: str) -> None:
        # Red, green and blue bars and their mixtures, each ten rows high.
        pixels = read_image(real(name)).pixels
        seen = [pixels[row, 50] for row in (5, 25, 45)]
        assert np.allclose(seen, np.eye(3), atol=0.02)

    def test_a_palette_is_applied(self) -> None:
        from pydicom.pixels.processing import apply_color_lut

        ds = dcmread(real("examples_palette.dcm"))
        table = apply_color_lut(ds.pixel_array, ds)
        assert np.allclose(read_image(real("examples_palette.dcm")).pixels, table / np.iinfo(table.dtype).max)

    def test_three_equal_channels_are_read_as_gray(self, tmp_path: Path) -> None:
        ds = made(RAMP)
        ds.SamplesPerPixel, ds.PhotometricInterpretation, ds.PlanarConfiguration = 3, "RGB", 0
        ds.PixelData = np.repeat(RAMP[..., None], 3, axis=2).tobytes()
        assert np.allclose(read_image(saved(tmp_path, ds)).pixels, RAMP / 255)

    def test_the_middle_of_several_frames_is_read(self, tmp_path: Path) -> None:
        values = np.stack([np.full((4, 4), 50 * one, np.uint8) for one in range(5)])
        values[:, 0, 0] = 255
        assert np.allclose(read_image(saved(tmp_path, made(values))).pixels[1, 1], 100 / 255)

    def test_a_crop_is_the_central_half(self, tmp_path: Path) -> None:
        picture = read_image(saved(tmp_path, made(RAMP)), part=ImageRegion.CROP)
        assert np.allclose(picture.pixels, RAMP[4:12, 4:12] / 255)


class TestHeader:
    @pytest.mark.parametrize(("said", "view"), [("PA", "PA"), ("ll ", "LL"), ("", ""), ("JANE DOE", "")])
    def test_the_view_is_read_from_view_position(self, tmp_path: Path, said: str, view: str) -> None:
        assert read_image(saved(tmp_path, made(RAMP, ViewPosition=said))).view == view

    @pytest.mark.parametrize(("code", "view"), [("399348003", "AP"), ("R-10214", "PA"), ("0", "")])
    def test_without_view_position_the_view_code_is_used(self, tmp_path: Path, code: str, view: str) -> None:
        item = Dataset()
        item.CodeValue, item.CodingSchemeDesignator = code, "SCT"
        assert read_image(saved(tmp_path, made(RAMP, ViewCodeSequence=[item]))).view == view

    def test_modality_sm_makes_a_slide_of_three_channels(self, tmp_path: Path) -> None:
        picture = read_image(saved(tmp_path, made(RAMP, Modality="SM")))
        assert (picture.modality, picture.pixels.shape) == (Modality.SLIDE, (16, 16, 3))


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("rtplan.dcm", "pixels: no-pixels"),
            ("test-SR.dcm", "pixels: no-pixels"),
            ("MR_truncated.dcm", "pixels: pixels-undecodable"),
            ("JPEG2000-embedded-sequence-delimiter.dcm", "pixels: pixel-geometry-differs"),
            ("meta_missing_tsyntax.dcm", "pixels: pixels-undecodable"),
            ("README.txt", "file: not-an-image"),
        ],
    )
    def test_unreadable_files_are_reported_by_location_and_rule(self, name: str, said: str) -> None:
        path = real(name)
        with pytest.raises(UnreadablePicture) as caught:
            read_image(path)
        assert f"({said})" in str(caught.value)
        assert path.stem not in str(caught.value)

    def test_an_image_bomb_is_rejected_before_decoding(self, tmp_path: Path) -> None:
        ds = made(RAMP, Rows=65535, Columns=65535)
        assert MOST_FRAME_BYTES < 65535 * 65535
        with pytest.raises(UnreadablePicture, match="too-large"):
            read_image(saved(tmp_path, ds))

    def test_a_code_stream_of_another_size_than_the_header_is_not_decoded(self, tmp_path: Path) -> None:
        ds = dcmread(real("JPEG2000.dcm"))
        ds.Rows = 512
        with pytest.raises(UnreadablePicture, match="pixel-geometry-differs"):
            read_image(saved(tmp_path, ds))

    def test_the_error_for_a_missing_file_contains_no_name(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadablePicture, match="file-not-readable") as caught:
            read_image(tmp_path / "doe-jane.dcm")
        assert "jane" not in f"{caught.value!r}{caught.value}"

    def test_the_error_can_be_pickled(self) -> None:
        error = pickle.loads(pickle.dumps(UnreadablePicture("no-pixels", "pixels")))  # noqa: S301  our own
        assert (error.rule, error.location) == ("no-pixels", "pixels")

    @given(st.data())
    def test_damaged_files_are_read_or_rejected_without_other_errors(self, data: st.DataObject) -> None:
        import tempfile

        content = bytearray(
            real(data.draw(st.sampled_from(["MR_small_RLE.dcm", "SC_rgb_jpeg_gdcm.dcm"]))).read_bytes()
        )
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(132, len(content) - 1))] = data.draw(st.integers(0, 255))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "damaged"
            path.write_bytes(content[: data.draw(st.integers(200, len(content)))])
            try:
                pixels = read_image(path).pixels
            except UnreadablePicture:
                return
        assert pixels.dtype == np.float32
        assert 0 <= pixels.min() <= pixels.max() <= 1
