"""UIDs, patient IDs and dates: valid, keyed, consistent, replaced everywhere, and reported correctly."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from io import BytesIO

import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.model import Dates, Policy, Pseudonyms
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dates import Shift, patient_shift, shift_date, shift_datetime
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.pseudonyms import SubKeys, derive_sub_keys, remap_uid
from medsanitize.sanitize.result import Outcome, Sanitized
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Sanitize = Callable[..., tuple[Sanitized, bytes]]
Real = Callable[[str], Dataset]
Load = Callable[..., bytes]
MakePolicy = Callable[..., Policy]

KEYS = derive_sub_keys(bytes(range(32)), scope="release:test")
UID = re.compile(r"2\.25\.(0|[1-9]\d*)")


@given(st.text(alphabet="0123456789.", min_size=1, max_size=64))
def test_new_uids_are_valid_for_any_original(old: str) -> None:
    assert UID.fullmatch(remap_uid(KEYS, None, old))
    assert len(remap_uid(KEYS, None, old)) <= 64


@given(st.text(alphabet="0123456789.", min_size=1, max_size=64))
def test_new_uids_under_a_root_are_valid(old: str) -> None:
    new = remap_uid(KEYS, "1.2.826.0.1.3680043.8.498", old)

    assert re.fullmatch(r"1\.2\.826\.0\.1\.3680043\.8\.498\.[1-9]\d{9,}", new)
    assert len(new) <= 64


def test_uids_are_replaced_at_every_depth(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    reference = Dataset()
    reference.ReferencedSOPClassUID = data_set.SOPClassUID
    reference.ReferencedSOPInstanceUID = data_set.SOPInstanceUID
    reference.FrameOfReferenceUID = data_set.FrameOfReferenceUID
    series = Dataset()
    series.SeriesInstanceUID, series.ReferencedSOPSequence = data_set.SeriesInstanceUID, Sequence([reference])
    data_set.ReferencedSeriesSequence = Sequence([series])

    done, _, out = release(data_set)

    inner = out.ReferencedSeriesSequence[0]
    assert inner.SeriesInstanceUID == out.SeriesInstanceUID == done.record.series
    assert (
        inner.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == out.SOPInstanceUID == done.record.instance
    )
    assert inner.ReferencedSOPSequence[0].FrameOfReferenceUID == out.FrameOfReferenceUID
    assert inner.ReferencedSOPSequence[0].ReferencedSOPClassUID == data_set.SOPClassUID
    assert out.FrameOfReferenceUID != data_set.FrameOfReferenceUID
    assert out.file_meta.MediaStorageSOPInstanceUID == out.SOPInstanceUID


def test_every_replaced_uid_and_the_patient_id_is_in_the_links(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")

    done, _, out = release(data_set)

    links = dict(done.links)
    assert links[data_set.SOPInstanceUID] == out.SOPInstanceUID
    assert links[data_set.StudyInstanceUID] == out.StudyInstanceUID
    assert links[data_set.FrameOfReferenceUID] == out.FrameOfReferenceUID
    assert links[data_set.PatientID] == out.PatientID


def test_missing_uids_are_created_and_differ(
    real: Real, context_of: Callable[[bytes], Context], load_bytes: Load, lenient: Policy
) -> None:
    data_set = real("CT_small.dcm")
    for keyword in ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"):
        delattr(data_set, keyword)
    data = load_bytes(data_set)
    sanitizer = DicomSanitizer(lenient, KEYS)
    known = context_of(data).known

    first, second = (sanitizer(data, Context("study:x", key, known)) for key in ("one", "two"))

    assert UID.fullmatch(first.record.study)
    assert len({first.record.study, second.record.study, first.record.series, first.record.instance}) == 4


@pytest.mark.parametrize("bad", ["", "STUDY-4711", "1.2..3", "1.02.3", "2004\\1.2.3"])
def test_invalid_study_uids_are_always_replaced(
    bad: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = real("CT_small.dcm")
    data_set["StudyInstanceUID"].value = bad
    options = {"retain_uids": True, "clean_pixel_data": False}
    policy = make_policy("research", dicom={"options": options}, pixels={"at_risk": "release"})

    for chosen in (None, policy):
        done, out, _ = release(data_set, chosen)
        assert not bad or bad.encode() not in out
        assert UID.fullmatch(done.record.study)


def test_an_invalid_instance_uid_is_in_neither_file_meta_nor_record(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = real("CT_small.dcm")
    data_set.SOPInstanceUID = "DOE-JANE"
    policy = make_policy("research", dicom={"options": {"retain_uids": True, "clean_pixel_data": False}})

    done, out, released = release(data_set, policy)

    assert b"DOE-JANE" not in out
    assert released.file_meta.MediaStorageSOPInstanceUID == released.SOPInstanceUID == done.record.instance


def test_record_and_file_meta_agree_with_an_override(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = real("CT_small.dcm")
    sections = {"options": {"clean_pixel_data": False}, "attributes": {"SeriesInstanceUID": "K"}}

    done, _, released = release(data_set, make_policy("research", dicom=sections))

    assert done.record.series == released.SeriesInstanceUID == data_set.SeriesInstanceUID


def test_record_and_object_agree_on_a_duplicate_element(load_bytes: Load, release: Release) -> None:
    data = load_bytes("CT_small.dcm")
    at = data.index(b"\x08\x00\x18\x00UI")
    data = data[:at] + b"\x08\x00\x18\x00UI\x08\x001.2.3.44" + data[at:]

    done, _, released = release(data)

    assert released.SOPInstanceUID == released.file_meta.MediaStorageSOPInstanceUID == done.record.instance


def test_retain_uids_keeps_them(real: Real, release: Release, make_policy: MakePolicy) -> None:
    data_set = real("CT_small.dcm")
    policy = make_policy("research", dicom={"options": {"retain_uids": True, "clean_pixel_data": False}})

    _, _, released = release(data_set, policy)

    assert released.SOPInstanceUID == data_set.SOPInstanceUID
    assert released.file_meta.MediaStorageSOPInstanceUID == data_set.SOPInstanceUID


def test_two_ids_of_a_patient_are_quarantined(real: Real, sanitize: Sanitize) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientID = "A1\\B2"

    done, out = sanitize(data_set)

    assert out == b""
    assert [finding.rule for finding in done.record.findings] == ["two-patient-ids"]


def test_issuer_and_id_jointly_identify_the_patient(real: Real, load_bytes: Load) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientID, data_set.IssuerOfPatientID = " 77 ", "Clinic "

    assert inspect_dicom(load_bytes(data_set)).patient_ids == (("Clinic", "77"),)


def test_another_key_changes_every_pseudonym(real: Real, release: Release) -> None:
    one, _, _ = release(real("CT_small.dcm"))
    other, _, _ = release(
        real("CT_small.dcm"), None, derive_sub_keys(bytes(range(1, 33)), scope="release:test")
    )

    fields = ("patient", "study", "series", "instance")
    assert all(getattr(one.record, name) != getattr(other.record, name) for name in fields)


@given(st.text(min_size=1, max_size=20), st.booleans())
def test_a_date_shift_is_30_to_1825_days(patient: str, keep_weekday: bool) -> None:
    days = patient_shift(KEYS, patient, Dates(keep_weekday=keep_weekday)).days

    assert 30 <= abs(days) <= 1825
    assert not keep_weekday or days % 7 == 0


@given(st.dates(), st.integers(-1825, 1825))
def test_dates_move_by_whole_days(day: datetime, days: int) -> None:
    try:
        expected = f"{day + timedelta(days=days):%Y%m%d}".rjust(8, "0")
    except OverflowError:
        expected = None

    assert shift_date(f"{day.year:04d}{day.month:02d}{day.day:02d}", days) == expected


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("20040228", "20040329"),
        ("2004-02-28", "20040329"),
        ("2004.02.28", "20040329"),
        (" 20040228 ", "20040329"),
        ("20040230", None),
        ("2004", None),
        ("20040228-20040301", None),
        ("00010101", "00010131"),
        ("99991231", None),
        ("DOE^JANE", None),
        ("2004/02/28", "20040329"),
        ("2004-0228", None),
    ],
)
def test_nonstandard_dates_are_read_if_unambiguous(text: str, moved: str | None) -> None:
    assert shift_date(text, 30) == moved


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("20040228", "20040329"),
        ("200402281530", "200403291530"),
        ("20040228153012.123456+0100", "20040329153012.123456+0100"),
        ("20040228+0100", "20040329+0100"),
        ("2004", "2004"),
        ("200402", "200403"),
        ("2004022815", "2004032915"),
        ("20040228256199", None),
        ("20040228153012.1234567", None),
        ("20040228+9999", None),
        ("200413", None),
        ("20040228153012 MARY", None),
    ],
)
def test_date_times_keep_precision_time_and_offset(text: str, moved: str | None) -> None:
    assert shift_datetime(text, Shift(30)) == moved


def test_intervals_are_preserved_across_dates_and_date_times(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.StudyDate, data_set.AcquisitionDate = "20040119", "20040225"
    data_set.AcquisitionDateTime = "20040225235950.5+0100"
    data_set.StudyTime = "235900"

    _, _, out = release(data_set)

    study, acquisition = (datetime.strptime(text, "%Y%m%d") for text in (out.StudyDate, out.AcquisitionDate))
    assert (acquisition - study).days == 37
    assert out.AcquisitionDateTime == out.AcquisitionDate + "235950.5+0100"
    assert out.StudyTime == "235900"
    assert out.StudyDate != "20040119"


def test_multiple_dates_shift_together_and_an_invalid_one_removes_the_element(
    real: Real, release: Release
) -> None:
    data_set = real("CT_small.dcm")
    data_set.StudyDate = "2004-01-19"
    data_set.add_new(0x00181201, "TM", ["101010", "246060"])
    data_set.add_new(0x0008002A, "DT", "20040119\\200401")

    _, _, out = release(data_set)

    moved = out[0x0008002A].value
    assert len(moved) == 2
    assert out.StudyDate == str(moved[0])
    assert 0x00181201 not in out


def test_calibration_dates_are_removed_not_shifted(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.DateOfLastCalibration, data_set.TimeOfLastCalibration = "20040101", "101112"
    data_set.add_new(0x00181205, "DA", "20030101")

    _, _, out = release(data_set)

    assert not {0x00181200, 0x00181201, 0x00181205} & set(out.keys())


def test_safe_harbor_keeps_only_the_year(real: Real, release: Release, make_policy: MakePolicy) -> None:
    data_set = real("CT_small.dcm")
    data_set.StudyDate, data_set.StudyTime, data_set.AcquisitionDateTime = (
        "20040119",
        "101112",
        "20040119101112+0100",
    )
    data_set.PatientAge = "093Y"
    policy = make_policy("hipaa-safe-harbor", dicom={"options": {"clean_pixel_data": False}})

    _, out, released = release(data_set, policy)

    assert released.StudyDate == "20040101"
    assert released.AcquisitionDateTime == "2004"
    assert released.PatientAge == "090Y"
    assert b"101112" not in out


@pytest.mark.parametrize(
    ("age", "left"),
    [("089Y", "089Y"), ("090Y", "090Y"), ("105Y", "090Y"), ("999M", "999M"), ("091W", "091W")],
)
def test_ages_over_89_become_90(age: str, left: str, real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientAge = age

    _, _, out = release(data_set)

    assert out.PatientAge == left


@pytest.mark.parametrize("keyword", ["StudyDate", "AcquisitionDateTime", "PatientBirthDate"])
def test_invalid_full_dates_are_removed(
    keyword: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = real("CT_small.dcm")
    data_set.add_new(keyword, "DT" if "Time" in keyword else "DA", "DOE JANE")
    options = {
        "retain_longitudinal_full_dates": True,
        "retain_longitudinal_modified_dates": False,
        "clean_pixel_data": False,
    }

    _, out, released = release(data_set, make_policy("research", dicom={"options": options}))

    assert b"DOE JANE" not in out
    assert released.LongitudinalTemporalInformationModified == "UNMODIFIED"


@pytest.mark.parametrize(("preset", "said"), [("ps3.15-basic", "REMOVED"), ("research", "MODIFIED")])
def test_the_object_states_its_deidentification(
    preset: str, said: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = real("CT_small.dcm")
    data_set.DeidentificationMethod, data_set.PatientIdentityRemoved = "somebody else", "NO"
    policy = make_policy(preset, dicom={"options": {"clean_pixel_data": False}})

    _, _, out = release(data_set, policy)

    codes = [item.CodeValue for item in out.DeidentificationMethodCodeSequence]
    research = ["113100", "113104", "113105", "113107", "113108", "113111"]
    assert codes == (["113100"] if preset == "ps3.15-basic" else research)
    assert out.PatientIdentityRemoved == "YES"
    assert out.LongitudinalTemporalInformationModified == said


def test_unchecked_pixels_at_risk_are_not_declared_clean(real: Real, release: Release) -> None:
    data_set = real("SC_rgb_rle.dcm")
    data_set.BurnedInAnnotation = "NO"

    done, _, out = release(data_set)

    assert done.record.pixels == "not_run"
    assert out.get("BurnedInAnnotation") != "NO"


def test_objects_at_risk_are_quarantined_if_configured(
    real: Real, sanitize: Sanitize, make_policy: MakePolicy
) -> None:
    policy = make_policy("research", dicom={"options": {"clean_pixel_data": False}})

    done, out = sanitize(real("SC_rgb_rle.dcm"), policy)

    assert done.record.outcome is Outcome.QUARANTINED
    assert [finding.rule for finding in done.record.findings] == ["burned-in-text-risk"]
    assert out == b""


DEVICE = {"DeviceSerialNumber": "SN-77-1", "StationName": "ROOM4", "InstitutionName": "Qwrtz Clinic"}


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("retain_device_identity", {"DeviceSerialNumber", "StationName"}),
        ("retain_institution_identity", {"InstitutionName"}),
        ("clean_descriptors", set()),
    ],
)
def test_an_option_keeps_only_its_attributes(
    option: str, kept: set[str], real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = real("CT_small.dcm")
    for keyword, text in DEVICE.items():
        setattr(data_set, keyword, text)
    policy = make_policy("ps3.15-basic", dicom={"options": {option: True}})

    _, _, out = release(data_set, policy)

    assert {keyword for keyword, text in DEVICE.items() if out.get(keyword) == text} == kept


def test_patient_characteristics_are_kept_by_their_option(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientSex, data_set.PatientAge, data_set.PatientWeight, data_set.PatientSize = (
        "F",
        "040Y",
        "61",
        "1.7",
    )
    on = make_policy("ps3.15-basic", dicom={"options": {"retain_patient_characteristics": True}})

    _, _, kept = release(data_set, on)
    _, _, gone = release(data_set, make_policy("ps3.15-basic"))

    assert (kept.PatientSex, kept.PatientAge, kept.PatientWeight) == ("F", "040Y", 61)
    assert gone.PatientSex == ""
    assert "PatientAge" not in gone


@pytest.mark.parametrize(
    ("attributes", "keyword", "left"),
    [
        ({"ManufacturerModelName": "X"}, "ManufacturerModelName", None),
        ({"(0018,0050)": "X"}, "SliceThickness", None),
        ({"0018xxxx": "X"}, "KVP", None),
        ({"0018xxxx": "X", "KVP": "K"}, "KVP", 120),
    ],
)
def test_overrides_take_precedence_and_the_more_specific_one_first(
    attributes: dict[str, str],
    keyword: str,
    left: object,
    real: Real,
    release: Release,
    make_policy: MakePolicy,
) -> None:
    data_set = real("CT_small.dcm")
    policy = make_policy("ps3.15-basic", dicom={"attributes": attributes})

    _, _, out = release(data_set, policy)

    assert out.get(keyword) == left


def test_type_1_attributes_are_replaced_and_type_2_ones_emptied(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    _, _, out = release(real("CT_small.dcm"), make_policy("ps3.15-basic"))

    assert out.SOPInstanceUID
    assert out.StudyInstanceUID
    assert out.PatientName
    assert out["StudyDate"].value == ""
    assert out["ReferringPhysicianName"].value == ""


def test_a_pseudonym_assigned_by_the_archive_is_used(load_bytes: Load, lenient: Policy) -> None:
    data = load_bytes("CT_small.dcm")

    done = DicomSanitizer(lenient, KEYS)(data, Context("id:/1CT1", "k", frozenset(), "ARCHIVE-0001"))

    assert done.record.patient == "ARCHIVE-0001"
    assert (
        pydicom.dcmread(BytesIO(b"".join(p for p in done.files[0].pieces if isinstance(p, bytes)))).PatientID
        == "ARCHIVE-0001"
    )


def test_pseudonyms_carry_the_prefix(
    real: Real, release: Release, make_policy: MakePolicy, subkeys: SubKeys
) -> None:
    policy = make_policy("ps3.15-basic", pseudonyms={"prefix": "LUNG-", "uid_root": "1.2.3"})

    done, _, out = release(real("CT_small.dcm"), policy, subkeys)

    assert policy.pseudonyms == Pseudonyms(prefix="LUNG-", uid_root="1.2.3")
    assert out.PatientID == done.record.patient
    assert out.PatientID.startswith("LUNG-")
    assert out.SOPInstanceUID.startswith("1.2.3.")


@pytest.mark.parametrize("block", [0x10, 0x42, 0xFF])
def test_safe_private_attributes_are_kept_in_any_block(block: int, real: Real, release: Release) -> None:
    data_set = real("MR_small.dcm")
    data_set.add_new(0x00190000 + block, "LO", "SIEMENS MR HEADER")
    data_set.add_new(0x00190000 + block * 256 + 0x0C, "IS", "1000")
    data_set.add_new(0x00190000 + block * 256 + 0x99, "LO", "unlisted")

    _, _, out = release(data_set)

    assert out[0x00190000 + block].value == "SIEMENS MR HEADER"
    assert out[0x00190000 + block * 256 + 0x0C].value == 1000
    assert 0x00190000 + block * 256 + 0x99 not in out


@pytest.mark.parametrize("creator", ["SIEMENS MR HEADER X", "siemens mr header", "SOMEBODY ELSE"])
def test_private_creators_are_compared_exactly(creator: str, real: Real, release: Release) -> None:
    data_set = real("MR_small.dcm")
    data_set.add_new(0x00190010, "LO", creator)
    data_set.add_new(0x0019100C, "IS", "1000")

    _, _, out = release(data_set)

    assert not [tag for tag in out.keys() if tag.group == 0x19]  # noqa: SIM118


@pytest.mark.parametrize("known", ["77441", "0077441"])
def test_numbers_equal_to_a_known_identifier_are_removed(known: str, real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientID = "77441"
    data_set.add_new(0x00201209, "IS", known)
    data_set.add_new(0x00180090, "DS", known)

    _, out, _ = release(data_set)

    assert b"77441" not in out
