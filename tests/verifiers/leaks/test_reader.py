"""The audit's own reader agrees with pydicom on valid files and rejects invalid ones."""

from __future__ import annotations

import struct
import warnings
import zlib
from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.verifiers.leaks import dicom_reader
from medsanitize.verifiers.leaks.audit import tags_by_pydicom
from pydicom.data import get_testdata_file

FOLDER = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent

# Files of pydicom's wheel that are not complete, valid Part 10 files.
NOT_PART_10_OR_CUT = {
    "ExplVR_BigEndNoMeta.dcm",
    "ExplVR_LitEndNoMeta.dcm",
    "MR_truncated.dcm",
    "SC_rgb_jpeg.dcm",
    "image_dfl.dcm",
    "meta_missing_tsyntax.dcm",
    "no_meta.dcm",
    "no_meta_group_length.dcm",
    "rtplan_truncated.dcm",
    "rtstruct.dcm",
}

NAMES = sorted(path.name for path in FOLDER.glob("*.dcm"))


def written(data_set: pydicom.Dataset) -> bytes:
    stream = BytesIO()
    data_set.save_as(stream)
    return stream.getvalue()


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_PART_10_OR_CUT])
def test_the_reader_finds_the_elements_that_pydicom_finds(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = tags_by_pydicom(pydicom.dcmread(FOLDER / name))

    parsed = dicom_reader.read(FOLDER / name)

    ours = [parsed.path(index) for index in range(parsed.meta, len(parsed.elements))]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_PART_10_OR_CUT])
def test_the_reader_finds_the_values_that_pydicom_finds(name: str) -> None:
    data_set = pydicom.dcmread(FOLDER / name)
    theirs = {}
    for tag in data_set.keys():  # noqa: SIM118 - a data set iterates over elements, not tags
        raw = data_set.get_item(tag)
        if isinstance(raw, pydicom.dataelem.RawDataElement) and raw.length != 0xFFFFFFFF and raw.VR != "SQ":
            theirs[int(tag)] = raw.value or b""

    parsed = dicom_reader.read(FOLDER / name)

    ours = {tag: parsed.buffer[start:end] for tag, _, start, end, item in parsed.elements if item < 0}
    assert {tag: bytes(ours[tag]) for tag in theirs} == theirs


@pytest.mark.parametrize("name", sorted(NOT_PART_10_OR_CUT & set(NAMES)))
def test_a_file_with_unaccounted_bytes_is_rejected(name: str) -> None:
    with pytest.raises(dicom_reader.MalformedFile):
        dicom_reader.read(FOLDER / name)


def test_the_error_states_the_rule_and_no_value() -> None:
    data = (FOLDER / "CT_small.dcm").read_bytes()

    with pytest.raises(dicom_reader.MalformedFile, match=r"\(length\)"):
        dicom_reader.read(data[:-1])


@given(cut=st.integers(min_value=1, max_value=2000))
def test_a_truncated_file_is_read_only_if_cut_between_elements(cut: int) -> None:
    data = (FOLDER / "reportsi.dcm").read_bytes()
    ends = {end for _, _, _, end, item in dicom_reader.read(data).elements if item < 0}

    try:
        dicom_reader.read(data[:-cut])
        whole = True
    except dicom_reader.MalformedFile:
        whole = False

    assert whole == (len(data) - cut in ends)


@given(data=st.data())
def test_flipped_bytes_are_read_or_rejected(data: st.DataObject) -> None:
    original = (FOLDER / "nested_priv_SQ.dcm").read_bytes()
    flipped = bytearray(original)
    for place in data.draw(st.lists(st.integers(0, len(original) - 1), min_size=1, max_size=6)):
        flipped[place] = data.draw(st.integers(0, 255))

    try:
        parsed = dicom_reader.read(bytes(flipped))
    except dicom_reader.MalformedFile:
        return

    assert all(start <= end <= len(parsed.buffer) for _, _, start, end, _ in parsed.elements)


def test_trailing_bytes_after_the_last_element_are_rejected() -> None:
    data = (FOLDER / "MR_small.dcm").read_bytes()

    with pytest.raises(dicom_reader.MalformedFile):
        dicom_reader.read(data + b"DOE^JOHN")


def test_trailing_bytes_after_encapsulated_pixel_data_are_rejected() -> None:
    data = (FOLDER / "MR_small_RLE.dcm").read_bytes()

    with pytest.raises(dicom_reader.MalformedFile):
        dicom_reader.read(data + b"DOE^JOHN")


def test_an_item_longer_than_its_sequence_is_rejected() -> None:
    item = struct.pack("<HHL", 0xFFFE, 0xE000, 20) + bytes(8)
    sequence = struct.pack("<HH2sHL", 0x0008, 0x1140, b"SQ", 0, len(item)) + item

    with pytest.raises(dicom_reader.MalformedFile):
        dicom_reader.read(_part_10(sequence))


def test_nesting_beyond_the_limit_is_rejected_without_stack_overflow() -> None:
    opening = struct.pack("<HH2sHL", 0x0008, 0x1140, b"SQ", 0, 0xFFFFFFFF) + struct.pack(
        "<HHL", 0xFFFE, 0xE000, 0xFFFFFFFF
    )

    with pytest.raises(dicom_reader.MalformedFile, match="depth"):
        dicom_reader.read(_part_10(opening * 100_000))


def test_elements_out_of_order_are_reported() -> None:
    late = struct.pack("<HH2sH", 0x0010, 0x0020, b"LO", 2) + b"P1"
    early = struct.pack("<HH2sH", 0x0008, 0x0060, b"CS", 2) + b"CT"

    parsed = dicom_reader.read(_part_10(late + early))

    assert [parsed.path(index) for index in parsed.unordered] == ["(0008,0060)"]


def test_a_deflated_data_set_is_inflated_only_up_to_the_limit() -> None:
    element = struct.pack("<HH2sHL", 0x7FE0, 0x0010, b"OB", 0, 1 << 20) + bytes(1 << 20)
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = _part_10(deflater.compress(element) + deflater.flush(), "1.2.840.10008.1.2.1.99")

    with pytest.raises(dicom_reader.MalformedFile, match="inflated-bytes"):
        dicom_reader.read(data, inflated_bytes=1 << 19)


def test_bytes_after_a_deflated_stream_are_rejected() -> None:
    element = struct.pack("<HH2sH", 0x0008, 0x0060, b"CS", 2) + b"CT"
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    stream = deflater.compress(element) + deflater.flush()

    with pytest.raises(dicom_reader.MalformedFile, match="deflate"):
        dicom_reader.read(_part_10(stream + b"DOE^JOHN", "1.2.840.10008.1.2.1.99"))


def test_a_large_file_is_memory_mapped(tmp_path: Path) -> None:
    size = dicom_reader.MAPPED_BYTES + 2
    path = tmp_path / "large.dcm"
    path.write_bytes(_part_10(struct.pack("<HH2sHL", 0x7FE0, 0x0010, b"OW", 0, size) + bytes(size)))

    parsed = dicom_reader.read(path)

    assert not isinstance(parsed.raw, bytes)


def _part_10(data_set: bytes, syntax: str = "1.2.840.10008.1.2.1") -> bytes:
    uid = syntax.encode() + b"\0" * (len(syntax) % 2)
    meta = struct.pack("<HH2sH", 2, 0x10, b"UI", len(uid)) + uid
    length = struct.pack("<HH2sHL", 2, 0, b"UL", 4, len(meta))
    return bytes(128) + b"DICM" + length + meta + data_set
