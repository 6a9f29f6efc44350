"""Times of day under ``times: shift``: one time line per patient, moved whole, with every interval kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.policies.model import Dates, Policy
from medsanitize.sanitize.dicom.dates import Shift, days_carried, patient_shift, shift_datetime, shift_time
from medsanitize.sanitize.formats.dicom.dictionary import times_of_dates
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.result import Sanitized
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Real = Callable[[str], Dataset]
MakePolicy = Callable[..., Policy]

KEYS = derive_sub_keys(bytes(range(32)), scope="release:test")
SHIFT = Dates(times="shift")
MOMENTS = st.datetimes(datetime(1910, 1, 1), datetime(2090, 1, 1))
DAY = 86_400


def da(moment: datetime) -> str:
    return f"{moment:%Y%m%d}"


def tm(moment: datetime) -> str:
    return f"{moment:%H%M%S.%f}"


def moment_of(date: str, time: str) -> datetime:
    return datetime.strptime(date + time, "%Y%m%d%H%M%S.%f")


@pytest.fixture
def shifting(make_policy: MakePolicy) -> Policy:
    return make_policy(
        "research", dicom={"options": {"clean_pixel_data": False}, "dates": {"times": "shift"}}
    )


@pytest.fixture
def dated(real: Real, release: Release, shifting: Policy) -> Callable[..., Dataset]:
    """Release CT_small with attributes under ``times: shift``, and return the data set."""

    def make(policy: Policy = shifting, **attributes: Any) -> Dataset:
        data_set = real("CT_small.dcm")
        for keyword, value in attributes.items():
            setattr(data_set, keyword, value)
        return release(data_set, policy)[2]

    return make


@given(st.text(max_size=20), MOMENTS, MOMENTS)
def test_the_interval_between_two_moments_is_kept_to_the_microsecond(
    patient: str, first: datetime, second: datetime
) -> None:
    shift = patient_shift(KEYS, patient, SHIFT)

    moved = [
        datetime.strptime(shift_datetime(da(one) + tm(one), shift) or "", "%Y%m%d%H%M%S.%f")
        for one in (first, second)
    ]

    assert moved[1] - moved[0] == second - first


@given(st.text(max_size=20), MOMENTS)
def test_a_date_and_its_time_move_as_one_moment(patient: str, moment: datetime) -> None:
    shift = patient_shift(KEYS, patient, SHIFT)

    date = moment.date() + timedelta(days=shift.days + days_carried(tm(moment), shift.seconds))
    time = shift_time(tm(moment), shift.seconds) or ""

    assert moment_of(f"{date:%Y%m%d}", time) == moment + timedelta(shift.days, shift.seconds)


@given(st.text(max_size=20))
def test_the_seconds_are_keyed_and_move_every_precision(patient: str) -> None:
    shift = patient_shift(KEYS, patient, SHIFT)

    assert shift == patient_shift(KEYS, patient, SHIFT)
    assert 3600 <= shift.seconds < DAY
    assert shift.days == patient_shift(KEYS, patient, Dates()).days


@given(
    st.text(max_size=20),
    st.times(),
    st.sampled_from([2, 4, 6, 8, 13]),
)
def test_a_moved_time_differs_and_keeps_its_precision(patient: str, time: Any, length: int) -> None:
    text = f"{time:%H%M%S.%f}"[:length]

    moved = shift_time(text, patient_shift(KEYS, patient, SHIFT).seconds)

    assert moved is not None
    assert moved != text
    assert len(moved) == len(text)
    assert moved[6:] == text[6:]


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("20040228", "20040329"),
        ("20040228+0100", "20040329+0100"),
        ("200402", "200403"),
        ("2004022813", "2004033000"),
        ("200402281229", "200403292359"),
        ("200402281230", "200403300000"),
        ("20040228122959.25-0330", "20040329235959.25-0330"),
        ("20040228123000.123456+0100", "20040330000000.123456+0100"),
        ("20040228256199", None),
    ],
)
def test_a_date_time_moves_past_midnight_and_keeps_precision_and_offset(text: str, moved: str | None) -> None:
    assert shift_datetime(text, Shift(30, 11 * 3600 + 30 * 60)) == moved


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("23", "10"),
        ("2345", "1115"),
        ("12:12:29.94", "234229.94"),
        ("121229.940000", "234229.940000"),
        ("235960", "113000"),
        ("246060", None),
        ("noon", None),
    ],
)
def test_a_time_keeps_its_precision_and_its_fraction(text: str, moved: str | None) -> None:
    assert shift_time(text, 11 * 3600 + 30 * 60) == moved


def test_date_and_time_of_each_event_move_together(dated: Callable[..., Dataset]) -> None:
    events = {
        "Study": datetime(2004, 1, 19, 0, 0, 1, 5),
        "Series": datetime(2004, 1, 19, 12, 12, 29, 940000),
        "Acquisition": datetime(2004, 1, 19, 23, 59, 59, 999999),
        "Content": datetime(2004, 1, 20, 6, 30),
    }
    stated = {f"{name}Date": da(moment) for name, moment in events.items()}
    stated |= {f"{name}Time": tm(moment) for name, moment in events.items()}

    out = dated(**stated, AcquisitionDateTime=da(events["Acquisition"]) + tm(events["Acquisition"]))

    moved = {name: moment_of(out[f"{name}Date"].value, out[f"{name}Time"].value) for name in events}
    assert len({moved[name] - events[name] for name in events}) == 1
    assert moved["Study"].time() != events["Study"].time()
    assert out.AcquisitionDateTime == da(moved["Acquisition"]) + tm(moved["Acquisition"])


def test_an_equal_date_moves_with_the_time_of_its_own_object(
    real: Real, release: Release, shifting: Policy
) -> None:
    early, late = real("CT_small.dcm"), real("CT_small.dcm")
    early.StudyTime, late.StudyTime = "000001", "235959"

    dates = [release(one, shifting)[2].StudyDate for one in (early, late, early)]

    assert dates[0] == dates[2] < dates[1]


def test_values_in_sequences_are_paired_in_their_item(dated: Callable[..., Dataset]) -> None:
    early, late = Dataset(), Dataset()
    early.ContentDate, early.ContentTime = "20040119", "000001"
    late.ContentDate, late.ContentTime = "20040119", "235959"

    out = dated(SourceImageSequence=Sequence([early, late]))

    first, second = (
        datetime.strptime(one.ContentDate + one.ContentTime, "%Y%m%d%H%M%S")
        for one in out.SourceImageSequence
    )
    assert second - first == timedelta(seconds=DAY - 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("undefined", [False, True])
def test_date_and_time_items_of_a_report_move_together(
    undefined: bool, real: Real, release: Release, shifting: Policy
) -> None:
    report = real("reportsi.dcm")
    report.StudyDate, report.StudyTime = "20200110", "235959"
    report.ContentSequence = Sequence(
        [
            content_item("DATE", "111060", "Study Date", Date="20200110"),
            content_item("TIME", "111061", "Study Time", Time="235959"),
            content_item("DATE", "111018", "Content Date", Date="20200110"),
            content_item("DATETIME", "111526", "DateTime Started", DateTime="20200110235959"),
        ]
    )
    report["ContentSequence"].is_undefined_length = undefined
    for item in report.ContentSequence:
        item.is_undefined_length_sequence_item = undefined

    _, _, out = release(report, shifting)

    study_date, study_time, content_date, started = out.ContentSequence
    assert (study_date.Date, study_time.Time) == (out.StudyDate, out.StudyTime)
    assert started.DateTime == out.StudyDate + out.StudyTime
    assert datetime.strptime(out.StudyDate, "%Y%m%d") - datetime.strptime(
        content_date.Date, "%Y%m%d"
    ) == timedelta(1)


def content_item(kind: str, code: str, meaning: str, **value: str) -> Dataset:
    item, concept = Dataset(), Dataset()
    concept.CodeValue, concept.CodingSchemeDesignator, concept.CodeMeaning = code, "DCM", meaning
    item.RelationshipType, item.ValueType = "CONTAINS", kind
    item.ConceptNameCodeSequence = Sequence([concept])
    for keyword, text in value.items():
        setattr(item, keyword, text)
    return item


def test_functional_groups_move_like_the_data_set(dated: Callable[..., Dataset]) -> None:
    frame, group = Dataset(), Dataset()
    frame.FrameAcquisitionDateTime, frame.FrameReferenceDateTime = "20040119121229.94", "20040119121230.94"
    group.FrameContentSequence = Sequence([frame])

    out = dated(
        StudyDate="20040119",
        StudyTime="121229.94",
        PerFrameFunctionalGroupsSequence=Sequence([group]),
    )

    moved = out.PerFrameFunctionalGroupsSequence[0].FrameContentSequence[0]
    assert moved.FrameAcquisitionDateTime == out.StudyDate + out.StudyTime
    assert moved.FrameReferenceDateTime != "20040119121230.94"


def test_a_date_without_a_time_moves_by_the_days_and_a_time_without_a_date_by_the_seconds(
    real: Real, release: Release, shifting: Policy
) -> None:
    data_set = real("CT_small.dcm")
    del data_set.SeriesTime
    data_set.SeriesDate, data_set.StudyDate, data_set.StudyTime = "20040119", "20040119", "000000"
    data_set.ContrastBolusStartTime = "000000"

    _, _, out = release(data_set, shifting)

    assert out.SeriesDate == out.StudyDate
    assert out.ContrastBolusStartTime == out.StudyTime != "000000"


def test_a_malformed_time_is_removed_and_its_date_moves_by_the_days(dated: Callable[..., Dataset]) -> None:
    out = dated(SeriesDate="20040119", SeriesTime="24:61 Doe", StudyDate="20040119", StudyTime="000000")

    assert "SeriesTime" not in out
    assert out.SeriesDate == out.StudyDate


def test_full_dates_keep_times(dated: Callable[..., Dataset], make_policy: MakePolicy) -> None:
    options = {"clean_pixel_data": False, "retain_longitudinal_modified_dates": False}
    options["retain_longitudinal_full_dates"] = True
    policy = make_policy("research", dicom={"options": options, "dates": {"times": "shift"}})

    out = dated(policy, StudyDate="20040119", StudyTime="235959.5")

    assert (out.StudyDate, out.StudyTime) == ("20040119", "235959.5")


def test_years_leave_times_that_move_by_the_seconds_alone(
    dated: Callable[..., Dataset], make_policy: MakePolicy
) -> None:
    dates = {"times": "shift", "method": "year"}
    policy = make_policy("research", dicom={"options": {"clean_pixel_data": False}, "dates": dates})

    out = dated(policy, StudyDate="20040119", StudyTime="235959")

    assert out.StudyDate == "20040101"
    assert out.StudyTime != "235959"


def test_the_object_states_modified_dates_and_not_full_ones(dated: Callable[..., Dataset]) -> None:
    out = dated(StudyDate="20040119", StudyTime="121229.94", TimezoneOffsetFromUTC="+0100")

    codes = {item.CodeValue for item in out.DeidentificationMethodCodeSequence}
    assert "113107" in codes
    assert "113106" not in codes
    assert out.LongitudinalTemporalInformationModified == "MODIFIED"
    assert out.get("TimezoneOffsetFromUTC", "+0100") == "+0100"


def test_the_record_tells_times_apart_without_stating_them(
    real: Real, release: Release, shifting: Policy
) -> None:
    data_set = real("CT_small.dcm")
    data_set.StudyTime = "121229.940000"

    kept = release(data_set)[0].record.times
    moved = release(data_set, shifting)[0].record.times

    assert kept[0] == kept[1] == moved[0] != moved[1]


def test_every_study_level_date_has_its_time() -> None:
    pairs = times_of_dates()

    assert {date: pairs[date] for date in (0x00080020, 0x00080021, 0x00080022, 0x00080023)} == {
        0x00080020: 0x00080030,
        0x00080021: 0x00080031,
        0x00080022: 0x00080032,
        0x00080023: 0x00080033,
    }
    assert pairs[0x00181012] == 0x00181014
    assert pairs[0x00400244] == 0x00400245
    assert all(date < time for date, time in pairs.items())
