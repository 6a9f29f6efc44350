"""Digitized films, scans and drawings, on which handwriting is likely and which nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import cv2
import numpy as np
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, ReviewDecision
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import Outcome, Sanitized
from PIL import Image
from pydicom.dataset import Dataset

Run = Callable[..., Sanitized]

pytestmark = [pytest.mark.pixels, pytest.mark.filterwarnings("ignore")]

STATED = [
    ("ConversionType", "DF"),
    ("ConversionType", "SD"),
    ("ConversionType", "DRW"),
    ("DetectorType", "FILM"),
]


@pytest.fixture(scope="module")
def run(make_policy: Callable[..., Policy], subkeys: SubKeys, load_bytes: Any) -> Run:
    kept: dict[str, DicomSanitizer] = {}

    def go(source: Dataset, *decisions: ReviewDecision, handwriting: str = "quarantine") -> Sanitized:
        policy = make_policy("research", pixels={"faces": "ignore", "handwriting": handwriting})
        sanitizer = kept.setdefault(handwriting, DicomSanitizer(policy, subkeys))
        return sanitizer(load_bytes(source), Context("id:a", "key", decisions=decisions))

    return go


def film(real: Callable[[str], Dataset], name: str = "ConversionType", value: str = "DF") -> Dataset:
    """A digitized film with a word that is written by hand."""
    source = real("MR_small.dcm")
    frame = np.kron(source.pixel_array, np.ones((4, 4), np.int16))
    ink = np.zeros(frame.shape, np.uint8)
    cv2.putText(ink, "Marianna", (40, 60), cv2.FONT_HERSHEY_SCRIPT_SIMPLEX, 1.0, 255, 2)
    frame[ink > 0] = frame.max()
    source.SOPClassUID = source.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    source.Modality, source.ConversionType = "OT", "WSD"
    setattr(source, name, value)
    source.Rows, source.Columns = frame.shape
    source.PixelData = frame.astype("<i2").tobytes()
    return source


@pytest.mark.parametrize(("name", "value"), STATED)
def test_images_on_which_handwriting_is_likely_are_quarantined(
    name: str, value: str, real: Callable[[str], Dataset], run: Run
) -> None:
    done = run(film(real, name, value))

    assert done.record.outcome is Outcome.QUARANTINED
    assert [(one.rule, one.location) for one in done.record.findings] == [("handwriting-unread", "pixels")]


def test_a_captured_screen_is_no_film(real: Callable[[str], Dataset], run: Run) -> None:
    assert run(film(real, value="WSD")).record.outcome is Outcome.RELEASED


def test_a_film_is_a_review_item_with_the_whole_image_if_the_policy_says_so(
    real: Callable[[str], Dataset], run: Run
) -> None:
    done = run(film(real), handwriting="review")

    (item,) = [one for one in done.review_items if one.rule == "handwriting-unread"]
    assert done.record.outcome is Outcome.RELEASED
    assert item.location == "pixels"
    assert Image.open(BytesIO(item.before)).size == (256, 256)


def test_a_reviewer_can_quarantine_a_film(real: Callable[[str], Dataset], run: Run) -> None:
    done = run(film(real), ReviewDecision("pixels", "quarantine"), handwriting="review")

    assert [one.rule for one in done.record.findings] == ["refused-in-review"]
