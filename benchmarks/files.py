"""Input files of the speed and memory benchmarks, made from one of pydicom's test files."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pydicom
from burned_in import picture
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.uid import ExplicitVRLittleEndian, RLELossless, generate_uid

# Patient of each of eight consecutive studies: four patients with 1, 2, 1 and 4 studies.
PATIENTS_OF_STUDIES = (0, 1, 1, 2, 3, 3, 3, 3)


def _named(data_set: pydicom.Dataset, kind: str, number: int, series: int) -> None:
    data_set.SOPInstanceUID = generate_uid(entropy_srcs=[f"{kind}{number}"])
    data_set.file_meta.MediaStorageSOPInstanceUID = data_set.SOPInstanceUID
    data_set.SeriesInstanceUID = generate_uid(entropy_srcs=[f"series{kind}{series}"])
    data_set.InstanceNumber = number + 1


def make_small(folder: Path, count: int) -> None:
    """Write ``count`` different variants of a 39 KB CT image, a hundred per series."""
    folder.mkdir(parents=True)
    data_set = pydicom.dcmread(str(get_testdata_file("CT_small.dcm", download=False)))
    pixels = bytearray(data_set.PixelData)
    for number in range(count):
        # Four bytes suffice to make the images distinct, so that none is a duplicate.
        pixels[:4] = number.to_bytes(4, "little")
        data_set.PixelData = bytes(pixels)
        _named(data_set, "small", number, number // 100)
        data_set.save_as(folder / f"{number:07d}.dcm")


def make_big(folder: Path, count: int) -> None:
    """Write ``count`` images of 30 frames, 512 x 512, 16 bits (15.7 MB); every fifth RLE compressed."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    ramp = np.add.outer(np.arange(512), np.arange(512))[None] + 50 * np.arange(30)[:, None, None]
    for number in range(count):
        data_set = pydicom.dcmread(str(get_testdata_file("CT_small.dcm", download=False)))
        data_set.Rows = data_set.Columns = 512
        data_set.NumberOfFrames, data_set.PixelRepresentation = 30, 0
        data_set.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        data_set.PixelData = (ramp + rng.integers(0, 64, ramp.shape)).astype("<u2").tobytes()
        # PS3.5 Annex A.2: more than 8 bits allocated requires OW.
        data_set["PixelData"].VR = "OW"
        if number % 5 == 4:
            data_set.compress(RLELossless, generate_instance_uid=False)
        _named(data_set, "big", number, number)
        data_set.save_as(folder / f"{number:03d}.dcm")


def make_mixed(folder: Path, ultrasound: int, radiographs: int, real: Path | None) -> None:
    """Write pydicom's test files, the files of ``real``, and pictures with text as objects of their own.

    Ultrasound is 256 to 1024 pixels wide, a radiograph four times that.
    """
    folder.mkdir(parents=True)
    own = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent
    found = [path for path in sorted(own.rglob("*.dcm")) if path.stat().st_size < 2**20]
    found += sorted(path for path in real.rglob("*") if path.is_file()) if real is not None else []
    for number, path in enumerate(found):
        shutil.copy(path, folder / f"{number:04d}.dcm")
    rng = np.random.default_rng(1)
    for number in range(ultrasound):
        _write_picture(folder / f"us{number:03d}.dcm", "US", number, picture(rng)[0])
    for number in range(radiographs):
        _write_picture(folder / f"cr{number:03d}.dcm", "CR", number, np.tile(picture(rng)[0], (4, 4)))


def _write_picture(path: Path, modality: str, number: int, frame: NDArray[np.uint8]) -> None:
    data_set = pydicom.dcmread(str(get_testdata_file("CT_small.dcm", download=False)))
    data_set.Modality, data_set.PatientID = modality, f"{modality}{number // 3}"
    classes = {"US": "1.2.840.10008.5.1.4.1.1.6.1", "CR": "1.2.840.10008.5.1.4.1.1.1"}
    data_set.SOPClassUID = data_set.file_meta.MediaStorageSOPClassUID = classes[modality]
    data_set.Rows, data_set.Columns = frame.shape
    data_set.BitsAllocated = data_set.BitsStored = 8
    data_set.HighBit, data_set.PixelRepresentation = 7, 0
    data_set.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data_set.PixelData = frame.tobytes() + b"\0" * (frame.size % 2)
    data_set["PixelData"].VR = "OB"
    data_set.StudyInstanceUID = generate_uid(entropy_srcs=[f"study{modality}{number // 3}"])
    _named(data_set, modality, number, number)
    data_set.save_as(path)


def tiny_objects(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of ``count`` objects of 1.5 KB: 100 per study, 1 to 4 studies per patient."""
    for number in range(count):
        study = number // 100
        patient = 4 * (study // 8) + PATIENTS_OF_STUDIES[study % 8]
        yield f"{patient:06d}/{study:07d}/{number:08d}.dcm", tiny_object(patient, study, number)


def tiny_object(patient: int, study_number: int, number: int) -> bytes:
    """Encode one small CT object by hand: a library would take hours for a million."""
    sop_class = "1.2.840.10008.5.1.4.1.1.2"
    study = f"1.3.6.1.4.1.99999.8.{patient}.{study_number}"
    series = f"{study}.{number // 50 % 2 + 1}"
    instance = f"1.3.6.1.4.1.99999.9.{study_number}.{number}"
    meta = b"".join(
        [
            _element(0x00020002, b"UI", sop_class),
            _element(0x00020003, b"UI", instance),
            _element(0x00020010, b"UI", "1.2.840.10008.1.2.1"),
            _element(0x00020012, b"UI", "1.3.6.1.4.1.99999.1"),
        ]
    )
    body = b"".join(
        [
            _element(0x00080016, b"UI", sop_class),
            _element(0x00080018, b"UI", instance),
            _element(0x00080020, b"DA", f"2020{study_number % 12 + 1:02d}15"),
            _element(0x00080050, b"SH", f"AC{study_number:07d}"),
            _element(0x00080060, b"CS", "CT"),
            _element(0x00080070, b"LO", "SIEMENS"),
            _element(0x00080090, b"PN", "Pemberton^Alistair"),
            _element(0x00100010, b"PN", f"Family{_letters(patient)}^Given{_letters(patient + 77)}"),
            _element(0x00100020, b"LO", f"MRN-{patient:07d}"),
            _element(0x00100030, b"DA", "19600101"),
            _element(0x00100040, b"CS", "F"),
            _element(0x0020000D, b"UI", study),
            _element(0x0020000E, b"UI", series),
            _element(0x00200013, b"IS", str(number)),
            _element(0x00280002, b"US", 1),
            _element(0x00280004, b"CS", "MONOCHROME2"),
            _element(0x00280010, b"US", 16),
            _element(0x00280011, b"US", 16),
            _element(0x00280100, b"US", 16),
            _element(0x00280101, b"US", 16),
            _element(0x00280102, b"US", 15),
            _element(0x00280103, b"US", 0),
            struct.pack("<HH2sHL", 0x7FE0, 0x0010, b"OW", 0, 512)
            + struct.pack("<Q", number).ljust(512, b"\1"),
        ]
    )
    length = struct.pack("<HH2sHL", 2, 0, b"UL", 4, len(meta))
    return bytes(128) + b"DICM" + length + meta + body


def _letters(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


def _element(tag: int, vr: bytes, value: str | int) -> bytes:
    if isinstance(value, int):
        raw = struct.pack("<H", value)
    else:
        raw = value.encode("ascii")
        # PS3.5 section 6.2: UIDs are padded with a null byte, other strings with a space.
        raw += (b"\0" if vr == b"UI" else b" ") * (len(raw) % 2)
    return struct.pack("<HH2sH", tag >> 16, tag & 0xFFFF, vr, len(raw)) + raw
