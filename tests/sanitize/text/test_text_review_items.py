"""Texts that lost most of their words are review items in every object, and decisions are applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, ReviewDecision
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import Sanitized

from tests.helpers.released_bytes import released_bytes

TEXT = "CT abdomen Marcin Kowalczyk Katarzyna Nowakowska Hashimoto"
OTHER = "CT thorax Oyelaran Adebayo Nwankwo Fitzgerald Abernathy Yamazaki"


@pytest.fixture
def scan(
    lenient: Policy,
    subkeys: SubKeys,
    real: Callable[[str], pydicom.Dataset],
    load_bytes: Callable[..., bytes],
    context_of: Callable[..., Context],
) -> Callable[..., tuple[Sanitized, pydicom.Dataset]]:
    """Sanitize slices of one patient with one sanitizer, each with its own decisions."""
    sanitizer = DicomSanitizer(lenient, subkeys)

    def run(number: int, *decisions: ReviewDecision) -> tuple[Sanitized, Any]:
        data = real("CT_small.dcm")
        data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{number}"
        data.StudyDescription = TEXT
        data.SeriesDescription = OTHER
        content = load_bytes(data)
        done = sanitizer(content, replace(context_of(content, lenient), decisions=decisions))
        return done, pydicom.dcmread(BytesIO(released_bytes(done, content)))

    return run


def test_a_review_item_is_reported_for_every_affected_object(scan: Callable[..., Any]) -> None:
    first, second = scan(1)[0], scan(2)[0]
    assert len(first.review_items) == len(set(first.review_items)) > 0
    assert first.review_items == second.review_items


def test_two_texts_have_two_locations(scan: Callable[..., Any]) -> None:
    review_items = scan(1)[0].review_items
    assert len({item.location for item in review_items}) == len(review_items) == 2
    assert not [item for item in review_items if "Kowalczyk" in item.location]


def test_a_decision_applies_only_to_its_text_and_object(scan: Callable[..., Any]) -> None:
    places = {
        item.text.split("\n")[0].removeprefix("before: "): item.location for item in scan(1)[0].review_items
    }
    kept = scan(2, ReviewDecision(places[TEXT], "keep"))[1]
    blanked = scan(3, ReviewDecision(places[TEXT], "blank"))[1]
    untouched = scan(4)[1]
    assert (kept.StudyDescription, blanked.get("StudyDescription", "")) == (TEXT, "")
    assert "Adebayo" not in kept.SeriesDescription
    assert "Kowalczyk" not in untouched.StudyDescription
    assert "CT" in untouched.StudyDescription


def test_a_decided_text_is_no_longer_a_review_item(scan: Callable[..., Any]) -> None:
    first = scan(1)[0].review_items
    after = scan(2, *(ReviewDecision(item.location, "blank") for item in first))[0].review_items
    assert after == ()
