"""Costly searches look only where text may be: OCR at ink, colors where the gray values hide edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from medsanitize.sanitize.burned_in.clean import _FrameCleaner
from medsanitize.sanitize.burned_in.frame_search import show_text
from medsanitize.sanitize.burned_in.hidden_colors import hidden_colors
from medsanitize.sanitize.burned_in.readable import readable_chances
from medsanitize.sanitize.burned_in.text_map import text_chances
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

pytestmark = pytest.mark.pixels

ROWS, COLUMNS = 256, 512
# The same gray value.
GROUND, INK = (200, 196, 204), (230, 140, 183)


def letters(text: str, size: int, at: tuple[int, int]) -> NDArray[np.bool_]:
    layer = Image.new("L", (COLUMNS, ROWS))
    ImageDraw.Draw(layer).text(at, text, 255, font=ImageFont.load_default(size))
    return np.asarray(layer) > 128


def planes_of(colors: NDArray[Any]) -> list[Any]:
    return hidden_colors(colors, Geometry(ROWS, COLUMNS, 3, 1, 8, 8, 7, False, "RGB"), "RGB", None)


def blob() -> NDArray[np.float32]:
    y, x = np.mgrid[:ROWS, :COLUMNS]
    return (40 + 150 * np.exp(-((y - 120) ** 2 + (x - 250) ** 2) / 400)).astype(np.float32)


@pytest.mark.parametrize(("chance", "is_read"), [(0.5, False), (0.65, True)])
def test_a_smooth_shadow_is_read_only_if_the_network_takes_it_for_text(chance: float, is_read: bool) -> None:
    chances = np.zeros((ROWS // 4, COLUMNS // 4), np.float32)
    chances[26:34, 54:72] = chance

    assert bool(readable_chances(blob(), chances).any()) is is_read


@pytest.mark.parametrize("size", [10, 16, 32])
def test_where_there_are_letters_is_read(size: int) -> None:
    values = blob()
    values[letters("Kowalski 1961", size, (20, 20))] += 12
    chances = text_chances(values)
    doubted = np.minimum(chances, np.float32(0.55))

    kept = readable_chances(values, doubted)

    assert (kept > 0).sum() >= 0.9 * (doubted >= 0.1).sum() > 0


def test_faint_lines_below_each_other_are_read() -> None:
    text = "Kowalski Jan\n12.03.1961\nMRN 448812\nSt. Anna\nDr. Huber"
    lines = Image.fromarray(letters(text, 9, (120, 60))).convert("L")
    shown = np.asarray(lines.rotate(20, Image.Resampling.BILINEAR)) / 255
    y, x = np.mgrid[:ROWS, :COLUMNS]
    noise = np.random.default_rng(1).normal(0, 2, (ROWS, COLUMNS))
    ground = 60 + 60 * np.sin(x / 60) + 20 * np.cos(y / 40) + noise
    values = np.clip(ground + 5 * shown, 0, 255).round().astype(np.float32)
    chances = text_chances(values)

    # One piece of several lines, of whose height its letters are a small part.
    assert (readable_chances(values, chances) > 0).sum() >= 0.8 * (chances >= 0.1).sum() > 0


@pytest.mark.parametrize("size", [10, 24, 90])
def test_colors_are_searched_where_gray_values_hide_letters(size: int) -> None:
    mask = letters("Tolwi", size, (40, 60))
    colors = np.empty((ROWS, COLUMNS, 3), np.uint8)
    colors[:], colors[mask] = GROUND, INK

    planes = planes_of(colors)

    assert len(planes) == 1
    ((left, top, right, bottom),) = planes[0].areas
    y, x = np.nonzero(mask)
    assert left <= x.min()
    assert right > x.max()
    assert top <= y.min()
    assert bottom > y.max()
    assert (right - left) * (bottom - top) < 0.6 * ROWS * COLUMNS or size > 24


def test_letters_of_colors_on_two_axes_are_seen() -> None:
    colors = np.empty((ROWS, COLUMNS, 3), np.uint8)
    colors[:] = GROUND
    masks = [letters("Tolwinska", 24, (20, 20)), letters("Ottilie", 24, (220, 160))]
    colors[masks[0]], colors[masks[1]] = INK, (153, 220, 190)

    planes = planes_of(colors)

    for mask in masks:
        steps = [abs(float(one.values[mask].mean() - one.values[0, 0])) for one in planes]
        assert max(steps) > 10


def test_smooth_colors_are_searched_once() -> None:
    ramp = np.linspace(0, 255, COLUMNS)[None, :, None] * np.array([1, 0.5, 0.2]) + np.zeros((ROWS, 1, 1))
    calls: list[tuple[int, ...]] = []

    def find(values: NDArray[np.float32]) -> NDArray[np.float32]:
        calls.append(values.shape)
        return text_chances(values)

    shown = show_text(blob(), planes_of(ramp.astype(np.uint8)), find)

    assert shown.hidden == ()
    assert calls == [(ROWS, COLUMNS)]


def test_equal_values_of_another_shape_have_their_own_text_map() -> None:
    nothing: Any = None
    cleaner = _FrameCleaner(nothing, nothing, nothing, (), {}, everything=False)
    flat = np.zeros((64, 128), np.float32)

    assert [cleaner.text_map(one).shape for one in (flat, flat.T)] == [(16, 32), (32, 16)]
