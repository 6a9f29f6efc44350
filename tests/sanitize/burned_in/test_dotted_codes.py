"""Codes of separate dots are found, in either polarity and at any angle; specks are none."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.sanitize.burned_in.codes import find_codes
from medsanitize.sanitize.formats.ground import mask_of
from numpy.typing import NDArray
from PIL import Image

cv2 = pytest.importorskip("cv2")
zxingcpp = pytest.importorskip("zxingcpp")

SIDE = 360


def dots(pitch: int, angle: int, text: str = "4471902-77", side: int = SIDE) -> NDArray[np.float64]:
    """How much of each pixel the dots of a Data Matrix cover."""
    code = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.DataMatrix)
    modules = np.asarray(zxingcpp.write_barcode_to_image(code, scale=1, add_quiet_zones=False)).squeeze()
    drawn = np.zeros((side, side), np.uint8)
    for y, x in (np.argwhere(modules < 128) * pitch + 100).tolist():
        cv2.circle(drawn, (x, y), round(pitch / 3), 255, -1, cv2.LINE_AA)
    return np.asarray(Image.fromarray(drawn).rotate(angle, Image.Resampling.BICUBIC)) / 255


@pytest.mark.parametrize("angle", [0, 25])
@pytest.mark.parametrize(("pitch", "ink"), [(6, 240), (8, 30)])
def test_a_code_of_dots_is_found(pitch: int, ink: int, angle: int) -> None:
    share = dots(pitch, angle)
    ground = 140 + np.random.default_rng(1).normal(0, 5, share.shape)
    picture = np.clip(ground * (1 - share) + ink * share, 0, 255).astype(np.uint8)

    found = mask_of(find_codes(picture), picture.shape)

    mask = share > 0.5
    assert (found & mask).sum() >= 0.99 * mask.sum()
    assert found.mean() < 0.4


def test_a_code_of_more_than_two_thousand_dots_is_found() -> None:
    share = dots(6, 0, "Bartholomew Quixley-Vane 4471902-77 / " * 16, 900)
    assert cv2.connectedComponents((share > 0.5).astype(np.uint8), connectivity=4)[0] > 2000

    found = mask_of(find_codes((140 + 100 * share).astype(np.uint8)), share.shape)

    assert found[share > 0.5].mean() > 0.99


def test_specks_at_random_are_no_code() -> None:
    picture = np.full((SIDE, SIDE), 140, np.uint8)
    for y, x in np.random.default_rng(2).integers(20, SIDE - 20, (400, 2)).tolist():
        cv2.circle(picture, (x, y), 2, 240, -1, cv2.LINE_AA)

    assert find_codes(picture) == ()
