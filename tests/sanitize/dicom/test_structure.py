"""Broken, deep, long and contradictory structures: released completely or quarantined with a rule."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom
from medsanitize.sanitize.result import Outcome, Sanitized
from pydicom.dataset import Dataset

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Sanitize = Callable[..., tuple[Sanitized, bytes]]
Load = Callable[..., bytes]
MakePolicy = Callable[..., Policy]

ITEM = struct.pack("<HHI", 0xFFFE, 0xE000, 0xFFFFFFFF)
ITEM_END = struct.pack("<HHI", 0xFFFE, 0xE00D, 0)
SEQUENCE = struct.pack("<HH2sHI", 0x0008, 0x1115, b"SQ", 0, 0xFFFFFFFF)
SEQUENCE_END = struct.pack("<HHI", 0xFFFE, 0xE0DD, 0)
NAME = struct.pack("<HH2sH", 0x0010, 0x0010, b"PN", 10) + b"Grzbowska "


def rules(done: Sanitized) -> list[str]:
    return [finding.rule for finding in done.record.findings]


def before_patient(data: bytes, raw: bytes) -> bytes:
    """Insert ``raw`` where group 0008 of an Explicit VR Little Endian file ends."""
    at = data.index(struct.pack("<HH2s", 0x0009, 0x0010, b"LO"))
    return data[:at] + raw + data[at:]


def undefined(depth: int) -> bytes:
    return (SEQUENCE + ITEM) * depth + NAME + (ITEM_END + SEQUENCE_END) * depth


def defined(depth: int) -> bytes:
    sizes = [len(NAME)]
    for _ in range(depth):
        sizes.append(sizes[-1] + 20)
    heads = [
        struct.pack("<HH2sHI", 0x0008, 0x1115, b"SQ", 0, size + 8) + struct.pack("<HHI", 0xFFFE, 0xE000, size)
        for size in reversed(sizes[:-1])
    ]
    return b"".join(heads) + NAME


@pytest.mark.parametrize("nest", [undefined, defined])
@pytest.mark.parametrize("depth", [1, 30, 60])
def test_nesting_within_the_limit_is_released_clean(
    depth: int, nest: Callable[[int], bytes], load_bytes: Load, release: Release
) -> None:
    _, out, _ = release(before_patient(load_bytes("CT_small.dcm"), nest(depth)))

    assert b"Grzbowska" not in out


@pytest.mark.parametrize("nest", [undefined, defined])
@pytest.mark.parametrize("depth", [66, 150, 250, 1000, 100_000])
def test_nesting_beyond_the_limit_is_quarantined_with_its_rule(
    depth: int, nest: Callable[[int], bytes], load_bytes: Load, sanitize: Sanitize
) -> None:
    data = before_patient(load_bytes("CT_small.dcm"), nest(depth))
    start = time.process_time()

    done, out = sanitize(data)

    assert rules(done) == ["too-deep"]
    assert out == b""
    assert time.process_time() - start < 5


@pytest.mark.parametrize("depth", [150, 1000, 50_000])
def test_private_nesting_is_quarantined_too(depth: int, load_bytes: Load, sanitize: Sanitize) -> None:
    private = SEQUENCE.replace(b"\x08\x00\x15\x11", b"\x09\x00\x15\x10")
    nested = (private + ITEM) * depth + NAME + (ITEM_END + SEQUENCE_END) * depth

    done, _ = sanitize(before_patient(load_bytes("CT_small.dcm"), nested))

    assert rules(done) == ["too-deep"]


@pytest.mark.parametrize(
    "name",
    ["CT_small.dcm", "MR_small_implicit.dcm", "MR_small_bigendian.dcm", "JPEG-lossy.dcm", "MR_small_RLE.dcm"],
)
def test_a_truncated_object_is_released_only_if_just_padding_is_missing(
    name: str, load_bytes: Load, sanitize: Sanitize
) -> None:
    data = load_bytes(name)
    _, whole = sanitize(data)

    for end in range(0, len(data), 997):
        done, out = sanitize(data[:end])
        # Cut between two elements before the pixel description, the file is a valid header-only object.
        header_alone = done.record.rows is None and b"\xe0\x7f" not in out
        assert done.record.outcome is Outcome.QUARANTINED or out == whole or header_alone, end


@pytest.mark.parametrize("name", ["reportsi.dcm", "rtplan.dcm", "image_dfl.dcm"])
def test_an_object_truncated_within_an_element_is_never_released(
    name: str, load_bytes: Load, sanitize: Sanitize
) -> None:
    data = load_bytes(name)

    _, whole = sanitize(data)

    released = 0
    for end in range(len(data) - 40, len(data) - 1):
        done, out = sanitize(data[:end])
        released += done.record.outcome is Outcome.RELEASED and out != whole

    # A cut between two elements cannot be detected if no pixel data follows.
    assert released <= 2


@pytest.mark.parametrize("name", ["MR_truncated.dcm", "rtplan_truncated.dcm"])
def test_truncated_files_are_quarantined(name: str, sanitize: Sanitize) -> None:
    done, out = sanitize(name)

    assert rules(done)[0] in ("truncated", "length-past-end")
    assert out == b""


@pytest.mark.parametrize("length", [0xFFFFFFF0, 0x7FFFFFFF, 60_000])
def test_lengths_beyond_the_end_are_quarantined(length: int, load_bytes: Load, sanitize: Sanitize) -> None:
    lying = struct.pack("<HH2sHI", 0x0008, 0x1115, b"SQ", 0, length)

    done, _ = sanitize(before_patient(load_bytes("CT_small.dcm"), lying))

    assert rules(done) == ["length-past-end"]


def test_an_item_longer_than_its_sequence_is_quarantined(load_bytes: Load, sanitize: Sanitize) -> None:
    item = struct.pack("<HHI", 0xFFFE, 0xE000, 400) + NAME
    lying = struct.pack("<HH2sHI", 0x0008, 0x1115, b"SQ", 0, len(item)) + item

    done, _ = sanitize(before_patient(load_bytes("CT_small.dcm"), lying))

    assert rules(done) == ["length-past-end"]


def test_too_many_elements_are_quarantined_quickly(load_bytes: Load, sanitize: Sanitize) -> None:
    tiny = struct.pack("<HH2sH", 0x0008, 0x1030, b"LO", 0) * 1_000_001
    start = time.process_time()

    done, _ = sanitize(before_patient(load_bytes("CT_small.dcm"), tiny))

    assert rules(done) == ["too-many-elements"]
    assert time.process_time() - start < 10


def test_private_creators_count_as_elements(
    load_bytes: Load, sanitize: Sanitize, make_policy: MakePolicy
) -> None:
    tiny = b"".join(struct.pack("<HH2sH", 0x0009 + 2 * n, 0x0011, b"LO", 0) for n in range(2000))
    options, limits = {"clean_pixel_data": False}, {"elements": 1000}

    done, _ = sanitize(
        before_patient(load_bytes("CT_small.dcm"), tiny),
        make_policy("research", dicom={"options": options, "limits": limits}),
    )

    assert rules(done) == ["too-many-elements"]


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"object_bytes": 1000}, "object-too-large"),
        ({"header_bytes": 1000}, "header-too-large"),
        ({"elements": 20}, "too-many-elements"),
    ],
)
def test_limits_have_named_rules(
    limits: dict[str, int], rule: str, sanitize: Sanitize, make_policy: MakePolicy
) -> None:
    policy = make_policy("research", dicom={"options": {"clean_pixel_data": False}, "limits": limits})

    done, _ = sanitize("CT_small.dcm", policy)

    assert rules(done) == [rule]


def test_the_header_limit_does_not_apply_to_large_pixels(release: Release, make_policy: MakePolicy) -> None:
    limits = {"header_bytes": 8000}
    policy = make_policy("research", dicom={"options": {"clean_pixel_data": False}, "limits": limits})

    _, _, out = release("CT_small.dcm", policy)

    assert out.pixel_array.shape == (128, 128)


def test_undefined_lengths_become_defined(load_bytes: Load, release: Release) -> None:
    _, out, released = release(before_patient(load_bytes("CT_small.dcm"), undefined(3)))

    assert ITEM_END not in out
    assert not released[0x00081115].is_undefined_length


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 200, b"hello", b"DICM", bytes(128) + b"DICM", b"\x08\0", bytes(range(256))]
)
def test_a_file_without_an_image_is_never_released_and_never_raises(junk: bytes, sanitize: Sanitize) -> None:
    done, out = sanitize(junk)

    assert done.record.outcome is Outcome.QUARANTINED
    assert out == b""
    assert inspect_dicom(junk).kind != "dicom" or junk == bytes(128) + b"DICM"


@pytest.mark.parametrize("nest", [undefined, defined])
def test_names_are_collected_at_any_depth(nest: Callable[[int], bytes], load_bytes: Load) -> None:
    seen = inspect_dicom(before_patient(load_bytes("CT_small.dcm"), nest(20)))

    assert ("name", "Grzbowska") in {(known.category, known.value) for known in seen.known}


def test_names_are_collected_from_implicit_and_un_sequences(load_bytes: Load) -> None:
    name = struct.pack("<HHI", 0x0010, 0x0010, 10) + b"Grzbowska "
    item = struct.pack("<HHI", 0xFFFE, 0xE000, len(name)) + name
    unknown = struct.pack("<HH2sHI", 0x0008, 0x1115, b"UN", 0, len(item)) + item
    implicit = load_bytes("MR_small_implicit.dcm")
    at = implicit.index(struct.pack("<HH", 0x0010, 0x0010))
    sequence = struct.pack("<HHI", 0x0008, 0x1115, len(item)) + item

    for data in (
        before_patient(load_bytes("CT_small.dcm"), unknown),
        implicit[:at] + sequence + implicit[at:],
    ):
        assert "Grzbowska" in {known.value for known in inspect_dicom(data).known}


def test_names_in_items_use_the_inherited_character_set(load_bytes: Load) -> None:
    text = "Gržbówska ".encode()
    name = struct.pack("<HH2sH", 0x0010, 0x0010, b"PN", len(text)) + text
    item = struct.pack("<HHI", 0xFFFE, 0xE000, len(name)) + name
    data = load_bytes("CT_small.dcm").replace(b"ISO_IR 100", b"ISO_IR 192")

    seen = inspect_dicom(
        before_patient(data, struct.pack("<HH2sHI", 0x0008, 0x1115, b"SQ", 0, len(item)) + item)
    )

    assert "Gržbówska" in {known.value for known in seen.known}


@pytest.mark.parametrize("frames", ["²", "1e9", "-5", "999999999999", "1\\2", "٣"])
def test_an_odd_number_of_frames_does_not_raise(frames: str, load_bytes: Load, sanitize: Sanitize) -> None:
    raw = frames.encode("utf-8") if frames == "٣" else frames.encode("latin-1")
    raw += b" " * (len(raw) % 2)
    data = load_bytes("CT_small.dcm")
    at = data.index(struct.pack("<HH2s", 0x0028, 0x0010, b"US"))

    done, _ = sanitize(data[:at] + struct.pack("<HH2sH", 0x0028, 0x0008, b"IS", len(raw)) + raw + data[at:])

    assert done.record.outcome in (Outcome.RELEASED, Outcome.QUARANTINED)


def test_only_an_instance_with_two_uids_is_quarantined(load_bytes: Load, sanitize: Sanitize) -> None:
    data = load_bytes("CT_small.dcm")
    place = data.index(struct.pack("<HH2s", 0x0008, 0x0018, b"UI")) + 8

    done, _ = sanitize(data[:place] + b"1.2.3\\4" + data[place + 7 :])

    assert [finding.rule for finding in done.record.findings] == ["multi-valued-uid"]
