"""Text over the frames of a cine that moves, appears once, or stays: gone from each frame in which it is."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.burned_in import clean
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import Outcome
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from pydicom.dataset import Dataset

from tests.helpers.released_bytes import released_bytes

Real = Callable[[str], Dataset]
Frames = NDArray[Any]
Run = Callable[[Frames], Frames]

pytestmark = [pytest.mark.pixels, pytest.mark.filterwarnings("ignore")]

NAME = "GRZBOWSKA ANNA"
# Rows of the scan, without the lines of the machine.
SCAN = slice(20, 212)


@pytest.fixture(scope="module")
def loop(real: Real) -> Frames:
    """Four frames of a real cine of ultrasound, the scan only, with 12 bits."""
    colors = real("examples_ybr_color.dcm").pixel_array[::8, SCAN, 40:296]
    return np.ascontiguousarray(colors[..., 0] if colors.ndim == 4 else colors).astype(np.uint16) * 16


@pytest.fixture(scope="module")
def run(real: Real, make_policy: Callable[..., Policy], subkeys: SubKeys, load_bytes: Any) -> Run:
    """Release a multi-frame capture under ``research``; the frames that are released."""
    sanitizer = DicomSanitizer(make_policy("research", pixels={"faces": "ignore"}), subkeys)

    def go(frames: Frames) -> Frames:
        source = real("MR_small.dcm")
        source.SOPClassUID = source.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7.3"
        source.Modality, source.PatientName = "OT", "Grzbowska^Anna"
        source.NumberOfFrames, source.Rows, source.Columns = frames.shape
        source.BitsAllocated = source.BitsStored = 16
        source.HighBit, source.PixelRepresentation = 15, 0
        source.PixelData = frames.astype("<u2").tobytes()
        data = load_bytes(source)
        done = sanitizer(data, Context("id:a", "key", inspect_dicom(data).known))
        assert done.record.outcome is Outcome.RELEASED, done.record.findings
        released: Frames = pydicom.dcmread(BytesIO(released_bytes(done, data)), force=True).pixel_array
        return released

    return go


def letters(shape: tuple[int, ...], left: int, top: int) -> NDArray[np.bool_]:
    picture = Image.new("L", shape[::-1])
    ImageDraw.Draw(picture).text((left, top), NAME, 255, font=ImageFont.load_default(18))
    return np.asarray(picture) > 100


def kept(after: Frames, before: Frames, mask: NDArray[np.bool_]) -> float:
    """The part of the letters that is as it was."""
    return float((after == before)[mask].mean())


@pytest.mark.parametrize("brightness", [1.0, 0.3], ids=["bright", "faint"])
@pytest.mark.parametrize("step", [(3, 1), (0, 17)], ids=["a few pixels", "by lines"])
def test_text_that_moves_is_gone_from_every_frame(
    step: tuple[int, int], brightness: float, loop: Frames, run: Run
) -> None:
    frames = loop.copy()
    masks = [letters(frames.shape[1:], 10 + step[0] * at, 60 + step[1] * at) for at in range(len(frames))]
    for frame, mask in zip(frames, masks, strict=True):
        frame[mask] = np.minimum(frame[mask] + int(brightness * frames.max()), frames.max())

    released = run(frames)

    for after, before, mask in zip(released, frames, masks, strict=True):
        assert kept(after, before, mask) < 0.02


def test_text_in_one_frame_only_is_gone(loop: Frames, run: Run) -> None:
    frames = loop.copy()
    mask = letters(frames.shape[1:], 30, 150)
    frames[2][mask] = frames.max()

    assert kept(run(frames)[2], frames[2], mask) < 0.02


def test_equal_frames_are_searched_once(loop: Frames, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Frames] = []
    search = clean.text_chances
    monkeypatch.setattr(clean, "text_chances", lambda values: seen.append(values) or search(values))

    run(loop[[0, 1, 0, 1, 0]])

    assert len(seen) == 2
