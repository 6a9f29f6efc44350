"""Test patterns look like codes: one that fills a frame is quarantined, never blanked as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from medsanitize.sanitize.burned_in.clean import clean_frames
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import PIXEL_DATA, WrittenPixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import EXPLICIT_LITTLE, TRANSFER_SYNTAXES
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

pytestmark = pytest.mark.pixels

SIDE = 256


class NoReader:
    def read(self, *_: object) -> tuple[()]:
        return ()

    def read_changes(self, *_: object) -> tuple[()]:
        return ()


def changed(frame: NDArray[np.uint8]) -> float:
    """Part of a frame that cleaning changes."""
    geometry = Geometry(*frame.shape, 1, 1, 8, 8, 7, False, "MONOCHROME2")
    syntax = TRANSFER_SYNTAXES["1.2.840.10008.1.2.1"]
    pixels = WrittenPixels([b"head", frame.tobytes()], [], 0, PIXEL_DATA)
    image = ImageFrames(StoredFrames(b"", pixels, EXPLICIT_LITTLE, syntax, geometry), syntax, geometry)
    order = CleaningOptions(lambda _: ())
    clean_frames(image, order, NoReader(), decompress=True, most_bytes=1 << 20)  # type: ignore[arg-type]
    released = np.frombuffer(image.stored.released(0), np.uint8).reshape(frame.shape)
    return float((released != frame).mean())


def checkerboard(side: int) -> NDArray[np.uint8]:
    y, x = np.mgrid[:SIDE, :SIDE]
    return np.where((y // side + x // side) % 2, 230, 20).astype(np.uint8)


@pytest.mark.parametrize("side", [3, 6])
def test_a_checkerboard_that_fills_a_frame_is_quarantined(side: int) -> None:
    with pytest.raises(Quarantined, match="burned-in-text-unread"):
        changed(checkerboard(side))


def test_a_code_that_fills_a_frame_is_blanked() -> None:
    zxingcpp = pytest.importorskip("zxingcpp")
    code = zxingcpp.create_barcode("4471902-77", zxingcpp.BarcodeFormat.QRCode)
    modules = np.asarray(zxingcpp.write_barcode_to_image(code, scale=9, add_quiet_zones=False)).squeeze()

    assert changed(np.pad(modules, 8, constant_values=255)) > 0.3


def test_line_pairs_over_most_of_a_frame_are_quarantined() -> None:
    frame = np.full((SIDE, SIDE), 20, np.uint8)
    for row, width in enumerate((8, 6, 4, 3)):
        for left in range(20, 20 + 12 * width, 2 * width):
            frame[20 + 56 * row : 60 + 56 * row, left : left + width] = 220

    with pytest.raises(Quarantined, match="burned-in-text-unread"):
        changed(frame)


@pytest.mark.parametrize("kind", ["grid", "ruler"])
def test_grids_and_rulers_stay_in_most_of_their_frame(kind: str) -> None:
    frame = np.full((SIDE, SIDE), 20, np.uint8)
    if kind == "grid":
        frame[::32], frame[:, ::32] = 200, 200
    else:
        frame[240, 20:236] = 255
        frame[230:240, 20:236:6] = 255

    assert changed(frame) < 0.4
