"""A clean released object to plant leaks in."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pydicom
from pydicom.data import get_testdata_file

PSEUDONYM = "ABCDEFGH234567AB"
_META = {0x00020000, 0x00020001, 0x00020002, 0x00020003, 0x00020010, 0x00020012, 0x00020013}


def made_uid(old: str) -> str:
    """Return the UID of a release for an original one, always the same."""
    return f"2.25.{int.from_bytes(sha256(old.encode()).digest()[:16], 'big')}"


def make_released_object(name: str = "CT_small.dcm") -> pydicom.Dataset:
    """Read a test file and change it to what a release may contain."""
    data_set = pydicom.dcmread(str(get_testdata_file(name, download=False)))
    data_set.remove_private_tags()
    for element in list(data_set.iterall()):
        if element.VR == "UI" and element.value and not str(element.value).startswith("1.2.840.10008."):
            element.value = made_uid(str(element.value))
        elif element.VR == "PN":
            element.value = PSEUDONYM
    for tag in [element.tag for element in data_set.file_meta if element.tag not in _META]:
        del data_set.file_meta[tag]
    for tag in (0xFFFCFFFC, 0x00101000):
        if tag in data_set:
            del data_set[tag]
    data_set.preamble = bytes(128)
    data_set.PatientID = data_set.PatientName = PSEUDONYM
    data_set.PatientIdentityRemoved = "YES"
    data_set.file_meta.MediaStorageSOPClassUID = data_set.SOPClassUID
    data_set.file_meta.MediaStorageSOPInstanceUID = data_set.SOPInstanceUID
    data_set.file_meta.ImplementationClassUID = made_uid("test")
    return data_set


def to_bytes(data_set: pydicom.Dataset) -> bytes:
    stream = BytesIO()
    data_set.save_as(stream)
    return stream.getvalue()


def save(data_set: pydicom.Dataset, folder: Path) -> Path:
    path = folder / "object.dcm"
    path.write_bytes(to_bytes(data_set))
    return path
