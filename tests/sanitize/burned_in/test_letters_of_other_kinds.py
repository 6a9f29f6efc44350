"""Letters that are large, made of dots, widely spaced, or seen by their color only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.large_letters import large_unread_areas
from medsanitize.sanitize.burned_in.text_map import text_chances
from medsanitize.sanitize.burned_in.unread import unread_areas
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import PIXEL_DATA, WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, TRANSFER_SYNTAXES
from medsanitize.sanitize.formats.ground import mask_of
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

pytestmark = pytest.mark.pixels

Mask = NDArray[np.bool_]


class NoReader:
    def read(self, *_: object) -> tuple[()]:
        return ()

    def read_changes(self, *_: object) -> tuple[()]:
        return ()


def letters(text: str, size: int, shape: tuple[int, int], at: tuple[int, int] = (24, 40)) -> Mask:
    picture = Image.new("L", shape[::-1])
    ImageDraw.Draw(picture).text(at, text, 255, font=ImageFont.load_default(size))
    return np.asarray(picture) > 128


def covers(areas: Any, mask: Mask) -> bool:
    return bool((mask_of(areas, mask.shape) & mask).sum() >= 0.97 * mask.sum())


@pytest.mark.parametrize("size", [260, 400])
def test_letters_of_hundreds_of_pixels_are_found(size: int) -> None:
    mask = letters("Kowal", size, (600, 1300), (30, 20))
    values = np.where(mask, 230.0, np.linspace(40, 120, 1300)[None]).astype(np.float32)

    assert covers(large_unread_areas(values, text_chances(values), ()), mask)


def test_a_reading_of_one_large_letter_does_not_acquit_the_word() -> None:
    mask = letters("Kowal", 260, (600, 1300), (30, 20))
    values = np.where(mask, 230, 40).astype(np.float32)
    read = TextBox(30, 60, 190, 300, "K", 0.95)

    assert covers(large_unread_areas(values, text_chances(values), [read]), mask)


def test_large_words_that_are_read_are_acquitted() -> None:
    values = np.full((400, 400), 128, np.float32)
    words = []
    for row, word in enumerate(("red", "green", "blue")):
        mask = letters(word, 80, values.shape, (24, 30 + 100 * row))
        values[mask] = 60
        y, x = np.nonzero(mask)
        words.append(TextBox(int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1, word, 0.99))
    chances = text_chances(values)

    assert large_unread_areas(values, chances, ())
    assert large_unread_areas(values, chances, words) == ()


def test_a_ruler_has_no_parts_that_are_text() -> None:
    values = np.zeros((375, 375), np.float32)
    values[331, 51:311] = 255
    values[321:331, 51:311:20] = 255

    assert unread_areas(values, text_chances(values), (), ()) == ()


def test_soft_bodies_are_no_large_letters() -> None:
    y, x = np.mgrid[:700, :900].astype(np.float32)
    values = np.zeros((700, 900), np.float32)
    for column, row in ((150, 300), (330, 350), (500, 320), (700, 380)):
        values += 160 * np.exp(-(((x - column) / 45) ** 2) - ((y - row) / 110) ** 2)

    assert large_unread_areas(values, text_chances(values), ()) == ()


@pytest.mark.parametrize(("pitch", "ground", "ink"), [(3, 0, 240), (4, 250, 20), (6, 0, 240)])
def test_letters_of_separate_dots_are_found(pitch: int, ground: int, ink: int) -> None:
    font = ImageFont.load_default_imagefont().getmask("KOWAL ANNA 51", mode="1")
    points = np.argwhere(np.asarray(font).reshape(font.size[::-1]) > 0) * pitch + 20
    values = np.full((font.size[1] * pitch + 60, font.size[0] * pitch + 60), float(ground), np.float32)
    mask = np.zeros(values.shape, bool)
    dot = pitch - 1 if pitch < 6 else 4
    for y, x in points.tolist():
        mask[y : y + dot, x : x + dot] = True
    values[mask] = ink

    assert covers(unread_areas(values, text_chances(values), (), ()), mask)


@pytest.mark.parametrize("deviation", [8, 16])
def test_noise_beside_letters_is_not_joined(deviation: float) -> None:
    mask = letters("Kowalska 51", 60, (260, 500), (24, 90))
    noise = np.random.default_rng(1).normal(0, deviation, mask.shape)
    values = (np.where(mask, 200, 90) + noise).astype(np.float32)

    areas = unread_areas(values, text_chances(values), (), ())

    assert covers(areas, mask)
    rows, columns = np.nonzero(mask)
    assert mask_of(areas, mask.shape).sum() < 1.5 * np.ptp(rows) * np.ptp(columns)


def test_letters_with_wide_spaces_are_found() -> None:
    mask = np.zeros((160, 460), bool)
    for number, letter in enumerate("KOWALSKA"):
        mask |= letters(letter, 20, mask.shape, (40 + 34 * number, 60))
    values = np.where(mask, 235, 20).astype(np.float32)

    assert covers(unread_areas(values, text_chances(values), (), ()), mask)


def test_letters_of_the_gray_value_of_their_ground_are_blanked() -> None:
    mask = letters("GRZBOWSKA ANNA", 20, (120, 400))
    # Both have a luminance of 96 and a brightest channel of 160.
    colors = np.where(mask[..., None], (160, 82, 0), (40, 113, 160)).astype(np.uint8)
    geometry = Geometry(*mask.shape, 3, 1, 8, 8, 7, False, "RGB")
    syntax = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
    pixels = WrittenPixels([b"head", colors.tobytes()], [], 0, PIXEL_DATA)
    image = ImageFrames(StoredFrames(b"", pixels, EXPLICIT_LITTLE, syntax, geometry), syntax, geometry)

    clean_frames(
        image,
        CleaningOptions(lambda _: ()),
        NoReader(),
        decompress=True,
        most_bytes=1 << 20,  # type: ignore[arg-type]
    )

    released = np.frombuffer(image.stored.released(0), np.uint8).reshape(colors.shape)
    assert (released == colors).all(axis=2)[mask].mean() < 0.03


def test_large_letters_over_clutter_are_found() -> None:
    mask = letters("Kowalska", 64, (256, 480), (30, 80))
    rng = np.random.default_rng(5)
    picture = Image.new("L", mask.shape[::-1], 90)
    pen = ImageDraw.Draw(picture)
    for _ in range(40):
        x, y = rng.uniform((0, 0), mask.shape[::-1])
        away_x, away_y = rng.normal(0, 50, 2)
        pen.line((x, y, x + away_x, y + away_y), int(rng.integers(20, 230)), int(rng.integers(1, 6)))
    values = np.where(mask, 235, np.asarray(picture)).astype(np.float32)

    areas = large_unread_areas(values, text_chances(values), ())

    assert covers(areas, mask)


def test_a_row_of_slices_across_a_mosaic_is_no_line_of_large_letters() -> None:
    y, x = np.mgrid[:384, :384]
    texture = np.random.default_rng(1).normal(0, 6, (384, 384))
    slices = np.hypot((y % 64 - 32) / 26, (x % 64 - 32) / 22) < 1
    values = np.where(slices, 110 + texture, 4).astype(np.float32)

    assert large_unread_areas(values, text_chances(values), ()) == ()
