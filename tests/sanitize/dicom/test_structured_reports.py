"""Structured reports: measurements and codes are kept, people and places removed, references valid."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import datetime

import highdicom as hd
import numpy as np
import pytest
from highdicom.sr.coding import CodedConcept
from medsanitize.policies.model import Policy
from medsanitize.sanitize.result import Sanitized
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.sr.codedict import codes

Real = Callable[[str], Dataset]
Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
MakePolicy = Callable[..., Policy]

PERSON, PLACE, SERIAL = "Obrecht^Ilse", "Klinikum Nordwest", "SN-4711-99"
PRESETS = ["ps3.15-basic", "research", "hipaa-safe-harbor"]


@pytest.fixture(scope="module")
def report(real: Real) -> Dataset:
    """A measurement report of highdicom: observers, a measured region, a finding, image references."""
    image = real("CT_small.dcm")
    image.PatientID, image.PatientName = "77-4711", "Quast^Otto"
    observers = hd.sr.ObservationContext(
        observer_person_context=hd.sr.ObserverContext(
            observer_type=codes.DCM.Person,
            observer_identifying_attributes=hd.sr.PersonObserverIdentifyingAttributes(
                name=PERSON, login_name="obrechti", organization_name=PLACE
            ),
        ),
        observer_device_context=hd.sr.ObserverContext(
            observer_type=codes.DCM.Device,
            observer_identifying_attributes=hd.sr.DeviceObserverIdentifyingAttributes(
                uid=hd.UID(), name="WS-OBRECHT", serial_number=SERIAL, physical_location=PLACE
            ),
        ),
    )
    region = hd.sr.ImageRegion(
        graphic_type=hd.sr.GraphicTypeValues.CIRCLE,
        graphic_data=np.array([[10.0, 10.0], [14.0, 10.0]]),
        source_image=hd.sr.SourceImageForRegion.from_source_image(image),
    )
    group = hd.sr.PlanarROIMeasurementsAndQualitativeEvaluations(
        tracking_identifier=hd.sr.TrackingIdentifier(uid=hd.UID(), identifier="Lesion"),
        referenced_region=region,
        finding_type=codes.SCT.Neoplasm,
        measurements=[hd.sr.Measurement(name=codes.SCT.Diameter, value=11.5, unit=codes.UCUM.Millimeter)],
    )
    content = hd.sr.MeasurementReport(
        observation_context=observers,
        procedure_reported=codes.LN.CTUnspecifiedBodyRegion,
        imaging_measurements=[group],
        title=codes.DCM.ImagingMeasurementReport,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = hd.sr.Comprehensive3DSR(
            evidence=[image],
            content=content,
            series_number=1,
            series_instance_uid=hd.UID(),
            sop_instance_uid=hd.UID(),
            instance_number=1,
            institution_name=PLACE,
            is_complete=True,
            is_verified=True,
            verifying_observer_name=PERSON,
            verifying_organization=PLACE,
        )
    made.PatientID, made.PatientName = image.PatientID, image.PatientName
    return made


def items(data_set: Dataset) -> Iterator[Dataset]:
    for item in data_set.get("ContentSequence", []):
        yield item
        yield from items(item)


def types(data_set: Dataset) -> set[str]:
    return {str(item.ValueType) for item in items(data_set)}


def concept(value: str, meaning: str) -> Sequence:
    return Sequence([CodedConcept(value, "DCM", meaning)])


def text_item(value: str, meaning: str, text: str) -> Dataset:
    item = Dataset()
    item.RelationshipType, item.ValueType = "CONTAINS", "TEXT"
    item.ConceptNameCodeSequence, item.TextValue = concept(value, meaning), text
    return item


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", PRESETS)
def test_observers_and_their_locations_are_removed_from_reports(
    preset: str, report: Dataset, release: Release, make_policy: MakePolicy
) -> None:
    _, out, released = release(report, make_policy(preset))

    for secret in (b"Obrecht", b"OBRECHT", b"Klinikum", b"4711", b"obrechti", b"Quast"):
        assert secret not in out
    assert "PNAME" not in types(released)
    written = {str(item.ConceptNameCodeSequence[0].get("CodeValue", "")) for item in items(released)}
    assert not written & {"121008", "121009", "121012", "121013", "121016", "121017"}


@pytest.mark.filterwarnings("ignore")
def test_a_name_under_another_concept_keeps_its_item_and_loses_its_value(
    report: Dataset, release: Release, make_policy: MakePolicy
) -> None:
    named = Dataset()
    named.RelationshipType, named.ValueType = "CONTAINS", "PNAME"
    named.ConceptNameCodeSequence, named.PersonName = concept("121071", "Finding"), PERSON
    source = Dataset(report)
    source.file_meta = report.file_meta
    source.ContentSequence = Sequence([named, *report.ContentSequence])

    _, out, released = release(source, make_policy("research"))

    assert b"Obrecht" not in out
    assert "PNAME" in types(released)


@pytest.mark.filterwarnings("ignore")
def test_measurements_codes_regions_and_references_are_kept(
    report: Dataset, release: Release, make_policy: MakePolicy
) -> None:
    done, _, released = release(report, make_policy("research"))

    assert {"CONTAINER", "NUM", "CODE", "SCOORD", "IMAGE", "UIDREF", "TEXT"} <= types(released)
    number = next(item for item in items(released) if item.ValueType == "NUM")
    assert number.MeasuredValueSequence[0].NumericValue == 11.5
    assert number.MeasuredValueSequence[0].MeasurementUnitsCodeSequence[0].CodeValue == "mm"
    region = next(item for item in items(released) if item.ValueType == "SCOORD")
    assert list(region.GraphicData) == [10.0, 10.0, 14.0, 10.0]
    mapped = dict(done.links)
    source = next(item for item in items(report) if item.ValueType == "IMAGE")
    image = next(item for item in items(released) if item.ValueType == "IMAGE")
    old = source.ReferencedSOPSequence[0].ReferencedSOPInstanceUID
    assert image.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == mapped[old]
    tracked = [item.UID for item in items(released) if item.ValueType == "UIDREF"]
    assert set(tracked) <= set(mapped.values())


@pytest.mark.filterwarnings("ignore")
def test_report_dates_shift_with_the_patient_and_times_are_kept(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    report = real("reportsi.dcm")
    dated = []
    for keyword, kind, value in (
        ("Date", "DATE", "20200110"),
        ("DateTime", "DATETIME", "20200220101500"),
        ("Time", "TIME", "101500"),
    ):
        item = Dataset()
        item.RelationshipType, item.ValueType = "CONTAINS", kind
        item.ConceptNameCodeSequence = concept("111060", "Study Date")
        setattr(item, keyword, value)
        dated.append(item)
    report.ContentSequence = Sequence(dated)

    _, _, released = release(report, make_policy("research"))

    day, moment, time = released.ContentSequence
    apart = datetime.strptime(moment.DateTime[:8], "%Y%m%d") - datetime.strptime(day.Date, "%Y%m%d")
    assert day.Date != "20200110"
    assert apart.days == 41
    assert (moment.DateTime[8:], time.Time) == ("101500", "101500")


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("121999", "Hospital Name"),
        ("121999", "Institution Address"),
        ("121022", "Accession Number"),
        ("121999", "Physician's Name"),
        ("113873", "Organization Name"),
        ("121999", "Telephone"),
    ],
)
def test_an_item_with_the_concept_of_a_location_or_request_is_removed(
    code: str, meaning: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    report = real("reportsi.dcm")
    before = len(release(report, make_policy("research"))[2].ContentSequence)
    report.ContentSequence.append(text_item(code, meaning, "Lung"))

    _, _, released = release(report, make_policy("research"))

    assert len(released.ContentSequence) == before


IDENTIFIERS = {
    "DCM": "110190 111700 111705 111706 111724 112347 112351 112352 112363 113511 113512 113513 113514 "
    "113516 113605 113832 120999 121121 121124 121154 121193 121196 121197 121434 121435 122128 125010 "
    "128775 130527",
    "LN": "11951-1 74711-3",
    "NCDR [2.0b]": "53",
}


@pytest.mark.parametrize(
    ("scheme", "code"), [(scheme, code) for scheme, codes in IDENTIFIERS.items() for code in codes.split()]
)
def test_texts_that_the_table_of_concepts_removes_are_removed_though_they_look_harmless(
    scheme: str, code: str, real: Real, release: Release, make_policy: MakePolicy
) -> None:
    report = real("reportsi.dcm")
    item = text_item(code, "Concept", "lateral thoracic")
    item.ConceptNameCodeSequence[0].CodingSchemeDesignator = scheme
    report.ContentSequence.append(item)
    options = {"clean_structured_content": True, "clean_descriptors": True}

    done, out, _ = release(report, make_policy("ps3.15-basic", dicom={"options": options}))

    assert b"lateral thoracic" not in out
    assert done.record.rules["X:identifier-context"] == 1


def test_a_code_that_contains_the_digits_of_an_identifier_stays(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    report = real("reportsi.dcm")
    report.ContentSequence.append(text_item("121071", "Finding", "lateral thoracic"))

    _, out, _ = release(
        report, make_policy("ps3.15-basic", dicom={"options": {"clean_structured_content": True}})
    )

    assert b"lateral thoracic" in out


def reference(*place: int) -> Dataset:
    item = Dataset()
    item.RelationshipType, item.ReferencedContentItemIdentifier = "INFERRED FROM", list(place)
    return item


def with_references(real: Real, *places: tuple[int, ...]) -> Dataset:
    """A tree of an observer, a finding and a conclusion that refers to items by position."""
    report = real("reportsi.dcm")
    conclusion = text_item("121077", "Conclusion", "Normal")
    conclusion.ContentSequence = Sequence([reference(*place) for place in places])
    report.ContentSequence = Sequence(
        [
            text_item("121008", "Person Observer Name", PERSON),
            text_item("121071", "Finding", "Mass"),
            conclusion,
        ]
    )
    return report


def test_references_within_a_tree_follow_moved_items(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    _, _, released = release(with_references(real, (1, 2), (1,)), make_policy("research"))

    conclusion = released.ContentSequence[1]
    assert conclusion.TextValue == "Normal"
    assert [one.ReferencedContentItemIdentifier for one in conclusion.ContentSequence] == [[1, 1], 1]


def test_a_reference_to_a_removed_item_is_removed_too(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    report = with_references(real, (1, 1), (1, 2))

    _, _, released = release(report, make_policy("research"))

    conclusion = released.ContentSequence[1]
    assert [one.ReferencedContentItemIdentifier for one in conclusion.ContentSequence] == [[1, 1]]


def test_an_emptied_content_sequence_is_removed(
    real: Real, release: Release, make_policy: MakePolicy
) -> None:
    report = with_references(real, (1, 1))

    _, _, released = release(report, make_policy("research"))

    assert "ContentSequence" not in released.ContentSequence[1]
