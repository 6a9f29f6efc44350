"""Text that no reader reads: strokes in any script and at any angle, and words of which a part is blanked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from medsanitize.sanitize.burned_in.areas import covered_fraction
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.strokes import find_lines
from medsanitize.sanitize.burned_in.text_map import text_chances
from medsanitize.sanitize.burned_in.unread import unread_areas
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import PIXEL_DATA, WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, TRANSFER_SYNTAXES
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Picture = NDArray[np.uint8]

NAME = "GRZBOWSKA MARIANNA"


def drawn(
    text: str, size: int = 18, angle: int = 0, ink: float = 1.0, ground: int = 0
) -> tuple[Picture, Any]:
    """A frame with a line in its middle, and the mask of its letters."""
    layer = Image.new("L", (400, 400))
    font = ImageFont.load_default(size)
    ImageDraw.Draw(layer).text((200, 200), text, fill=255, font=font, anchor="mm")
    share = np.asarray(layer.rotate(angle, Image.Resampling.BICUBIC)) / 255
    return np.asarray(ground + share * (255 - ground) * ink, np.uint8), share > 0.5


def covered(areas: tuple[tuple[int, int, int, int], ...], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    mask = np.zeros(shape, bool)
    for left, top, right, bottom in areas:
        mask[top:bottom, left:right] = True
    return mask


def cleaned(
    picture: Picture,
    reader: Any,
    identifying: Callable[..., Any] = lambda _: (),
    confirms: Callable[..., bool] | None = None,
) -> Picture:
    geometry = Geometry(*picture.shape, 1, 1, 8, 8, 7, False, "MONOCHROME2")
    pixels = WrittenPixels([b"head", picture.tobytes()], [], 0, PIXEL_DATA)
    syntax = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
    image = ImageFrames(StoredFrames(b"", pixels, EXPLICIT_LITTLE, syntax, geometry), syntax, geometry)
    options = CleaningOptions(identifying, confirms=confirms)
    clean_frames(image, options, reader, decompress=True, most_bytes=1 << 20)
    return np.frombuffer(image.stored.released(0), np.uint8).reshape(picture.shape)


def unread(
    picture: Picture, *harmless: TextBox, blanked: tuple[tuple[int, int, int, int], ...] = ()
) -> NDArray[np.bool_]:
    """The mask of what is blanked if only ``harmless`` is read."""
    values = picture.astype(np.float32)
    return covered(unread_areas(values, text_chances(values), harmless, blanked), picture.shape)


def find_all(boxes: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
    """Judge every line to identify."""
    return boxes


class _Reader:
    """A reader that always reads the same lines."""

    def __init__(self, *lines: TextBox) -> None:
        self.lines = lines

    def read(self, frame: Picture, chances: object) -> tuple[TextBox, ...]:  # noqa: ARG002
        return self.lines

    def read_changes(self, *_: object) -> tuple[()]:
        return ()


@pytest.mark.parametrize("angle", [0, 7, 45, 90, 180, 270])
@pytest.mark.parametrize(("size", "ink"), [(14, 1.0), (18, 0.3), (30, 0.6)])
def test_unread_letters_are_found_at_any_angle(angle: int, size: int, ink: float) -> None:
    picture, letters = drawn(NAME, size, angle, ink)

    mask = unread(picture)

    assert (mask & letters).sum() >= 0.97 * letters.sum()
    assert mask.mean() < 0.2


def test_dark_letters_on_a_slope_are_found() -> None:
    _, letters = drawn(NAME)
    slope = np.linspace(90, 200, 400)[None].repeat(400, axis=0)
    picture = np.where(letters, slope - 60, slope).astype(np.uint8)

    mask = unread(picture)

    assert (mask & letters).sum() >= 0.97 * letters.sum()


def test_letters_that_continue_a_line_on_a_bright_ground_are_blanked_with_it() -> None:
    picture, letters = drawn(NAME, 24, ink=0.5)
    picture = np.maximum(picture, np.where(np.arange(400) > 200, 85, 0)).astype(np.uint8)

    mask = unread(picture)

    assert (mask & letters).sum() >= 0.97 * letters.sum()


@pytest.mark.parametrize("angle", [0, 7, 45])
def test_words_of_joined_letters_are_found(angle: int) -> None:
    layer = Image.new("L", (400, 400))
    draw = ImageDraw.Draw(layer)
    draw.text((200, 200), "UIYUH IWUHU", fill=255, font=ImageFont.load_default(30), anchor="mm")
    left, top, right, _ = draw.textbbox((200, 200), "UIYUH", font=ImageFont.load_default(30), anchor="mm")
    whole = draw.textbbox((200, 200), "UIYUH IWUHU", font=ImageFont.load_default(30), anchor="mm")
    # A line along the top of each word, as in Devanagari.
    draw.line((whole[0], top, whole[0] + right - left, top), fill=255, width=3)
    draw.line((whole[0] + right - left + 12, top, whole[2], top), fill=255, width=3)
    picture = np.asarray(layer.rotate(angle, Image.Resampling.BICUBIC))

    mask = unread(picture)

    assert (mask & (picture > 128)).sum() >= 0.97 * (picture > 128).sum()


def test_the_ground_between_the_lines_of_a_block_is_no_text() -> None:
    layer = Image.new("L", (400, 400))
    for row in range(4):
        ImageDraw.Draw(layer).text((20, 20 + 14 * row), "GRZBOWSKA 1961", fill=255, font_size=12)
    picture = np.maximum(np.asarray(layer), np.where(np.arange(400)[:, None] > 90, 70, 0)).astype(np.uint8)

    mask = unread(picture)

    assert (mask & (np.asarray(layer) > 128)).sum() >= 0.97 * (np.asarray(layer) > 128).sum()
    assert not mask[100:].any()


def test_a_search_near_areas_finds_what_a_search_of_the_frame_finds_there() -> None:
    picture = np.vstack([drawn(NAME)[0], drawn(NAME, angle=30)[0]]).astype(np.float32)
    chances = text_chances(picture)
    area = (150, 190, 200, 210)
    near = {one for line in find_lines(picture, chances, near=[area]) for one in line.letters}
    everywhere = {one for line in find_lines(picture, chances) for one in line.letters}
    inside = {one for one in everywhere if covered_fraction(one, area) > 0}
    assert inside
    assert inside <= near < everywhere


def test_a_harmless_word_that_blanking_would_cut_is_blanked_whole() -> None:
    picture, letters = drawn("SUPINE", 24)
    rows = np.flatnonzero(letters.any(axis=1))
    middle = int(rows.mean())

    mask = unread(picture, TextBox(120, 170, 280, 230, "SUPINE", 0.99), blanked=((100, 0, 300, middle),))

    assert mask[letters].all()


def test_rulers_noise_and_anatomy_are_no_text() -> None:
    rng = np.random.default_rng(2)
    ruler = np.zeros((300, 300), np.uint8)
    for at in range(20, 280, 10):
        ruler[at, 280 : 292 if at % 50 else 298] = 255
        ruler[285 : 290 if at % 50 else 297, at] = 200
    dots = np.zeros((300, 300), np.uint8)
    dots[::12, ::12] = 255
    y, x = np.mgrid[:300, :300]
    shadows = 120 + 80 * np.sin(x / 14) * np.cos(y / 19) + rng.normal(0, 6, (300, 300))

    for picture in (ruler, dots, np.clip(shadows, 0, 255).astype(np.uint8)):
        assert not unread(picture).any()


@pytest.mark.parametrize("sides", [(201, 301), (395, 309), (250, 333)])
def test_noise_at_the_edge_of_a_frame_of_any_size_is_no_text(sides: tuple[int, int]) -> None:
    import cv2

    for seed in range(12):
        rng = np.random.default_rng(seed)
        shadows = cv2.GaussianBlur(rng.normal(0, 1, sides), (0, 0), sides[0] / 12)
        shadows = 255 * (shadows - shadows.min()) / np.ptp(shadows)
        picture = np.clip(shadows + rng.normal(0, 3, sides), 0, 255).astype(np.uint8).astype(np.float32)
        assert not unread_areas(picture, text_chances(picture), (), ())


@pytest.mark.parametrize("cut", [(0, 1), (3, 0), (5, 7)])
def test_text_at_the_edge_of_a_frame_of_any_size_is_found(cut: tuple[int, int]) -> None:
    picture, ink = drawn(NAME)
    bottom, right = (int(places.max()) + 3 for places in np.nonzero(ink))
    picture, ink = (one[: bottom + cut[0], : right + cut[1]] for one in (picture, ink))
    values = picture.astype(np.float32)
    found = covered(unread_areas(values, text_chances(values), (), ()), picture.shape)
    assert found[ink].all()


def test_a_line_is_acquitted_only_by_a_reading_that_accounts_for_its_ink() -> None:
    picture, letters = drawn("SUPINE PORTABLE")

    assert not unread(picture, TextBox(90, 185, 310, 215, "SUPINE PORTABLE", 0.98)).any()
    assert unread(picture, TextBox(90, 185, 310, 215, "1", 0.98))[letters].all()
    assert unread(picture, TextBox(90, 185, 310, 215, "   ", 0.98))[letters].all()


def test_unread_text_is_blanked_and_read_text_is_kept() -> None:
    picture, letters = drawn(NAME)

    released = cleaned(picture, _Reader())
    assert len(np.unique(released[letters])) == 1

    harmless = _Reader(TextBox(60, 180, 340, 220, NAME, 0.99))
    assert np.array_equal(cleaned(picture, harmless), picture)


@pytest.mark.parametrize("agrees", [True, False])
def test_read_text_stays_only_if_the_second_reader_confirms_it(agrees: bool) -> None:
    picture, letters = drawn(NAME)
    reader = _Reader(TextBox(60, 180, 340, 220, NAME, 0.99))

    released = cleaned(picture, reader, confirms=lambda *_: agrees)

    assert np.array_equal(released, picture) is agrees
    assert (len(np.unique(released[letters])) == 1) is not agrees


def test_a_word_of_which_a_part_identifies_is_blanked_whole() -> None:
    picture, letters = drawn("WESTWAY MEDICAL", 24)
    columns = np.flatnonzero(letters.any(axis=0))
    middle = int(columns[0] + 0.22 * (columns[-1] - columns[0]))
    first = TextBox(int(columns[0]) - 2, 180, middle, 220, "WEST", 0.99)
    rest = TextBox(middle, 190, int(columns[-1]) + 2, 201, "WAYMEDICAL", 0.99)

    released = cleaned(
        picture, _Reader(first, rest), lambda boxes: tuple(box for box in boxes if box.text != "WEST")
    )

    assert len(np.unique(released[letters])) == 1


def test_a_frame_full_of_unread_text_is_quarantined() -> None:
    layer = Image.new("L", (400, 400))
    for row in range(10, 390, 24):
        ImageDraw.Draw(layer).text((10, row), NAME + NAME, fill=255, font=ImageFont.load_default(16))

    with pytest.raises(Quarantined, match="burned-in-text-unread"):
        cleaned(np.asarray(layer), _Reader())


@pytest.mark.parametrize(
    "line",
    [TextBox(20, 20, 100, 34, "11-06:02", 0.89), TextBox(20, 20, 80, 31, "IOSNLASUE", 0.45)],
    ids=["legible", "illegible"],
)
def test_small_text_that_only_the_reader_sees_is_blanked(line: TextBox) -> None:
    picture = np.full((120, 160), 90, np.uint8)
    picture[22:30, 40:60] = 120

    released = cleaned(picture, _Reader(line), find_all)

    assert (released == 90).all()


@pytest.mark.parametrize(("text", "score"), [("00000", 0.96), ("AAARRR", 0.7)])
def test_organs_that_only_the_reader_takes_for_large_letters_stay(text: str, score: float) -> None:
    picture = np.full((120, 160), 90, np.uint8)
    picture[60:, :80] = 140

    released = cleaned(picture, _Reader(TextBox(10, 10, 150, 80, text, score)), find_all)

    assert np.array_equal(released, picture)


def test_single_letters_read_along_a_line_acquit_nothing() -> None:
    picture, letters = drawn(NAME)
    columns = np.flatnonzero(letters.any(axis=0))
    signs = [TextBox(int(x), 190, int(x) + 14, 210, "o", 0.97) for x in columns[:-14:15]]

    assert unread(picture, *signs)[letters].all()


def test_a_slanted_line_is_acquitted_only_as_a_whole() -> None:
    picture, letters = drawn(NAME, 18, 45)

    assert unread(picture, TextBox(180, 180, 215, 215, "KVP120", 0.99))[letters].all()
