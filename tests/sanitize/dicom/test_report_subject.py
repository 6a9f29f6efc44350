"""Content items that identify the subject of a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from medsanitize.policies.model import Policy
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

SUBJECT = {"121029": "PNAME", "121030": "TEXT", "121031": "DATE", "121033": "NUM"}


def content_item(code: str, value: str) -> Dataset:
    name = Dataset()
    name.CodeValue, name.CodingSchemeDesignator, name.CodeMeaning = code, "DCM", "Subject"
    item = Dataset()
    item.RelationshipType, item.ValueType, item.ConceptNameCodeSequence = (
        "CONTAINS",
        SUBJECT[code],
        Sequence([name]),
    )
    if code == "121033":
        measured = Dataset()
        measured.NumericValue = value
        item.MeasuredValueSequence = Sequence([measured])
    else:
        setattr(item, {"121029": "PersonName", "121030": "TextValue", "121031": "Date"}[code], value)
    return item


def codes_left(data_set: Dataset) -> set[str]:
    found = {str(e.value) for e in data_set.iterall() if e.keyword == "CodeValue"}
    return found & set(SUBJECT)


@pytest.mark.parametrize("preset", ["ps3.15-basic", "research", "hipaa-safe-harbor"])
@pytest.mark.parametrize(
    ("code", "value"),
    [("121029", "Obrecht^Ilse"), ("121030", "A12-B34"), ("121031", "19310101"), ("121033", "93")],
)
def test_the_subject_context_is_removed_from_reports(
    real: Callable[[str], Dataset],
    release: Callable[..., tuple[Any, bytes, Dataset]],
    make_policy: Callable[..., Policy],
    preset: str,
    code: str,
    value: str,
) -> None:
    report = real("reportsi.dcm")
    report.ContentSequence = Sequence([*report.ContentSequence, content_item(code, value)])

    _, _, out = release(report, make_policy(preset))

    assert codes_left(out) == set()


def test_an_age_under_90_is_kept_if_ages_are_kept(
    real: Callable[[str], Dataset],
    release: Callable[..., tuple[Any, bytes, Dataset]],
    make_policy: Callable[..., Policy],
) -> None:
    report = real("reportsi.dcm")
    report.ContentSequence = Sequence([*report.ContentSequence, content_item("121033", "61")])

    _, _, out = release(report, make_policy("research"))

    assert codes_left(out) == {"121033"}
