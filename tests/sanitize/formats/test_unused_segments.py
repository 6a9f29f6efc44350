"""Segments of encoded frames that decoders ignore leak nothing, and the image is kept."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from medsanitize.sanitize.formats import jpeg2000, jpegxl
from medsanitize.sanitize.formats.jpeg import markers
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import Outcome, Sanitized
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames

Real = Callable[[str], Dataset]
Sanitize = Callable[..., tuple[Sanitized, bytes]]
Release = Callable[..., tuple[Sanitized, bytes, Dataset]]

RAW = b"Grzbowska Anna 1951"
BASELINE, LS = "SC_rgb_jpeg_dcmtk.dcm", "MR_small_jpeg_ls_lossless.dcm"
LOSSLESS = "lossless process"


def first_frame(data_set: Dataset) -> bytes:
    return next(generate_frames(data_set.PixelData, number_of_frames=int(data_set.get("NumberOfFrames", 1))))


def with_frame(data_set: Dataset, *frames: bytes) -> Dataset:
    data_set.PixelData = encapsulate(list(frames))
    data_set["PixelData"].is_undefined_length = True
    return data_set


def segment(marker: int, body: bytes = RAW) -> bytes:
    return b"\xff" + bytes([marker]) + (len(body) + 2).to_bytes(2, "big") + body


def clean(data_set: Dataset, frame: bytes, sanitize: Sanitize) -> bytes | None:
    """Released bytes of the data set with this frame; empty if it was quarantined."""
    done, out = sanitize(with_frame(data_set, frame))
    return out if done.record.outcome is Outcome.RELEASED else None


@pytest.mark.parametrize("name", [BASELINE, LS])
@pytest.mark.parametrize("marker", [0xF7, 0xF8, 0xDC, 0xDD, 0xDE, 0xDF, 0xCC, 0xDB, 0xC4, 0xC8, 0xF0])
def test_no_jpeg_segment_leaks_text(marker: int, name: str, real: Real, sanitize: Sanitize) -> None:
    data_set = real(name)
    frame = first_frame(data_set)

    out = clean(data_set, frame[:2] + segment(marker) + frame[2:], sanitize)

    assert out is None or RAW not in out


def frame_of(name: str, real: Real) -> bytes:
    if name != LOSSLESS:
        return first_frame(real(name)).rstrip(b"\0")
    codes = bytes([0, 0, 2, *[0] * 14, 0, 1])
    head = segment(0xC3, b"\x08\0\1\0\1\1\1\x11\0") + segment(0xC4, codes)
    return b"\xff\xd8" + head + segment(0xDA, b"\1\1\0\1\0\0") + b"\x3f\xff\xd9"


def quantiser(number: int) -> bytes:
    return bytes([number]) + RAW + bytes([9] * (64 - len(RAW)))


def huffman(kind: int, number: int) -> bytes:
    letters = bytes(dict.fromkeys(RAW))
    return bytes([kind << 4 | number, 0, 0, 0, 0, 0, len(letters), *[0] * 10]) + letters


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        (BASELINE, segment(0xDB, quantiser(3))),
        (BASELINE, segment(0xDB, quantiser(0))),
        (LOSSLESS, segment(0xDB, quantiser(0))),
        (LOSSLESS, segment(0xDD, RAW[:2])),
        (BASELINE, segment(0xC4, huffman(1, 3))),
        (LOSSLESS, segment(0xC4, huffman(1, 0))),
        (LS, segment(0xC4, huffman(1, 0))),
        (LS, segment(0xDB, quantiser(0))),
        (BASELINE, segment(0xCC, b"\0G\1r\x10z")),
        (BASELINE, segment(0xF8)),
    ],
)
def test_a_jpeg_table_unused_by_scans_is_removed(name: str, extra: bytes, real: Real) -> None:
    frame = frame_of(name, real)
    again = extra[:2] + b"\0\4\0\0" if extra[1] == 0xDD else b""  # a second interval overwrites the first

    assert markers.strip_jpeg_metadata(frame[:2] + extra + again + frame[2:]) == frame[:2] + again + frame[2:]


def test_a_used_table_next_to_an_unused_one_is_kept(real: Real) -> None:
    frame = first_frame(real(BASELINE)).rstrip(b"\0")
    at = frame.index(b"\xff\xdb")
    size = int.from_bytes(frame[at + 2 : at + 4], "big")
    more = segment(0xDB, frame[at + 4 : at + 2 + size] + quantiser(3))

    assert markers.strip_jpeg_metadata(frame[:at] + more + frame[at + 2 + size :]) == frame


def test_adobe_flags_are_rewritten_and_the_transform_is_kept(real: Real) -> None:
    frame = first_frame(real(BASELINE)).rstrip(b"\0")

    cleaned = markers.strip_jpeg_metadata(frame[:2] + segment(0xEE, b"AdobeGrzbow\0") + frame[2:])

    assert cleaned.startswith(frame[:2] + segment(0xEE, b"Adobe\0\x64\0\0\0\0\0"))


@pytest.mark.parametrize(
    "marker", [0x63, 0x6F, 0x5F, 0x60, 0x57, 0x55, 0x58, 0x61, 0x56, 0x59, 0x5E, 0x5D, 0x53]
)
@pytest.mark.parametrize("where", ["main", "tile"])
def test_no_jpeg_2000_segment_leaks_text(where: str, marker: int, real: Real, sanitize: Sanitize) -> None:
    data_set = real("MR_small_jp2klossless.dcm")
    frame = first_frame(data_set)
    at = frame.index(b"\xff\x90")
    extra = segment(marker, b"\1" + RAW)
    if where == "main":
        changed = frame[:at] + extra + frame[at:]
    else:
        length = int.from_bytes(frame[at + 6 : at + 10], "big")
        longer = (length + len(extra)).to_bytes(4, "big") if length else bytes(4)
        changed = frame[: at + 6] + longer + frame[at + 10 : at + 12] + extra + frame[at + 12 :]

    out = clean(data_set, changed, sanitize)

    assert out is None or RAW not in out


@pytest.mark.filterwarnings("ignore")
def test_bytes_after_the_end_are_removed_if_the_last_tile_has_no_length(real: Real, release: Release) -> None:
    data_set = real("MR_small_jp2klossless.dcm")
    frame = first_frame(data_set).rstrip(b"\0")
    at = frame.index(b"\xff\x90")
    open_end = frame[: at + 6] + bytes(4) + frame[at + 10 :]

    _, out, released = release(with_frame(data_set, open_end + RAW + b"\xff\xd9"))

    assert RAW not in out
    assert np.array_equal(released.pixel_array, real("MR_small_jp2klossless.dcm").pixel_array)


def test_tile_lengths_are_kept_only_if_correct(real: Real) -> None:
    frame = first_frame(real("MR_small_jp2klossless.dcm")).rstrip(b"\0")
    plain = jpeg2000.strip_jpeg2000_metadata(frame)
    at = plain.index(b"\xff\x90")
    length = len(plain) - at - 2
    true = plain[:at] + segment(0x55, struct.pack(">BBHI", 0, 0x60, 0, length)) + plain[at:]
    false = plain[:at] + segment(0x55, struct.pack(">BBHI", 0, 0x60, 0, length + 1)) + plain[at:]

    assert jpeg2000.strip_jpeg2000_metadata(true) == true
    assert jpeg2000.strip_jpeg2000_metadata(false) == plain


def test_jpeg_xl_types_and_indexes_leak_nothing() -> None:
    def box(kind: bytes, body: bytes) -> bytes:
        return (8 + len(body)).to_bytes(4, "big") + kind + body

    head = b"\0\0\0\x0cJXL \x0d\x0a\x87\x0a"
    code = box(b"jxlc", b"\xff\x0a123")

    cleaned = jpegxl.strip_jpegxl_metadata(head + box(b"ftyp", b"jxl " + RAW) + box(b"jxli", RAW) + code)

    assert cleaned == head + box(b"ftyp", b"jxl \0\0\0\0jxl ") + code


@pytest.mark.parametrize("name", ["MR_small_RLE.dcm", "SC_rgb_rle.dcm"])
def test_an_additional_rle_segment_is_quarantined(name: str, real: Real, sanitize: Sanitize) -> None:
    data_set = real(name)
    frame = bytearray(first_frame(data_set))
    count = int.from_bytes(frame[:4], "little")
    frame[:4] = (count + 1).to_bytes(4, "little")
    frame[4 + 4 * count : 8 + 4 * count] = len(frame).to_bytes(4, "little")

    done, _ = sanitize(with_frame(data_set, bytes(frame) + bytes([len(RAW) - 1]) + RAW))

    assert [finding.rule for finding in done.record.findings] == ["rle-structure"]


def test_a_fragment_between_two_frames_leaks_nothing(real: Real, sanitize: Sanitize) -> None:
    data_set = real(BASELINE)
    frame = first_frame(data_set)
    data_set.NumberOfFrames = 2

    out = clean(data_set, frame, sanitize)
    done, both = sanitize(with_frame(data_set, frame, RAW + b"\0", frame))

    assert out is None or RAW not in out
    assert done.record.outcome is Outcome.QUARANTINED or RAW not in both


def test_a_frame_without_a_scan_is_quarantined() -> None:
    with pytest.raises(Quarantined):
        markers.strip_jpeg_metadata(b"\xff\xd8" + segment(0xC0, b"\x08\0\1\0\1\1\1\x11\0") + b"\xff\xd9")
