"""Overlay planes drawn over the pixels: text that is legible only in both together is removed from both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.model import Policy
from medsanitize.sanitize.burned_in.drawn_planes import DrawnPlane
from medsanitize.sanitize.result import Sanitized
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydicom.dataset import Dataset

Real = Callable[[str], Dataset]
Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Cells = NDArray[np.bool_]

pytestmark = [pytest.mark.pixels, pytest.mark.filterwarnings("ignore")]

SIDE = 384
ORIGIN = 9  # first row and column of the plane over the image, from 0


@pytest.fixture(scope="module")
def policy(make_policy: Callable[..., Policy]) -> Policy:
    return make_policy("research", dicom={"options": {"clean_graphics": True}}, pixels={"faces": "ignore"})


def letters(text: str) -> Cells:
    picture = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(picture).text((20, 12), text, 255, font=ImageFont.load_default(20))
    cells: Cells = np.asarray(picture) > 100
    return cells


def capture(real: Real, in_pixels: Cells, in_planes: tuple[Cells, ...], value: int | None = None) -> Dataset:
    """A capture of a real slice, six times enlarged, with ink in its frames and in a plane over each."""
    source = real("MR_small.dcm")
    frame = np.kron(source.pixel_array, np.ones((6, 6), np.int16))
    frame[in_pixels] = frame.max() if value is None else value
    source.SOPClassUID = source.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    source.Modality, source.ConversionType = "OT", "WSD"
    source.PatientName = "Grzbowska^Anna"
    source.Rows = source.Columns = SIDE
    source.NumberOfFrames = len(in_planes)
    source.PixelData = np.stack([frame] * len(in_planes)).astype("<i2").tobytes()
    cut = np.stack([plane[ORIGIN:, ORIGIN:] for plane in in_planes])
    source.add_new(0x60000010, "US", cut.shape[1])
    source.add_new(0x60000011, "US", cut.shape[2])
    source.add_new(0x60000015, "IS", len(in_planes))
    source.add_new(0x60000040, "CS", "G")
    source.add_new(0x60000050, "SS", [ORIGIN + 1, ORIGIN + 1])
    source.add_new(0x60000051, "US", 1)
    source.add_new(0x60000100, "US", 1)
    source.add_new(0x60000102, "US", 0)
    source.add_new(0x60003000, "OW", np.packbits(cut, bitorder="little").tobytes())
    return source


def plane_of(released: Dataset) -> Cells:
    """The plane's pixels in the place where they are drawn, shape (frames, rows, columns)."""
    size = SIDE - ORIGIN
    frames = int(released[0x60000015].value)
    bits = np.frombuffer(released[0x60003000].value, np.uint8)
    cells = np.unpackbits(bits, bitorder="little", count=frames * size * size).reshape(frames, size, size)
    return np.pad(cells > 0, ((0, 0), (ORIGIN, 0), (ORIGIN, 0)))


def bands(height: int) -> Cells:
    """Every second band of rows: letters that are cut so are no letters."""
    return np.broadcast_to(np.arange(SIDE)[:, None] // height % 2 == 0, (SIDE, SIDE))


NOTHING = np.zeros((SIDE, SIDE), bool)


@pytest.mark.parametrize("value", [None, 0], ids=["bright letters", "dark letters"])
def test_letters_divided_between_pixels_and_plane_are_removed_from_both(
    value: int | None, real: Real, release: Release, policy: Policy
) -> None:
    name = letters("GRZBOWSKA ANNA")
    source = capture(real, name & bands(3), (name & ~bands(3),), value)

    _, _, released = release(source, policy)

    frame = released.pixel_array
    assert not plane_of(released)[0][name].any()
    assert len(np.unique(frame[name & bands(3)])) < len(np.unique(source.pixel_array[name & ~bands(3)])) / 4


def test_a_plane_over_one_frame_changes_no_other_frame(real: Real, release: Release, policy: Policy) -> None:
    name = letters("GRZBOWSKA ANNA")
    source = capture(real, NOTHING, (NOTHING, name & ~bands(3), NOTHING))
    frames = source.pixel_array.copy()
    frames[1][name & bands(3)] = frames.max()
    # What is blanked in one frame is also blanked in frames with the same content there.
    frames[0], frames[2] = frames[0][:, ::-1].copy(), frames[2][::-1].copy()
    source.PixelData = frames.astype("<i2").tobytes()

    _, _, released = release(source, policy)

    assert not plane_of(released)[1][name].any()
    assert (released.pixel_array != frames).any(axis=(1, 2)).tolist() == [False, True, False]


def test_a_harmless_drawing_stays_as_it_is(real: Real, release: Release, policy: Policy) -> None:
    ruler = NOTHING.copy()
    ruler[340, 60:320] = True
    ruler[330:340, 60:320:20] = True
    source = capture(real, NOTHING, (ruler,))

    _, _, released = release(source, policy)

    assert np.array_equal(plane_of(released)[0], ruler)
    assert np.array_equal(released.pixel_array, source.pixel_array)


Place = st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 30), st.integers(1, 30))


@given(
    left=st.integers(-12, 30),
    top=st.integers(-12, 30),
    first=st.none() | st.integers(0, 3),
    place=Place,
    frame=st.integers(0, 4),
)
def test_a_plane_without_an_area_shows_the_same_outside_it_and_nothing_inside(
    left: int, top: int, first: int | None, place: Any, frame: int
) -> None:
    cells = np.ones((1 if first is None else 2, 11, 13), bool)
    plane = DrawnPlane(cells, left, top, first)
    area = place[0], place[1], place[0] + place[2], place[1] + place[3]

    cut = DrawnPlane(plane.without({frame: (area,)}), left, top, first)

    before, after = plane.over(frame, (24, 25)), cut.over(frame, (24, 25))
    if before is not None and after is not None:
        before[max(0, area[1]) : max(0, area[3]), max(0, area[0]) : max(0, area[2])] = False
        assert np.array_equal(before, after)
    assert (before is None) == (after is None)
