"""Bar codes and matrix codes are found in any polarity and at any angle, and anatomy is not taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions
from medsanitize.sanitize.burned_in.codes import find_codes
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import PIXEL_DATA, WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, TRANSFER_SYNTAXES
from numpy.typing import NDArray
from PIL import Image

Picture = NDArray[np.uint8]

zxingcpp = pytest.importorskip("zxingcpp")

CODES = {
    **{"QRCode": "4471902-77", "DataMatrix": "4471902-77", "Aztec": "4471902-77", "PDF417": "4471902-77"},
    **{"Code128": "4471902-77", "Code39": "4471902", "ITF": "44719026", "EAN13": "4006381333931"},
}


def drawn(name: str, *, ink: int = 0, ground: int = 255, angle: int = 0) -> tuple[Picture, Picture]:
    """A frame with one code, and the mask of its dark bars or modules."""
    code = zxingcpp.create_barcode(CODES[name], getattr(zxingcpp.BarcodeFormat, name))
    modules = np.asarray(zxingcpp.write_barcode_to_image(code, scale=2, add_quiet_zones=False)).squeeze()
    if len(modules) < 30:
        modules = np.repeat(modules[:1], 60, axis=0)
    layer = Image.new("L", (420, 420))
    layer.paste(Image.fromarray(255 - modules), (80, 150))
    share = np.asarray(layer.rotate(angle, Image.Resampling.BICUBIC)) / 255
    return (ground * (1 - share) + ink * share).astype(np.uint8), (share > 0.5).astype(np.uint8)


def hidden(ink: Picture, picture: Picture) -> float:
    covered = np.zeros(picture.shape, bool)
    for left, top, right, bottom in find_codes(picture):
        covered[top:bottom, left:right] = True
    return float((covered & (ink > 0)).sum() / ink.sum())


@pytest.mark.parametrize("angle", [0, 90, 180])
@pytest.mark.parametrize(("ink", "ground"), [(0, 255), (255, 0), (60, 170)])
@pytest.mark.parametrize("name", CODES)
def test_every_symbology_is_found(name: str, ink: int, ground: int, angle: int) -> None:
    picture, modules = drawn(name, ink=ink, ground=ground, angle=angle)

    assert hidden(modules, picture) >= 0.99


@pytest.mark.parametrize("name", ["QRCode", "Aztec"])
def test_matrix_codes_are_found_at_any_angle(name: str) -> None:
    picture, modules = drawn(name, angle=37)

    assert hidden(modules, picture) >= 0.99


@pytest.mark.parametrize("name", ["QRCode", "Code128"])
def test_a_code_that_cannot_be_decoded_is_found_by_its_pattern(name: str) -> None:
    picture, modules = drawn(name)
    rows, columns = np.nonzero(modules)
    middle = (columns.min() + columns.max()) // 2
    for frame in (picture, modules):
        frame[:, middle : middle + 5] = frame[0, 0]
        if name == "QRCode":
            frame[rows.min() : rows.min() + 14, columns.min() : columns.min() + 14] = frame[0, 0]

    assert not zxingcpp.read_barcodes(picture)
    assert hidden(modules, picture) >= 0.9


def test_smooth_anatomy_noise_and_uniform_frames_have_no_code() -> None:
    rng = np.random.default_rng(5)
    noise = rng.integers(0, 256, (256, 256)).astype(np.uint8)
    y, x = np.mgrid[:256, :256]
    bones = (128 + 100 * np.sin(x / 9 + y / 23)).astype(np.uint8)

    assert find_codes(noise) == find_codes(bones) == find_codes(np.zeros((64, 64), np.uint8)) == ()


def test_a_code_is_blanked_whatever_the_reader_makes_of_it() -> None:
    picture, modules = drawn("Code128")
    geometry = Geometry(*picture.shape, 1, 1, 8, 8, 7, False, "MONOCHROME2")
    pixels = WrittenPixels([b"head", picture.tobytes()], [], 0, PIXEL_DATA)
    syntax = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
    image = ImageFrames(StoredFrames(b"", pixels, EXPLICIT_LITTLE, syntax, geometry), syntax, geometry)

    done = clean_frames(image, CleaningOptions(lambda _: ()), _Blind(), decompress=True, most_bytes=1 << 20)

    assert done.regions == 1
    released = np.frombuffer(image.stored.released(0), np.uint8).reshape(picture.shape)
    ground = np.broadcast_to(released[150, 80], (60, 1))
    assert (released[150:210, 80:81] == ground).all()
    assert len(np.unique(released[modules > 0])) == 1
    assert len(np.unique(released[150:210, 82:300])) == 1


class _Blind:
    """A reader that reads nothing."""

    def read(self, *_: object) -> tuple[()]:
        return ()

    def read_changes(self, *_: object) -> tuple[()]:
        return ()


@pytest.mark.parametrize("name", ["Codabar", "ITF", "Code93"])
def test_bright_bars_are_found_next_to_the_edge_of_an_organ(name: str) -> None:
    text = {"Codabar": "A4471902A", "ITF": "44719026", "Code93": "KX4471902"}[name]
    code = zxingcpp.create_barcode(text, getattr(zxingcpp.BarcodeFormat, name))
    modules = np.asarray(zxingcpp.write_barcode_to_image(code, scale=1, add_quiet_zones=False)).squeeze()
    bars = np.repeat(modules[:1] < 128, 44, axis=0)
    rows, columns = np.mgrid[:360, :360]
    distance = np.hypot(rows - 180, columns - 180)
    noise = np.random.default_rng(3).normal(0, 3, distance.shape)
    picture = np.clip(np.where(np.abs(distance - 150) < 7, 150, 20) + noise, 0, 255).astype(np.uint8)
    picture[12 : 12 + len(bars), 60 : 60 + bars.shape[1]] = np.where(bars, 235, 5)
    ink = np.zeros_like(picture)
    ink[12 : 12 + len(bars), 60 : 60 + bars.shape[1]] = bars

    assert hidden(ink, picture) >= 0.99
