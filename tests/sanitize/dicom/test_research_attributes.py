"""The research index has what the released header says, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.dicom.research_attributes import AGE, CODES, DECIMALS, INTEGERS, SPACINGS, TEXTS
from medsanitize.sanitize.result import Outcome, Sanitized
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset

Sanitize = Callable[..., tuple[Sanitized, bytes]]
Real = Callable[[str], Dataset]

FOLDER = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent
NAMES = sorted(path.name for path in FOLDER.glob("*.dcm"))


def columns(sanitize: Sanitize, policy: Policy, source: Dataset) -> dict[str, object]:
    return dict(sanitize(source, policy)[0].record.research)


def written(data: Dataset, keyword: str) -> str:
    """The value as the released file has it, read by pydicom alone."""
    element = data.get(keyword)
    return "\\".join(map(str, element)) if isinstance(element, pydicom.multival.MultiValue) else str(element)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_stands_in_the_released_object(name: str, sanitize: Sanitize, lenient: Policy) -> None:
    done, released = sanitize(name, lenient)
    if done.record.outcome is not Outcome.RELEASED:
        pytest.skip("not released")
    data = pydicom.dcmread(BytesIO(released), force=True)
    found = dict(done.record.research)
    codes = {column: sequence for sequence, column in CODES.values()}
    for column in found.keys() & {*TEXTS.values()}:
        assert written(data, column) == found.pop(column)
    for column in found.keys() & {*DECIMALS.values(), *INTEGERS.values()}:
        assert float(written(data, column).split("\\")[0]) == found.pop(column)
    for column in found.keys() & codes.keys():
        item = data[codes[column]].value[0]
        assert f"{item.CodingSchemeDesignator}:{item.CodeValue}" == found.pop(column)
    assert found.keys() <= {AGE, *SPACINGS}


def test_ages_numbers_and_spacings_are_numbers(real: Real, sanitize: Sanitize, lenient: Policy) -> None:
    source = real("CT_small.dcm")
    source.PatientAge, source.PatientSex = "018M", "F"
    source.PixelSpacing = [0.5, 0.25]

    found = columns(sanitize, lenient, source)

    wanted = {AGE: 1, "PatientSex": "F", "KVP": 120.0, "PixelSpacingRow": 0.5, "PixelSpacingColumn": 0.25}
    assert found.items() >= wanted.items()


def test_the_spacing_of_an_enhanced_object_is_that_of_its_shared_functional_groups(
    sanitize: Sanitize, lenient: Policy
) -> None:
    found = sanitize("liver_1frame.dcm", lenient)[0].record.research

    assert {name for name in found if name in SPACINGS} == set(SPACINGS)


def test_what_the_profile_removes_is_in_no_column(
    real: Real, sanitize: Sanitize, make_policy: Callable[..., Policy]
) -> None:
    source = real("CT_small.dcm")
    source.PatientAge, source.PatientSex = "045Y", "F"

    found = columns(sanitize, make_policy("ps3.15-basic"), source)

    assert not found.keys() & {AGE, "PatientAge", "PatientSex", "StudyDescription", "SeriesDescription"}


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "1_0", "0.5.5", "abc", ""])
def test_a_malformed_number_gives_no_column(
    value: str, real: Real, sanitize: Sanitize, lenient: Policy
) -> None:
    source = real("CT_small.dcm")
    source["KVP"] = pydicom.DataElement(0x00180060, "DS", "1")
    source["KVP"]._value = value

    assert "KVP" not in columns(sanitize, lenient, source)


def test_texts_are_decoded_by_the_character_set_of_the_release(
    real: Real, sanitize: Sanitize, lenient: Policy
) -> None:
    source = real("CT_small.dcm")
    source.SpecificCharacterSet = "ISO_IR 100"
    source.SeriesDescription = "Röntgen"

    assert columns(sanitize, lenient, source)["SeriesDescription"] == "Röntgen"


def test_a_code_is_named_with_its_scheme(real: Real, sanitize: Sanitize, lenient: Policy) -> None:
    source, code = real("CT_small.dcm"), Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = "51185008", "SCT", "Chest"
    source.AnatomicRegionSequence = [code]

    assert columns(sanitize, lenient, source)["AnatomicRegionCode"] == "SCT:51185008"
