"""The inventory collects every attribute with a person, place or number, in a sensible category."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from medsanitize.policies.load import loads
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.dicom.identifying_attributes import CATEGORY
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom, kept_attributes
from medsanitize.sanitize.formats.dicom.dictionary import dictionary
from pydicom import Dataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian

POLICY = """\
version: 1
preset: ps3.15-basic
release: {name: a, version: "1", mode: pseudonymous}
inputs: [i]
output: o
state: s
keys: {file: k}
dicom: {options: {retain_device_identity: true}}
"""


def known_of(dataset: Dataset, *, implicit: bool = False) -> frozenset[KnownValue]:
    dataset.SOPClassUID, dataset.SOPInstanceUID = CTImageStorage, "1.2.3.4"
    stream = BytesIO()
    dataset.file_meta = Dataset()
    dataset.file_meta.MediaStorageSOPClassUID = CTImageStorage
    dataset.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4"
    dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if implicit else ExplicitVRLittleEndian
    dataset.save_as(stream, enforce_file_format=True)
    return inspect_dicom(stream.getvalue()).known


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize(
    ("keyword", "value", "category"),
    [
        ("MilitaryRank", "Sergeant 12345", "label"),
        ("DetectorID", "DET12345", "label"),
        ("StationName", "CTROOM3", "label"),
        ("PlateID", "P-99812", "label"),
        ("DeviceSerialNumber", "SN123456", "id"),
        ("OtherPatientIDs", "X7654321", "id"),
        ("FillerOrderNumberImagingServiceRequest", "F88123", "id"),
        ("RequestingService", "Kowalski clinic", "organization"),
        ("IssuerOfPatientID", "Kowalski Hospital", "organization"),
        ("InstitutionalDepartmentName", "Kowalski Imaging", "organization"),
        ("CurrentPatientLocation", "Ward Kowalski", "place"),
        ("RegionOfResidence", "Masovia", "place"),
        ("PatientTelecomInformation", "a@example.org", "phone"),
        ("OrderCallbackPhoneNumber", "555 0199", "phone"),
        ("InstitutionAddress", "1 Oak Street", "address"),
        ("CameraOwnerName", "Jan Kowalski", "name"),
        ("InterpretationTranscriber", "Kowalski^Jan", "name"),
        ("ReviewDate", "20040119", "date"),
    ],
)
def test_an_identifying_attribute_is_collected(
    keyword: str, value: str, category: str, implicit: bool
) -> None:
    dataset = Dataset()
    setattr(dataset, keyword, value)

    assert KnownValue(category, value) in known_of(dataset, implicit=implicit)


def test_a_coded_person_is_known_by_code_and_name() -> None:
    code, person = Dataset(), Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = "EMP4711", "99HOSP", "Dr Kowalski"
    person.PersonIdentificationCodeSequence = [code]
    dataset = Dataset()
    dataset.ReferringPhysicianIdentificationSequence = [person]

    assert {KnownValue("label", "EMP4711"), KnownValue("name", "Dr Kowalski")} <= known_of(dataset)


def test_the_observer_of_a_report_is_known_and_its_findings_are_not() -> None:
    items = []
    for code, text in (("121008", "Jan Kowalski"), ("121071", "a nodule")):
        concept, item = Dataset(), Dataset()
        concept.CodeValue, concept.CodingSchemeDesignator = code, "DCM"
        item.ConceptNameCodeSequence, item.TextValue = [concept], text
        items.append(item)
    dataset = Dataset()
    dataset.ContentSequence = items

    assert {one for one in known_of(dataset) if one.category != "uid"} == {KnownValue("name", "Jan Kowalski")}


def test_long_texts_are_not_identifiers() -> None:
    dataset = Dataset()
    dataset.PatientTelecomInformation = "call " * 200

    assert not known_of(dataset)


def test_attributes_kept_by_the_policy_are_not_collected() -> None:
    dicom = loads(POLICY, base=Path("/p")).dicom

    assert kept_attributes(dicom) & {0x00081010, 0x00181000, 0x00100010} == {0x00081010, 0x00181000}


def test_every_collected_attribute_is_a_text_of_the_dictionary() -> None:
    texts = {b"LO", b"SH", b"ST", b"LT", b"UT", b"UC", b"AE", b"UI", b"CS", b"PN"}

    assert all(tag in dictionary() and dictionary()[tag][0] in texts for tag in CATEGORY)
