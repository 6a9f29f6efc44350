"""Decisions of the shipped presets."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.policies.load import PRESETS, loads, preset_text
from medsanitize.policies.model import Deduplicate, Options, Policy
from medsanitize.policies.strict_yaml import read_yaml
from medsanitize.policies.tables.standard import confidentiality_rows
from medsanitize.policies.tag_patterns import parse_tag_pattern


def policy(preset: str) -> Policy:
    text = f"""\
version: 1
preset: {preset}
release: {{name: a, version: "1", mode: pseudonymous}}
inputs: [i]
output: o
state: s
keys: {{file: k}}
"""
    return loads(text, base=Path("/p"))


def options(preset: str) -> set[str]:
    return {name for name, on in policy(preset).dicom.options if on}


def action(preset: str, keyword: str) -> str:
    """Action of a preset on an attribute of Table E.1-1: override, then option, then Basic Profile."""
    found = keyword if keyword[0].isdigit() or keyword[0] == "f" else parse_tag_pattern(keyword)
    row = next(row for row in confidentiality_rows() if row.mask == found)
    codes = {code for name, code in row.options.items() if name in options(preset)}
    chosen = "K" if "K" in codes else "C" if codes else row.basic
    return policy(preset).dicom.attributes.get(str(found), chosen)


def test_basic_has_no_option_and_releases_unchecked_pixels() -> None:
    basic = policy("ps3.15-basic")
    assert options("ps3.15-basic") == set()
    assert basic.dicom.attributes == {}
    assert basic.pixels.at_risk == "release"


def test_research_options() -> None:
    assert options("research") == {
        "clean_pixel_data",
        "clean_structured_content",
        "clean_descriptors",
        "retain_longitudinal_modified_dates",
        "retain_patient_characteristics",
        "retain_safe_private",
    }
    assert policy("research").pixels.at_risk == "quarantine"
    assert policy("research").dicom.dates.method == "shift"
    assert policy("research").dicom.dates.times == "keep"


@pytest.mark.parametrize(
    ("keyword", "expected"),
    [
        ("PatientSex", "K"),
        ("PatientAge", "K"),
        ("PatientWeight", "K"),
        ("PatientSize", "K"),
        ("EthnicGroup", "K"),
        ("SmokingStatus", "K"),
        ("StudyDescription", "C"),
        ("SeriesDescription", "C"),
        ("ProtocolName", "C"),
        ("RequestedProcedureDescription", "C"),
        ("PerformedProcedureStepDescription", "C"),
        ("ReasonForStudy", "C"),
        ("AdditionalPatientHistory", "C"),
        ("ContrastBolusAgent", "C"),
        ("StudyDate", "C"),
        ("StudyTime", "C"),
        ("RadiopharmaceuticalStartTime", "C"),
        ("RadiopharmaceuticalStartDateTime", "C"),
        ("PatientBirthDate", "Z"),
        ("AccessionNumber", "Z"),
        ("StudyID", "Z"),
        ("ReferringPhysicianName", "Z"),
        ("ImageComments", "X"),
        ("PatientComments", "X"),
        ("StationName", "X/Z/D"),
        ("DeviceSerialNumber", "X/Z/D"),
        ("InstitutionName", "X/Z/D"),
        ("InstitutionAddress", "X"),
        ("OperatorsName", "X/Z/D"),
        ("RequestAttributesSequence", "X"),
        ("IconImageSequence", "X"),
        ("LensSpecification", "X"),
        ("SelectorASValue", "D"),
        ("SecondaryCaptureDeviceID", "X"),
        ("EthnicGroups", "K"),
        ("ChannelLabel", "C"),
        ("OverlayData", "X"),
    ],
)
def test_research_keeps_what_archives_need(keyword: str, expected: str) -> None:
    assert action("research", keyword) == expected


def test_research_removes_every_comment_that_cleaning_would_keep() -> None:
    comments = [row.keyword for row in confidentiality_rows() if "Comment" in row.keyword]
    assert {action("research", keyword) for keyword in comments} == {"X"}


def test_safe_harbor_reduces_dates_to_the_year_and_removes_times() -> None:
    dates = policy("hipaa-safe-harbor").dicom.dates
    assert (dates.method, dates.times) == ("year", "remove")


def test_safe_harbor_keeps_no_device_institution_or_instance_identity() -> None:
    kept = options("hipaa-safe-harbor")
    assert not kept & {"retain_device_identity", "retain_institution_identity", "retain_uids"}
    assert "retain_longitudinal_full_dates" not in kept


SERIAL_NUMBERS = ["DeviceSerialNumber", "DetectorID", "PlateID", "LensSerialNumber", "UDISequence"]


@pytest.mark.parametrize("keyword", SERIAL_NUMBERS)
def test_safe_harbor_removes_serial_numbers(keyword: str) -> None:
    assert action("hipaa-safe-harbor", keyword)[0] == "X"


def test_safe_harbor_is_stricter_than_research() -> None:
    order = {"X": 0, "Z": 1, "D": 1, "U": 1, "C": 2, "K": 3}
    for row in confidentiality_rows():
        if row.mask != "private":
            strict, lax = action("hipaa-safe-harbor", row.mask), action("research", row.mask)
            assert order[strict[0]] <= order[lax[0]]


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_drop_only_byte_identical_objects(preset: str) -> None:
    assert policy(preset).deduplicate == Deduplicate(bytes="drop", pixels="flag", registry="flag")


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_state_their_name_and_every_option(preset: str) -> None:
    tree, problems = read_yaml(preset_text(preset))
    assert tree is not None
    data = tree.plain()
    assert problems == []
    assert data["preset"] == preset
    assert list(data["dicom"]["options"]) == list(Options.model_fields)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_option_of_a_preset_has_its_reason(preset: str) -> None:
    lines = [line for line in preset_text(preset).splitlines() if line.startswith("    ") and ": " in line]
    stated = [line for line in lines if line.strip().split(":")[0] in Options.model_fields]
    assert len(stated) == 12
    assert all(" # " in line for line in stated)
