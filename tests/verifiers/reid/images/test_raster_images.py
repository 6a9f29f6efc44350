"""PNG, JPEG, TIFF files and slides are read as pictures, against known pixels."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import pack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import UnreadablePicture
from medsanitize.generators.phantoms.tissue import tissue_phantom
from medsanitize.pipeline.demo.slide import slide
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.read import ImageRegion, read_image
from medsanitize.verifiers.reid.images.slide import CROP, EDGE, central_crop, tissue_mask
from PIL import Image

RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


def test_gray_images_are_read_as_gray_and_of_no_kind(tmp_path: Path) -> None:
    Image.fromarray(RAMP).save(tmp_path / "one", "PNG")
    picture = read_image(tmp_path / "one")
    assert picture.modality is None
    assert np.allclose(picture.pixels, RAMP / 255)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_color_files_with_equal_channels_are_gray(tmp_path: Path, form: str) -> None:
    Image.fromarray(np.repeat(RAMP[..., None], 3, axis=2)).save(tmp_path / "one", form)
    assert np.allclose(read_image(tmp_path / "one").pixels, RAMP / 255)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_16_bit_images_are_scaled_between_percentiles(tmp_path: Path, form: str) -> None:
    values = np.full((100, 100), 300, np.uint16)
    values[:, 50:] = 700
    values[0, 0] = 65535
    Image.fromarray(values).save(tmp_path / "one", form)
    pixels = read_image(tmp_path / "one").pixels
    assert (pixels[5, 5], pixels[5, 95], pixels[0, 0]) == (0, 1, 1)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_white_is_zero_is_inverted(tmp_path: Path, kind: type[np.unsignedinteger]) -> None:
    import tifffile

    values = np.repeat(np.arange(2, dtype=kind), 8).reshape(4, 4) * np.iinfo(kind).max
    tifffile.imwrite(tmp_path / "one", values, photometric="miniswhite")
    assert read_image(tmp_path / "one").pixels[0, 0] == 1


def test_a_palette_of_grays_is_gray(tmp_path: Path) -> None:
    image = Image.fromarray(RAMP, "P")
    image.putpalette([255 - one // 3 for one in range(768)])
    image.save(tmp_path / "one", "PNG")
    assert np.allclose(read_image(tmp_path / "one").pixels, 1 - RAMP / 255)


def test_transparent_gray_is_dark(tmp_path: Path) -> None:
    alpha = np.full((16, 16), 255, np.uint8)
    alpha[0] = 0
    Image.fromarray(np.stack([np.maximum(RAMP, 9), alpha], axis=2), "LA").save(tmp_path / "one", "PNG")
    pixels = read_image(tmp_path / "one").pixels
    assert pixels.shape == (16, 16)
    assert pixels[0].max() == 0
    assert np.isclose(pixels[1, 0], 16 / 255)


def test_transparent_color_is_composited_on_white(tmp_path: Path) -> None:
    colors = np.full((16, 16, 4), (200, 40, 120, 255), np.uint8)
    colors[0, :, 3] = 0
    Image.fromarray(colors).save(tmp_path / "one", "PNG")
    assert (read_image(tmp_path / "one").pixels[0] == 1).all()


def test_the_exif_orientation_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    values = np.repeat(np.array([[0, 255]], np.uint8), 16, axis=1).repeat(16, axis=0)
    Image.fromarray(values).save(tmp_path / "one", "JPEG", exif=exif, quality=95)
    pixels = read_image(tmp_path / "one").pixels
    assert pixels.shape == (32, 16)
    assert pixels[0].max() < 0.05
    assert pixels[-1].min() > 0.95


def test_a_color_picture_is_no_slide_until_it_is_stated(tmp_path: Path) -> None:
    Image.fromarray(tissue_phantom(0, 0, 0, size=700)).save(tmp_path / "one", "PNG")
    assert read_image(tmp_path / "one").modality is None


def test_a_color_picture_is_no_radiograph_whatever_is_stated(tmp_path: Path) -> None:
    Image.fromarray(tissue_phantom(0, 0, 0, size=700)).save(tmp_path / "one", "PNG")
    assert read_image(tmp_path / "one", kind=Modality.RADIOGRAPH).modality is None


def test_a_stated_slide_is_read_at_the_size_of_slides(tmp_path: Path) -> None:
    Image.fromarray(tissue_phantom(0, 0, 0, size=700)).save(tmp_path / "one", "PNG")
    picture = read_image(tmp_path / "one", kind=Modality.SLIDE)
    assert (picture.modality, picture.pixels.shape) == (Modality.SLIDE, (EDGE, EDGE, 3))


@pytest.mark.parametrize(("side", "depth"), [(100_000, 8), (13_000, 16)])
def test_a_declared_size_beyond_the_limit_is_rejected(tmp_path: Path, side: int, depth: int) -> None:
    def chunk(body: bytes) -> bytes:
        return pack(">I", len(body) - 4) + body + pack(">I", zlib.crc32(body))

    header = b"IHDR" + pack(">IIBBBBB", side, side, depth, 0, 0, 0, 0)
    data = chunk(header) + chunk(b"IDAT" + zlib.compress(b"\0" * 100)) + chunk(b"IEND")
    (tmp_path / "bomb").write_bytes(b"\x89PNG\r\n\x1a\n" + data)
    with pytest.raises(UnreadablePicture, match="pixels: too-large"):
        read_image(tmp_path / "bomb")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"II*\0"])
def test_a_file_without_an_image_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one").write_bytes(content)
    with pytest.raises(UnreadablePicture):
        read_image(tmp_path / "one")


def test_a_truncated_file_is_rejected(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (64, 64), np.uint8)).save(
        tmp_path / "one", "PNG"
    )
    (tmp_path / "one").write_bytes((tmp_path / "one").read_bytes()[:2000])
    with pytest.raises(UnreadablePicture, match="pixels-undecodable"):
        read_image(tmp_path / "one")


# -- slides ---------------------------------------------------------------------------------


def test_a_slide_is_read_at_its_smallest_sufficient_level(tmp_path: Path) -> None:
    (tmp_path / "one.svs").write_bytes(slide("Jane Doe", "S1", "someone")[0])
    picture = read_image(tmp_path / "one.svs")
    assert (picture.modality, picture.pixels.shape) == (Modality.SLIDE, (512, 512, 3))


def test_a_slide_is_recognized_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(slide("Jane Doe", "S1", "someone")[0])
    assert read_image(tmp_path / "picture", part=ImageRegion.CROP).pixels.shape == (CROP, CROP, 3)


def test_a_truncated_slide_is_rejected(tmp_path: Path) -> None:
    data = slide("Jane Doe", "S1", "someone")[0]
    (tmp_path / "one.svs").write_bytes(data[: len(data) // 3])
    with pytest.raises(UnreadablePicture):
        read_image(tmp_path / "one.svs")


def _disc(row: int, column: int, radius: int) -> np.ndarray:
    pixels = np.full((512, 400, 3), 0.95, np.float32)
    rows, columns = np.mgrid[:512, :400]
    pixels[np.hypot(rows - row, columns - column) < radius] = (0.8, 0.3, 0.6)
    return pixels


def test_the_tissue_mask_covers_colored_pixels() -> None:
    pixels = _disc(200, 150, 90)
    assert np.array_equal(tissue_mask(pixels), pixels[..., 1] < 0.5)


def test_empty_glass_has_no_tissue() -> None:
    noise = np.random.default_rng(2).normal(0.95, 0.004, (64, 64, 1)).astype(np.float32)
    assert not tissue_mask(np.repeat(noise, 3, axis=2)).any()


@settings(max_examples=20)
@given(st.integers(0, 511), st.integers(0, 399), st.integers(5, 120))
def test_the_crop_is_centered_on_the_tissue(row: int, column: int, radius: int) -> None:
    pixels = _disc(row, column, radius)
    crop = central_crop(pixels)
    assert crop.shape == (CROP, CROP, 3)
    inside = 112 <= row < 400 and 112 <= column < 288
    if inside and min(row, column) - radius > 0 and row + radius < 512 and column + radius < 400:
        assert crop[CROP // 2, CROP // 2, 1] < 0.5
        assert (
            abs(int((crop[: CROP // 2, :, 1] < 0.5).sum()) - int((crop[CROP // 2 :, :, 1] < 0.5).sum())) < 500
        )


def test_a_slide_narrower_than_the_crop_is_cropped_to_its_width() -> None:
    assert central_crop(np.ones((512, 100, 3), np.float32)).shape == (CROP, 100, 3)


def test_additional_pages_are_counted(tmp_path: Path) -> None:
    pages = [Image.new("L", (20, 10), gray) for gray in (10, 20, 30)]
    pages[0].save(tmp_path / "x.tif", save_all=True, append_images=pages[1:])
    assert read_image(tmp_path / "x.tif").further == 2


def test_a_smaller_version_of_the_first_page_is_not_counted(tmp_path: Path) -> None:
    small = Image.new("L", (10, 5), 10)
    small.encoderinfo = {"tiffinfo": {254: 1}}
    Image.new("L", (20, 10), 10).save(tmp_path / "x.tif", save_all=True, append_images=[small])
    assert read_image(tmp_path / "x.tif").further == 0
