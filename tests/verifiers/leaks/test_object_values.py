"""Values of one DICOM object, by attribute: sequences, private attributes, character sets, binary data."""

from __future__ import annotations

from io import BytesIO

import pytest
from medsanitize.verifiers.leaks.dicom_reader import MalformedFile
from medsanitize.verifiers.leaks.object_values import SHOWN, object_values
from pydicom import Dataset, dcmwrite
from pydicom.dataset import FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian


def written(data: Dataset, syntax: str = ExplicitVRLittleEndian) -> bytes:
    data.SOPClassUID, data.SOPInstanceUID = CTImageStorage, "2.25.1"
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = syntax
    stream = BytesIO()
    dcmwrite(stream, data, enforce_file_format=True)
    return stream.getvalue()


def texts(raw: bytes) -> dict[str, list[str]]:
    return {one.path: [value.text for value in found.values()] for one, found in object_values(raw).items()}


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_sequences_are_listed_by_path_and_equal_values_once(syntax: str) -> None:
    data = Dataset()
    items = []
    for number in (1, 2, 1):
        item = Dataset()
        item.ScheduledProcedureStepID = f"S{number}"
        items.append(item)
    data.RequestAttributesSequence = items
    found = texts(written(data, syntax))
    assert found["RequestAttributesSequence.ScheduledProcedureStepID"] == ["S1", "S2"]


def test_private_attributes_are_named_by_their_creator() -> None:
    data = Dataset()
    data.private_block(0x0029, "ACME 1.1", create=True).add_new(0x10, "LO", "secret")
    block = data.private_block(0x0031, "SEQ", create=True)
    inner = Dataset()
    inner.PatientComments = "inside"
    block.add_new(0x01, "SQ", [inner])
    raw = written(data)
    assert texts(raw)['(0029,"ACME 1.1",10)'] == ["secret"]
    private = {one.path for one in object_values(raw) if one.private}
    assert '(0031,"SEQ",01).PatientComments' in private
    assert "SOPClassUID" not in private


def test_values_are_decoded_by_their_character_set() -> None:
    data = Dataset()
    data.SpecificCharacterSet = ["ISO_IR 100"]
    data.PatientName = "Müller"
    assert texts(written(data))["PatientName"] == ["Müller"]


def test_numbers_and_binary_data_are_readable() -> None:
    data = Dataset()
    data.Rows = 512
    data.add_new(0x00189073, "FD", 1.5)
    data.add_new(0x00420011, "OB", b"\x00\x01" * 8)
    found = texts(written(data))
    assert (found["Rows"], found["EncapsulatedDocument"]) == (["512"], ["16 bytes"])
    assert found["AcquisitionDuration"] == ["1.5"]


def test_a_long_value_is_cut_but_told_from_another_that_begins_alike() -> None:
    data = Dataset()
    first, second = Dataset(), Dataset()
    first.TextValue, second.TextValue = "a" * 2_000_000, "a" * 1_999_999 + "b"
    data.ContentSequence = [first, second]
    (found,) = [f for one, f in object_values(written(data)).items() if one.path.endswith("TextValue")]
    assert [(len(value.text), value.length) for value in found.values()] == [(SHOWN, 2_000_000)] * 2


def test_a_malformed_character_set_does_not_hide_a_value() -> None:
    data = Dataset()
    data.PatientComments = "x"
    raw = written(data).replace(b"LT\x02\x00x ", b"LT\x02\x00\xff\xfe")
    assert texts(raw)["PatientComments"] != [""]


def test_a_file_that_is_cut_is_an_error() -> None:
    data = Dataset()
    data.PatientComments = "a long comment"
    with pytest.raises(MalformedFile):
        object_values(written(data)[:-4])
