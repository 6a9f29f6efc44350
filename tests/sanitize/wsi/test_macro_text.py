"""Text that is found in the kept part of a macro image, and what is found again after blanking."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.sanitize.formats.ground import mask_of
from medsanitize.sanitize.wsi.macro_ocr import text_areas
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

pytestmark = [pytest.mark.wsi, pytest.mark.pixels]

ROWS, COLUMNS = 400, 900
WHOLE = (0, 0, COLUMNS, ROWS)
GLASS = (200, 196, 204)


def ink(text: str, size: int, at: tuple[int, int]) -> NDArray[np.bool_]:
    layer = Image.new("L", (COLUMNS, ROWS))
    ImageDraw.Draw(layer).text(at, text, 255, font=ImageFont.load_default(size))
    return np.asarray(layer) > 128


def glass(mask: NDArray[np.bool_], color: tuple[int, int, int]) -> NDArray[np.uint8]:
    """A glass with the noise of a camera, with ink on it."""
    picture = np.broadcast_to(np.array(GLASS, float), (ROWS, COLUMNS, 3)).copy()
    picture[mask] = color
    picture += np.random.default_rng(1).normal(0, 2, (ROWS, COLUMNS, 1))
    return picture.astype(np.uint8)


@pytest.mark.parametrize(
    ("text", "size", "color"),
    [
        ("Kowa", 260, (30, 30, 60)),
        # Brighter red and darker green: the gray value of the glass.
        ("Tolwinska 1961", 30, (230, 140, 183)),
    ],
    ids=["large", "seen by color"],
)
def test_text_is_found_as_in_other_images(text: str, size: int, color: tuple[int, int, int]) -> None:
    mask = ink(text, size, (60, 40))

    found = mask_of(text_areas(glass(mask, color), WHOLE, []), mask.shape)

    assert (found & mask).sum() >= 0.97 * mask.sum()


def test_what_blanking_leaves_of_a_word_is_found() -> None:
    mask = ink("Tolwinska 1961", 30, (60, 100))
    picture = glass(mask, (30, 30, 60))
    half = (56, 96, 160, 144)
    picture[half[1] : half[3], half[0] : half[2]] = 0
    rest = mask.copy()
    rest[:, : half[2]] = False

    found = mask_of(text_areas(picture, WHOLE, [half]), mask.shape)

    assert (found & rest).sum() >= 0.97 * rest.sum()


def test_black_areas_are_no_letters() -> None:
    picture = glass(np.zeros((ROWS, COLUMNS), bool), (0, 0, 0))
    # An L, an I and a T of black areas.
    areas = [(80, 80, 120, 280), (120, 240, 200, 280), (280, 80, 320, 280), (400, 80, 560, 120)]
    areas.append((460, 120, 500, 280))
    for left, top, right, bottom in areas:
        picture[top:bottom, left:right] = 0

    assert text_areas(picture, WHOLE, areas) == []
