"""Each code of De-identification Method Code Sequence (0012,0064) is true of the object that has it.

The codes of Clean Pixel Data and Clean Recognizable Visual Features are tested with their work:
tests/sanitize/burned_in and tests/sanitize/faces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from medsanitize.policies.model import OPTION_CODES, Options, Policy
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from tests.conftest import Released

MakePolicy = Callable[..., Policy]
Release = Callable[..., Released]
Real = Callable[[str], Dataset]
Work = Callable[[Dataset], bool]

SLIDE = "1.2.840.10008.5.1.4.1.1.77.1.6"
INSTITUTION, STATION, SERIES = "Lateral Hospital", "SERIAL0815", "Chest lateral, Zorblat^Kwimbly"
DAY, UID = "19870623", "1.2.826.0.1.3680043.10.987654.321"
PRIVATE = ("GEMS_ACQU_01", 0x24)


def codes(out: Dataset) -> set[str]:
    return {item.CodeValue for item in out.DeidentificationMethodCodeSequence}


def scan(real: Real) -> Dataset:
    """An object with something for each option to keep or clean."""
    data_set = real("CT_small.dcm")
    data_set.remove_private_tags()
    data_set.PatientName, data_set.PatientWeight, data_set.PatientSex = "Zorblat^Kwimbly", "71.5", "F"
    data_set.StudyDate, data_set.FrameOfReferenceUID = DAY, UID
    data_set.SeriesDescription, data_set.InstitutionName = SERIES, INSTITUTION
    data_set.DeviceSerialNumber = STATION
    data_set.private_block(0x0019, PRIVATE[0], create=True).add_new(PRIVATE[1], "DS", "0.5")
    data_set.AcquisitionContextSequence = Sequence([_content("Zorblat^Kwimbly")])
    data_set.add_new(0x60000010, "US", 16)
    data_set.add_new(0x60000011, "US", 16)
    data_set.add_new(0x60000040, "CS", "G")
    data_set.add_new(0x60003000, "OW", b"Zorblat^Kwimbly!" * 2)
    return data_set


def _content(text: str) -> Dataset:
    concept = Dataset()
    concept.CodeValue, concept.CodingSchemeDesignator, concept.CodeMeaning = "121071", "DCM", "Finding"
    item = Dataset()
    item.ValueType, item.ConceptNameCodeSequence, item.TextValue = "TEXT", Sequence([concept]), text
    return item


def kept(keyword: str, value: Any) -> Work:
    return lambda out: str(out.get(keyword, "")) == value


def is_cleaned(out: Dataset) -> bool:
    return "Chest" in out.get("SeriesDescription", "") and "Zorblat" not in str(out)


def has_context(out: Dataset) -> bool:
    return bool(out.get("AcquisitionContextSequence")) and "Zorblat" not in str(out)


def is_shifted(out: Dataset) -> bool:
    return len(out.get("StudyDate", "")) == 8 and out.StudyDate != DAY


WORK: dict[str, Work] = {
    "clean_structured_content": has_context,
    "clean_descriptors": is_cleaned,
    "retain_longitudinal_full_dates": kept("StudyDate", DAY),
    "retain_longitudinal_modified_dates": is_shifted,
    "retain_patient_characteristics": kept("PatientWeight", "71.5"),
    "retain_device_identity": kept("DeviceSerialNumber", STATION),
    "retain_uids": kept("FrameOfReferenceUID", UID),
    "retain_safe_private": lambda out: (0x0019, 0x1024) in out,
    "retain_institution_identity": kept("InstitutionName", INSTITUTION),
}
"""Option -> whether a released object shows that it was applied."""


def release_with(release: Release, make_policy: MakePolicy, data_set: Dataset, **dicom: Any) -> Dataset:
    return release(data_set, make_policy("ps3.15-basic", dicom=dicom))[2]


@pytest.mark.parametrize("option", WORK)
def test_an_option_is_stated_and_its_work_is_done(
    option: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    out = release_with(release, make_policy, scan(real), options={option: True})

    assert codes(out) == {"113100", OPTION_CODES[option][0]}
    assert WORK[option](out)


@pytest.mark.parametrize("option", WORK)
def test_without_an_option_neither_its_code_nor_its_work_is_there(
    option: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    out = release_with(release, make_policy, scan(real))

    assert codes(out) == {"113100"}
    assert not WORK[option](out)


def test_every_option_of_the_header_has_its_test() -> None:
    elsewhere = {"clean_pixel_data", "clean_recognizable_visual_features", "clean_graphics"}
    assert set(WORK) == set(Options.model_fields) - elsewhere


@pytest.mark.parametrize("option", ["clean_pixel_data", "clean_recognizable_visual_features"])
def test_an_option_of_the_pixels_is_not_stated_by_an_object_without_pixels(
    option: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = scan(real)
    del data_set.PixelData
    policy = make_policy("ps3.15-basic", dicom={"options": {option: True}}, pixels={"faces": "deface"})

    assert codes(release(data_set, policy)[2]) == {"113100"}


def test_clean_graphics_is_stated_where_graphics_are_cleaned_or_removed(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    out = release_with(release, make_policy, scan(real), options={"clean_graphics": True})

    assert codes(out) == {"113100", "113103"}
    assert (0x6000, 0x3000) not in out


@pytest.mark.parametrize(
    ("option", "attributes"),
    [
        ("clean_descriptors", {"SeriesDescription": "K"}),
        ("clean_graphics", {"60xx3000": "K"}),
        ("retain_patient_characteristics", {"PatientWeight": "X"}),
        ("retain_uids", {"FrameOfReferenceUID": "U"}),
        ("retain_institution_identity", {"InstitutionName": "Z"}),
        ("retain_device_identity", {"DeviceSerialNumber": "D"}),
        ("retain_longitudinal_full_dates", {"StudyDate": "C"}),
    ],
)
def test_an_option_that_the_policy_overrides_in_the_iod_is_not_stated(
    option: str,
    attributes: dict[str, str],
    real: Real,
    release: Release,
    make_policy: MakePolicy,
) -> None:
    out = release_with(release, make_policy, scan(real), options={option: True}, attributes=attributes)

    assert codes(out) == {"113100"}


@pytest.mark.text
def test_an_override_of_another_iod_takes_no_code_away(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    """`research` replaces the ages of hanging protocols only."""
    policy = make_policy("research", dicom={"options": {"clean_pixel_data": False}})
    assert "113108" in codes(release(scan(real), policy)[2])


def test_a_text_that_is_removed_instead_of_cleaned_takes_no_code_away(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    options = {"clean_descriptors": True}
    out = release_with(release, make_policy, scan(real), options=options, attributes={"ImageComments": "X"})
    assert "113105" in codes(out)


@pytest.mark.parametrize("option", ["retain_longitudinal_full_dates", "retain_longitudinal_modified_dates"])
def test_a_slide_states_no_retained_dates(
    option: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = scan(real)
    del data_set.PixelData
    data_set.SOPClassUID = data_set.file_meta.MediaStorageSOPClassUID = SLIDE
    data_set.ImageType = ["ORIGINAL", "PRIMARY", "VOLUME", "NONE"]

    out = release_with(release, make_policy, data_set, options={option: True})

    assert codes(out) == {"113100"}
    assert DAY not in str(out)
    assert out.LongitudinalTemporalInformationModified != "UNMODIFIED"


def test_full_dates_are_kept_in_attributes_of_no_table(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = scan(real)
    data_set.DateOfGainCalibration = DAY
    options = {"retain_longitudinal_full_dates": True}

    out = release_with(release, make_policy, data_set, options=options)

    assert out.DateOfGainCalibration == DAY
    assert out.LongitudinalTemporalInformationModified == "UNMODIFIED"


@pytest.mark.parametrize(
    ("option", "kept_date"), [("retain_longitudinal_full_dates", DAY), ("retain_device_identity", None)]
)
def test_dates_of_devices_are_kept_with_full_dates_only(
    option: str, kept_date: str | None, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = scan(real)
    data_set.DateOfLastCalibration = DAY

    out = release_with(release, make_policy, data_set, options={option: True})

    assert out.get("DateOfLastCalibration") == kept_date


def test_rows_that_the_policy_weakens_are_counted_in_the_method(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    attributes = {"InstitutionName": "C", "StationName": "K", "SeriesDescription": "X"}
    out = release_with(release, make_policy, scan(real), attributes=attributes)
    assert out.DeidentificationMethod[2] == "2 rows of the table are kept or cleaned by the policy"
