"""Encoded frames lose everything that is not image; pixels are otherwise unchanged."""

from __future__ import annotations

import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.formats import jpeg2000, jpegxl
from medsanitize.sanitize.formats.dicom import rle
from medsanitize.sanitize.formats.icc import clean_profile
from medsanitize.sanitize.formats.jpeg import markers
from medsanitize.sanitize.pieces import Copy
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import Sanitized
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Sanitize = Callable[..., tuple[Sanitized, bytes]]
Real = Callable[[str], Dataset]
Load = Callable[..., bytes]

RAW = b"Grzbowska Anna 1951"
FOLDER = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent
NAMES = sorted(path.name for path in FOLDER.glob("*.dcm"))
# Files without an image, not decodable with the installed plugins, or quarantined.
UNREAD = {
    *("ExplVR_BigEndNoMeta.dcm", "ExplVR_LitEndNoMeta.dcm", "UN_sequence.dcm", "empty_charset_LEI.dcm"),
    *("no_meta.dcm", "no_meta_group_length.dcm", "priv_SQ.dcm", "nested_priv_SQ.dcm", "reportsi.dcm"),
    *("reportsi_with_empty_number_tags.dcm", "rtplan.dcm", "rtplan_truncated.dcm", "rtstruct.dcm"),
    *("test-SR.dcm", "waveform_ecg.dcm", "meta_missing_tsyntax.dcm"),
    *("JPEG-lossy.dcm", "JPGExtended.dcm", "JPEG2000-embedded-sequence-delimiter.dcm"),
    *("MR_truncated.dcm", "badVR.dcm", "SC_rgb_jpeg.dcm"),
}


def element_value(data: bytes) -> bytes | None:
    """The raw value of the pixel data element."""
    data_set = pydicom.dcmread(BytesIO(data), force=True)
    return bytes(data_set.PixelData) if "PixelData" in data_set else None


def first_frame(data_set: Dataset) -> bytes:
    return next(generate_frames(data_set.PixelData, number_of_frames=1))


def with_frame(data_set: Dataset, *frames: bytes) -> Dataset:
    data_set.PixelData = encapsulate(list(frames))
    data_set["PixelData"].is_undefined_length = True
    return data_set


def com(marker: bytes, text: bytes = RAW) -> bytes:
    return marker + (len(text) + 2).to_bytes(2, "big") + text


CLEAN = [
    "CT_small.dcm",
    "MR_small.dcm",
    "MR_small_RLE.dcm",
    "rtdose.dcm",
    "MR_small_bigendian.dcm",
    "SC_rgb_rle_2frame.dcm",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLEAN)
def test_clean_pixel_bytes_are_unchanged(name: str, load_bytes: Load, release: Release) -> None:
    _, out, _ = release(name)

    assert element_value(out) == element_value(load_bytes(name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(NAMES) - UNREAD))
def test_released_pixels_decode_as_before(name: str, load_bytes: Load, sanitize: Sanitize) -> None:
    source = load_bytes(name)
    before = pydicom.dcmread(BytesIO(source), force=True)

    _, out = sanitize(source)

    expected = before.pixel_array
    if not before.file_meta.TransferSyntaxUID.is_compressed and not before.PixelRepresentation:
        expected &= (1 << before.BitsStored) - 1  # bits above BitsStored are not released
    assert np.array_equal(pydicom.dcmread(BytesIO(out)).pixel_array, expected)


JPEGS = [
    "SC_rgb_jpeg_dcmtk.dcm",
    "SC_rgb_jpeg_gdcm.dcm",
    "SC_rgb_small_odd_jpeg.dcm",
    "MR_small_jpeg_ls_lossless.dcm",
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", JPEGS)
@pytest.mark.parametrize(
    "marker", [b"\xff\xfe", b"\xff\xe1", b"\xff\xe0", b"\xff\xed", b"\xff\xff\xff\xfe", b"\xff\xee"]
)
def test_jpeg_metadata_segments_are_removed_and_the_image_is_kept(
    marker: bytes, name: str, real: Real, release: Release
) -> None:
    data_set = real(name)
    frame = first_frame(data_set)
    with_frame(data_set, frame[:2] + com(marker) + frame[2:].rstrip(b"\0") + RAW)

    _, out, released = release(data_set)

    assert RAW not in out
    assert np.array_equal(released.pixel_array, real(name).pixel_array)


@pytest.mark.parametrize("name", JPEGS)
def test_reserved_jpeg_segments_are_quarantined(name: str, real: Real, sanitize: Sanitize) -> None:
    data_set = real(name)
    frame = first_frame(data_set)
    with_frame(data_set, frame[:2] + com(b"\xff\xf2") + frame[2:])

    done, out = sanitize(data_set)

    assert [finding.rule for finding in done.record.findings] == ["jpeg-structure"]
    assert out == b""


def test_a_long_run_of_fill_bytes_is_parsed_in_linear_time(real: Real) -> None:
    frame = first_frame(real("JPEG-lossy.dcm")).rstrip(b"\0")
    start = time.process_time()

    markers.strip_jpeg_metadata(frame[:-2] + b"\xff" * 1_000_000 + b"\x00\xff\xd9")

    assert time.process_time() - start < 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["MR_small_jp2klossless.dcm", "693_J2KI.dcm", "JPEG2000.dcm"])
@pytest.mark.parametrize("where", ["main", "tile", "behind"])
def test_jpeg_2000_comments_are_removed_and_the_image_is_kept(
    where: str, name: str, real: Real, release: Release
) -> None:
    data_set = real(name)
    frame = first_frame(data_set)
    with_frame(data_set, _commented(frame, where))

    _, out, released = release(data_set)

    assert RAW not in out
    assert np.array_equal(released.pixel_array, real(name).pixel_array)


def _commented(frame: bytes, where: str) -> bytes:
    text = b"\0\1" + RAW
    segment = b"\xff\x64" + (len(text) + 2).to_bytes(2, "big") + text
    at = frame.index(b"\xff\x90")
    if where == "main":
        return frame[:at] + segment + frame[at:]
    if where == "behind":
        return frame.rstrip(b"\0") + RAW
    length = int.from_bytes(frame[at + 6 : at + 10], "big")
    longer = (length + len(segment)).to_bytes(4, "big") if length else bytes(4)
    return frame[: at + 6] + longer + frame[at + 10 : at + 12] + segment + frame[at + 12 :]


def test_a_comment_in_a_truncated_tile_is_removed(real: Real) -> None:
    frame = first_frame(real("MR_small_jp2klossless.dcm"))

    assert RAW not in jpeg2000.strip_jpeg2000_metadata(_commented(frame, "tile")[:-400])


def test_jp2_boxes_are_unwrapped(real: Real, release: Release) -> None:
    def box(kind: bytes, body: bytes) -> bytes:
        return (8 + len(body)).to_bytes(4, "big") + kind + body

    data_set = real("MR_small_jp2klossless.dcm")
    stream = first_frame(data_set)
    boxes = [box(b"jP  ", b"\r\n\x87\n"), box(b"ftyp", b"jp2 \0\0\0\0jp2 "), box(b"uuid", bytes(16) + RAW)]
    with_frame(data_set, b"".join(boxes) + box(b"jp2c", stream) + box(b"xml ", RAW))

    _, out, released = release(data_set)

    assert RAW not in out
    assert np.array_equal(released.pixel_array, real("MR_small_jp2klossless.dcm").pixel_array)


def test_jpeg_xl_boxes_are_removed() -> None:
    def box(kind: bytes, body: bytes) -> bytes:
        return (8 + len(body)).to_bytes(4, "big") + kind + body

    head = b"\0\0\0\x0cJXL \x0d\x0a\x87\x0a" + box(b"ftyp", b"jxl \0\0\0\0jxl ")
    code = box(b"jxlc", b"\xff\x0a123")
    frame = (
        head + box(b"Exif", RAW) + box(b"xml ", RAW) + code + box(b"jumb", RAW) + box(b"brob", RAW) + RAW[:5]
    )

    assert jpegxl.strip_jpegxl_metadata(frame) == head + code
    with pytest.raises(Quarantined):
        jpegxl.strip_jpegxl_metadata(head + box(b"jbrd", RAW) + code)


def test_rle_padding_is_cleared_and_the_image_is_kept(real: Real, release: Release) -> None:
    data_set = real("MR_small_RLE.dcm")
    frame = bytearray(first_frame(data_set))
    frame[64 - len(RAW) : 64] = RAW
    with_frame(data_set, bytes(frame) + RAW + b"\0")

    _, out, released = release(data_set)

    assert RAW not in out
    assert np.array_equal(released.pixel_array, real("MR_small_RLE.dcm").pixel_array)


def test_data_beyond_the_image_in_a_last_rle_run_is_removed() -> None:
    header = struct.pack("<16I", 1, 64, *[0] * 14)
    body = bytes([len(RAW) + 3]) + b"\7\7\7\7" + RAW

    assert rle.clear_slack(header + body, 4, 1) == header + body[:5] + bytes(len(RAW))


def test_pixels_after_the_last_row_are_removed(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.PixelData += RAW + b"\0"

    _, out, released = release(data_set)

    assert RAW not in out
    assert released.PixelData == real("CT_small.dcm").PixelData


@pytest.mark.parametrize(
    "name", ["CT_small.dcm", "JPEG-lossy.dcm", "MR_small_RLE.dcm", "MR_small_jp2klossless.dcm"]
)
def test_frames_beyond_the_declared_number_are_cut_off(name: str, real: Real, release: Release) -> None:
    data_set, expected = real(name), real(name)
    data_set.NumberOfFrames = expected.NumberOfFrames = 2
    if name == "CT_small.dcm":
        data_set.PixelData, expected.PixelData = data_set.PixelData * 3, data_set.PixelData * 2
    else:
        frame = first_frame(data_set)
        with_frame(data_set, frame, frame, frame)
        with_frame(expected, frame, frame)

    done, _, released = release(data_set)

    assert done.record.rules["X:surplus-frames"] == 1
    assert released.PixelData == release(expected)[2].PixelData


@pytest.mark.parametrize("name", ["MR_small.dcm", "MR_small_bigendian.dcm"])
def test_bits_above_high_bit_are_cleared(name: str, real: Real, release: Release) -> None:
    data_set = real(name)
    order = "<u2" if name == "MR_small.dcm" else ">u2"
    data_set.BitsStored, data_set.HighBit, data_set.PixelRepresentation = 12, 11, 0
    cells = np.frombuffer(data_set.PixelData, order) & 0x0FFF
    hidden = np.resize(np.frombuffer(RAW, np.uint8) & 0x0F, cells.shape).astype(order) << 12
    data_set.PixelData = (cells | hidden).astype(order).tobytes()

    done, _, released = release(data_set)

    assert np.array_equal(np.frombuffer(released.PixelData, order), cells)
    assert done.record.rules["C:bits-outside-bits-stored"] == 1


def test_large_pixels_are_returned_as_spans_of_the_source(
    real: Real, load_bytes: Load, sanitize: Sanitize
) -> None:
    data_set = real("CT_small.dcm")
    data_set.Rows = data_set.Columns = 1024
    data_set.PixelData = bytes(range(256)) * (2 * 1024 * 1024 // 256)
    source = load_bytes(data_set)

    done, out = sanitize(source)

    assert any(isinstance(piece, Copy) and piece.length > 2_000_000 for piece in done.files[0].pieces)
    assert element_value(out) == data_set.PixelData


def test_a_color_profile_keeps_numbers_and_loses_texts() -> None:
    profile = (FOLDER / "crayons.icc").read_bytes()

    cleaned = clean_profile(profile)

    assert cleaned is not None
    assert len(cleaned) == len(profile)
    assert b"rayon" not in cleaned
    assert clean_profile(profile[:200]) is None


def bomb(real: Real, load_bytes: Load, size: int) -> bytes:
    data = load_bytes(real("image_dfl.dcm"))
    meta = 144 + int.from_bytes(data[140:144], "little")
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    head = struct.pack("<HH2sHI", 0x0009, 0x0010, b"UN", 0, size)
    body = deflater.compress(head)
    block = bytes(1 << 20)
    for _ in range(size >> 20):
        body += deflater.compress(block)
    return data[:meta] + body + deflater.flush()


def test_a_deflate_bomb_is_rejected_quickly_with_little_memory(
    real: Real, load_bytes: Load, subkeys: SubKeys, make_policy: Callable[..., Policy]
) -> None:
    data = bomb(real, load_bytes, 200 << 20)
    options, limits = {"clean_pixel_data": False}, {"inflated_bytes": 100 << 20}
    policy = make_policy("research", dicom={"options": options, "limits": limits})
    tracemalloc.start()
    start = time.process_time()

    seen = inspect_dicom(data, policy.dicom.limits)
    done = DicomSanitizer(policy, subkeys)(data, Context("object:x", "x"))

    took, (_, most) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen.rule == "inflated-too-large"
    assert [finding.rule for finding in done.record.findings] == ["inflated-too-large"]
    assert most < 16 << 20
    assert took < 5


@pytest.mark.filterwarnings("ignore")
def test_bytes_after_the_deflated_data_are_removed(load_bytes: Load, release: Release) -> None:
    _, out, released = release(load_bytes("image_dfl.dcm") + RAW)

    assert RAW not in out
    assert released.pixel_array.size


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        "ExplVR_LitEndNoMeta.dcm",
        "ExplVR_BigEndNoMeta.dcm",
        "ExplVR_BigEnd.dcm",
        "SC_rgb_small_odd_big_endian.dcm",
    ],
)
def test_raw_and_big_endian_data_sets_become_part_10_files(name: str, release: Release) -> None:
    _, out, released = release(name)

    assert out[128:132] == b"DICM"
    assert released.file_meta.MediaStorageSOPInstanceUID == released.SOPInstanceUID


def test_implicit_data_declared_explicit_is_read_as_implicit(load_bytes: Load, release: Release) -> None:
    data = load_bytes("MR_small_implicit.dcm")
    lying = data.replace(b"1.2.840.10008.1.2\0", b"1.2.840.10008.1.2.1\0", 1)
    shift = len(lying) - len(data)
    at = lying.index(b"\x02\x00\x10\x00UI") + 6
    lying = lying[:at] + struct.pack("<H", struct.unpack_from("<H", lying, at)[0] + shift) + lying[at + 2 :]

    _, _, released = release(lying)

    assert released.file_meta.TransferSyntaxUID == "1.2.840.10008.1.2"
    assert released.pixel_array.shape == (64, 64)
