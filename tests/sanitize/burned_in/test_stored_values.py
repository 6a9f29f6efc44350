"""A line planted into stored values that a viewer shows by a window, a palette or a color model."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pydicom
import pytest
from medsanitize.policies.model import Policy
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
Samples = NDArray[Any]
Run = Callable[[Dataset, Samples], Samples]

pytestmark = [pytest.mark.pixels, pytest.mark.filterwarnings("ignore")]

NAME = "GRZBOWSKA ANNA"


@pytest.fixture(scope="module")
def run(make_policy: Callable[..., Policy], subkeys: SubKeys, load_bytes: Any) -> Run:
    """Release an object with other samples under ``research``; the released samples."""
    sanitizer = DicomSanitizer(make_policy("research", pixels={"faces": "ignore"}), subkeys)

    def go(source: Dataset, samples: Samples) -> Samples:
        source.SOPClassUID = source.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
        source.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1"
        source.Modality, source.PatientName = "OT", "Grzbowska^Anna"
        source.Rows, source.Columns = samples.shape[:2]
        source.PixelData = samples.tobytes()
        source["PixelData"].VR = "OW" if samples.itemsize > 1 else "OB"
        data = load_bytes(source)
        done = sanitizer(data, Context("id:a", "key", inspect_dicom(data).known))
        assert done.record.outcome is Outcome.RELEASED, done.record.findings
        released = pydicom.dcmread(BytesIO(released_bytes(done, data)), force=True)
        raw = np.frombuffer(released.PixelData, samples.dtype)
        return raw[: samples.size].reshape(samples.shape)

    return go


def letters(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    picture = Image.new("L", (shape[1], shape[0]))
    ImageDraw.Draw(picture).text((24, 40), NAME, 255, font=ImageFont.load_default(18))
    return np.asarray(picture) > 100


def is_gone(released: Samples, planted: Samples) -> bool:
    """Whether hardly a sample of the letters is as it was planted."""
    mask = letters(planted.shape)
    same = (released == planted).reshape(*mask.shape, -1).all(axis=2)
    return bool(same[mask].mean() < 0.02)


@pytest.mark.parametrize("model", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(
    ("above", "outlier"), [(60, 0), (60, 30000), (-60, 30000)], ids=["bright", "narrow", "dark"]
)
def test_a_line_in_a_part_of_the_range_of_16_bits_is_found(
    model: str, above: int, outlier: int, real: Real, run: Run
) -> None:
    source = real("MR_small.dcm")
    tissue = np.kron(source.pixel_array, np.ones((4, 4), np.int16)) // 8 + 500
    tissue[letters(tissue.shape)] += above
    # Implants and padding take the range: a viewer's window shows the tissue only.
    tissue[200:230, 200:230] += outlier
    source.PhotometricInterpretation = model
    source.WindowCenter, source.WindowWidth = 550, 200

    assert is_gone(run(source, tissue.astype("<i2")), tissue)


def test_a_line_in_the_colors_of_a_palette_is_found(real: Real, run: Run) -> None:
    source = real("examples_palette.dcm")
    indices = np.ascontiguousarray(source.pixel_array[60:220, 200:456])
    colors = np.stack(
        [
            np.frombuffer(source[f"{name}PaletteColorLookupTableData"].value, "<u2") >> 8
            for name in ("Red", "Green", "Blue")
        ],
        axis=-1,
    )
    # The brightest color may have any index.
    indices[letters(indices.shape)] = (
        colors.sum(axis=1).argmax() + source.RedPaletteColorLookupTableDescriptor[1]
    )

    assert is_gone(run(source, indices), indices)


@pytest.mark.parametrize("channel", [0, 1, 2], ids=["luminance", "blue", "red"])
def test_a_line_in_one_channel_of_ybr_is_found(channel: int, real: Real, run: Run) -> None:
    source = real("examples_ybr_color.dcm")
    gray = source.pixel_array[0, 30:190, 40:296]
    luminance = gray[..., 0] if gray.ndim == 3 else gray
    samples = np.full((*luminance.shape, 3), 128, np.uint8)
    samples[..., 0] = luminance // 2 + 40
    samples[letters(samples.shape), channel] = 230
    source.PhotometricInterpretation, source.PlanarConfiguration = "YBR_FULL", 0
    source.NumberOfFrames = 1

    assert is_gone(run(source, samples), samples)
