"""Text drawn on real frames is found and read: small, faint, rotated, at the border, in later frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import pydicom
import pytest
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.find_text import read_frames
from medsanitize.sanitize.burned_in.ocr import Bounds, Cells, Frame, TextReader, _scale
from medsanitize.sanitize.burned_in.rendering import render_frame
from medsanitize.sanitize.burned_in.text_map import Chances, text_chances
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydicom.data import get_testdata_file
from pydicom.pixels import pixel_array

pytest.importorskip("onnxruntime")
pytest.importorskip("rapidocr")

LINE = "KOWALSKA ANNA 48210077"


@lru_cache
def reader() -> TextReader:
    return TextReader()


@lru_cache
def _slice() -> Image.Image:
    dataset = pydicom.dcmread(str(get_testdata_file("MR_small.dcm", download=False)))
    values = pixel_array(dataset).astype(float)
    gray = np.clip((values - values.min()) / np.ptp(values) * 200, 0, 255).astype(np.uint8)
    return Image.fromarray(gray)


def anatomy(rows: int = 320, columns: int = 320) -> Frame:
    """A real MR slice, enlarged."""
    return np.asarray(_slice().resize((columns, rows), Image.Resampling.BICUBIC)).copy()


def written(
    frame: Frame, text: str, at: tuple[int, int], size: int, *, ink: float = 1.0, turned: int = 0
) -> NDArray[np.bool_]:
    """Draw ``text`` with its corner ``at`` (x, y), ``ink`` of the gray range above the background."""
    font = ImageFont.load_default(size)
    width, height = (int(side) + 2 for side in font.getbbox(text)[2:])
    drawn = Image.new("L", (width, height))
    ImageDraw.Draw(drawn).text((1, 0), text, fill=255, font=font)
    glyphs = np.asarray(drawn.rotate(turned, expand=True))
    x, y = at
    place = np.s_[y : y + glyphs.shape[0], x : x + glyphs.shape[1]]
    level = frame[place].mean()
    value = level + 255 * ink if level + 255 * ink <= 255 else max(0.0, level - 255 * ink)
    share = glyphs / 255.0
    frame[place] = np.round(frame[place] * (1 - share) + value * share).astype(np.uint8)
    mask = np.zeros(frame.shape, bool)
    mask[place] = glyphs > 110
    return mask


def covered(boxes: tuple[TextBox, ...], mask: NDArray[np.bool_]) -> float:
    blank = np.zeros(mask.shape, bool)
    for box in boxes:
        area = area_to_blank(box, (mask.shape[0], mask.shape[1]))
        blank[area.top : area.bottom, area.left : area.right] = True
    return float((blank & mask).sum() / mask.sum())


def letters(boxes: tuple[TextBox, ...]) -> str:
    return "".join(char for box in boxes for char in box.text if char.isalnum())


@pytest.mark.parametrize(
    ("size", "ink", "turned"),
    [(10, 0.7, 0), (13, 0.45, 0), (14, 0.45, 90), (14, 0.6, 270), (13, 0.7, 180), (22, 0.3, 0)],
)
def test_a_line_over_anatomy_is_covered_completely_and_read(size: int, ink: float, turned: int) -> None:
    frame = anatomy()
    mask = written(frame, LINE, (8, 8), size, ink=ink, turned=turned)
    boxes = reader().read(frame)
    assert covered(boxes, mask) > 0.99
    assert LINE.replace(" ", "") in letters(boxes)


def test_dark_text_on_a_bright_background_at_the_frame_edge_is_read() -> None:
    frame = np.full((240, 320), 244, np.uint8)
    mask = written(frame, LINE, (0, 222), 14, ink=0.2)
    boxes = reader().read(frame)
    assert covered(boxes, mask) > 0.99
    assert "KOWALSKA" in letters(boxes)


def test_small_text_is_found_in_a_large_frame() -> None:
    frame = anatomy(1100, 1400)
    mask = written(frame, LINE, (1000, 900), 16, ink=0.5)
    assert covered(reader().read(frame), mask) > 0.99


def test_specks_of_noise_do_not_enlarge_the_frame_of_large_letters() -> None:
    letters = np.zeros((300, 300), np.float32)
    letters[10:290, 20:30] = letters[10:290, 60:70] = letters[10:290, 100:130] = 1.0
    specks = letters.copy()
    specks[::9, 200::9] = 0.3

    assert _scale(letters, 1 << 20) == _scale(specks, 1 << 20) == 1


@pytest.mark.parametrize(("cells", "least"), [(2, 2.9), (4, 1.6), (8, 1.0)])
def test_small_letters_enlarge_the_frame(cells: int, least: float) -> None:
    chances = np.zeros((400, 400), np.float32)
    for row in range(10, 390, 20):
        chances[row : row + cells, 10:200] = 1.0
    assert least <= _scale(chances, 1 << 21) < least + 0.2


def test_a_few_large_letters_are_enlarged_since_it_costs_little() -> None:
    chances = np.zeros((32, 32), np.float32)
    chances[4:13, 2:20] = 1.0
    assert _scale(chances, 128 * 128) == 2


class Blinded(TextReader):
    """A reader that takes a whole frame for one large text area and reads lines only in parts of it."""

    def __init__(self, patch: Bounds) -> None:
        super().__init__()
        self._models = reader()._models
        self.patch = patch

    def _look(self, frame: Frame, scale: float, where: Cells | None = None) -> list[Bounds]:
        whole = max(frame.shape) == 320
        return [self.patch] if whole else super()._look(frame, scale, where)


def test_a_large_area_without_recognized_text_is_read_again() -> None:
    frame = anatomy()
    mask = written(frame, "2021-10-30 68Y", (60, 90), 12, ink=0.7)
    boxes = Blinded((40, 40, 240, 190)).read(frame)
    assert "20211030" in letters(boxes)
    assert covered(tuple(box for box in boxes if box.height < 40), mask) > 0.99


def test_a_line_one_gray_level_above_a_uniform_background_is_read() -> None:
    frame = np.full((200, 320), 244, np.uint8)
    mask = written(frame, LINE, (8, 40), 14, ink=1 / 255)
    frame[100, 100] = 0
    pictures = render_frame(
        frame, Geometry(200, 320, 1, 1, 8, 8, 7, False, "MONOCHROME2"), "MONOCHROME2", None
    )
    assert max(covered(reader().read(one), mask) for one in pictures) > 0.99


def test_a_uniform_background_is_rendered_in_one_way_only() -> None:
    frame = np.zeros((64, 64), np.uint8)
    frame[20:30, 20:50] = 255
    geometry = Geometry(64, 64, 1, 1, 8, 8, 7, False, "MONOCHROME2")
    assert len(render_frame(frame, geometry, "MONOCHROME2", None)) == 1


def test_a_frame_without_contrast_has_no_text() -> None:
    assert reader().read(np.full((64, 64), 7, np.uint8)) == ()


def test_the_repr_of_a_box_does_not_show_its_text() -> None:
    assert "ANNA" not in repr(TextBox(0, 0, 9, 9, "ANNA", 1.0))


class Counting(TextReader):
    """A reader that records the shapes it was asked to read."""

    def __init__(self) -> None:
        super().__init__()
        self._models = reader()._models
        self.shapes: list[tuple[int, ...]] = []

    def read(self, frame: Frame, chances: Chances | None = None) -> tuple[TextBox, ...]:
        self.shapes.append(frame.shape)
        return super().read(frame, chances)


def mapped(frames: Iterable[Frame]) -> Iterator[tuple[Frame, Chances]]:
    """Frames with their text maps."""
    return ((frame, text_chances(frame.astype(np.float32))) for frame in frames)


def cine() -> Iterator[Frame]:
    """Three frames with one line, of which the last shows a second line."""
    first = anatomy()
    written(first, "PORTABLE", (8, 8), 16, ink=0.7)
    last = first.copy()
    written(last, LINE, (8, 280), 14, ink=0.7)
    yield from (first, first.copy(), last)


def test_unchanged_frames_are_read_once_and_new_text_is_found() -> None:
    counting = Counting()
    texts = [letters(boxes) for boxes in read_frames(counting, mapped(cine()))]
    assert counting.shapes[0] == (320, 320)
    assert len(counting.shapes) == 2
    assert counting.shapes[1][0] < 160
    assert texts[0] == texts[1] == "PORTABLE"
    assert "KOWALSKA" in texts[2]
    assert "PORTABLE" in texts[2]


def test_an_unchanged_line_keeps_its_first_reading() -> None:
    first = np.zeros((120, 160), np.uint8)
    written(first, "Harmonic Sector", (20, 50), 9, ink=0.6)
    last = first.copy()
    last[:40] = last[75:] = 90
    boxes = tuple(read_frames(reader(), mapped([first, last])))
    assert boxes[0]
    assert set(boxes[0]) <= set(boxes[1])
    assert not any(box.top < 60 and box.bottom > 50 for box in set(boxes[1]) - set(boxes[0]))


def test_text_that_fades_in_slowly_is_read() -> None:
    empty, full = np.full((120, 200), 20, np.uint8), np.full((120, 200), 20, np.uint8)
    written(full, "KOWALSKA", (20, 50), 16, ink=0.6)
    steps = [
        np.round(empty + (full.astype(float) - empty) * part).astype(np.uint8)
        for part in np.arange(0, 1, 0.03)
    ]
    assert "KOWALSKA" in letters(tuple(read_frames(reader(), mapped([*steps, full])))[-1])


def test_reading_does_not_change_the_callers_arithmetic_settings() -> None:
    frame = anatomy()
    written(frame, LINE, (20, 20), 14)

    reader().read(frame)

    assert np.float64(5e-324) * 1.0 > 0
