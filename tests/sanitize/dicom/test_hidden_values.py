"""Values longer than declared, and numbers that decode to text, leak nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.dicom.dates import Shift, shift_date
from medsanitize.sanitize.dicom.dummies import dummy_value
from medsanitize.sanitize.dicom.object_state import ObjectState, SubjectState
from medsanitize.sanitize.dicom.sample_data import (
    LOOKUP_TABLES,
    spells_text,
    trim_to_counts,
    unsigned_numbers,
)
from medsanitize.sanitize.dicom.text_rules import TextRules
from medsanitize.sanitize.formats.icc import clean_profile
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import Sanitized
from medsanitize.sanitize.text.vocabulary_filter import NOTHING_FORBIDDEN
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

Real = Callable[[str], Dataset]
Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
MakePolicy = Callable[..., Policy]

RAW = b"Grzbowska Anna 1951?"
WAVES = "waveform_ecg.dcm"


def words(text: bytes = RAW) -> list[int]:
    return list(struct.unpack(f"<{len(text) // 2}H", text))


def lut(bits: int, data: list[int]) -> Dataset:
    table = Dataset()
    table.LUTDescriptor = [4, 0, bits]
    table.add_new(0x00283006, "US", data)
    return table


def test_a_lookup_table_is_truncated_after_its_last_entry(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.VOILUTSequence = Sequence([lut(16, [0, 1, 2, 3, *words()])])

    _, out, released = release(data_set)

    assert RAW not in out
    assert released.VOILUTSequence[0].LUTData == [0, 1, 2, 3]


def palette(ds: Dataset, entries: bytes, bits: int) -> None:
    count = len(entries) // 2
    for number in (1, 2, 3):
        ds.add_new(0x00281100 + number, "US", [count, 0, bits])
        ds.add_new(0x00281200 + number, "OW", entries)


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        (b"Quixleyvane Zyphora born in Graz", 16),
        (b"".join(bytes([letter, 0]) for letter in b"Quixleyvane Zyphora born in Graz"), 8),
        (b"".join(bytes([letter, letter]) for letter in b"Quixleyvane Zyphora born in Graz"), 16),
        (b"quixleyvane zyphora "[::-1] * 3, 16),
    ],
)
def test_a_lookup_table_of_letters_is_removed(text: bytes, bits: int, real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    palette(data_set, text, bits)

    done, out, _ = release(data_set)

    assert text not in out
    assert done.record.rules["X:text-in-numbers"] == 3


def test_a_word_of_the_patients_name_is_not_kept_as_a_lookup_table(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.PatientName = "Thornquist^Ysolde"
    table = lut(16, words(b"Thornquist"))
    table.LUTDescriptor = [5, 0, 16]
    data_set.VOILUTSequence = Sequence([table])

    _, out, _ = release(data_set)

    assert b"Thornquist" not in out


@pytest.mark.parametrize("step", [1, 3, 7, 37, 89, 257, 300])
@pytest.mark.parametrize("bits", [8, 16])
def test_gradients_are_no_text(step: int, bits: int) -> None:
    rising = [(number * step) % 65536 for number in range(256)]
    there_and_back = rising[::2] + rising[::-2]
    for entries in (rising, there_and_back, sorted(rising)):
        data = struct.pack("<256H", *(entry % 256 if bits == 8 else entry for entry in entries))
        assert not spells_text(data, ())


def test_real_palettes_are_no_text() -> None:
    folder = Path(str(get_testdata_file("examples_palette.dcm"))).parent
    paths = [folder / "examples_palette.dcm", *(folder.parent / "palettes").glob("*.dcm")]
    tables = [
        data_set[tag].value
        for data_set in map(pydicom.dcmread, paths)
        for tag in LOOKUP_TABLES & {int(one.tag) for one in data_set}
    ]

    assert len(tables) > 12
    assert not [table for table in tables if spells_text(table, ())]


def test_a_lookup_table_without_a_descriptor_has_no_entries(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    table = lut(16, words())
    del table.LUTDescriptor
    data_set.VOILUTSequence = Sequence([lut(16, [1, 2, 3, 4]), table])

    _, out, _ = release(data_set)

    assert RAW not in out


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (bytes([1, 2, 3, 4]), 4),
        (bytes([1, 2, 3, 4]) + RAW, 4),
        (bytes([1, 0, 2, 0, 3, 0, 4, 0]) + RAW, 8),
        (bytes([1, 1, 2, 2, 3, 3, 4, 4]) + RAW, 8),
    ],
)
def test_8_bit_entries_fill_a_byte_or_a_word(data: bytes, kept: int) -> None:
    counts = {0x00281101: (4, 0, 8)}

    assert trim_to_counts(counts, 0x00281201, data, big=False) == data[:kept]


def test_palettes_of_real_files_are_unchanged(real: Real, release: Release) -> None:
    before = real("examples_palette.dcm")

    _, _, released = release(before)

    for color in ("Red", "Green", "Blue"):
        keyword = f"{color}PaletteColorLookupTableData"
        assert released[keyword].value == real("examples_palette.dcm")[keyword].value


# Two entries, a linear segment of three, and the first segment again: seven entries.
SEGMENTS = struct.pack("<11H", 0, 2, 7, 9, 1, 3, 30, 2, 1, 0, 0)


def test_a_segmented_table_is_truncated_after_its_last_entry() -> None:
    counts = {0x00281101: (7, 0, 16)}

    assert trim_to_counts(counts, 0x00281221, SEGMENTS + RAW, big=False) == SEGMENTS


@pytest.mark.parametrize("entries", [6, 8])
def test_a_segmented_table_with_a_wrong_length_is_removed(entries: int) -> None:
    assert trim_to_counts({0x00281101: (entries, 0, 16)}, 0x00281221, SEGMENTS + RAW, big=False) is None


def test_counts_are_read_in_their_byte_order() -> None:
    assert unsigned_numbers(0x003A0010, b"\0\0\1\0", big=True) == (256,)


def test_a_waveform_is_truncated_after_its_last_sample(real: Real, release: Release) -> None:
    data_set = real(WAVES)
    whole = data_set.WaveformSequence[0].WaveformData
    data_set.WaveformSequence[0].WaveformData = whole + RAW

    _, out, released = release(data_set)

    assert RAW not in out
    assert released.WaveformSequence[0].WaveformData == whole


def icc(tag: bytes, body: bytes, signature: bytes = b"rTRC") -> bytes:
    """A profile of one tag."""
    head = bytearray(128)
    head[:4] = (144 + 4 + len(body) - 4).to_bytes(4, "big")
    head[12:24], head[36:40] = b"mntrRGB XYZ ", b"acsp"
    data = tag + bytes(4) + body
    head[:4] = (144 + len(data)).to_bytes(4, "big")
    return bytes(head) + struct.pack(">I4sII", 1, signature, 144, len(data)) + data


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"XYZ ", bytes(12) + RAW),
        (b"curv", struct.pack(">IHH", 2, 0, 9) + RAW),
        (b"para", bytes(4) + b"\0\1\0\0" + RAW),
        (b"mluc", struct.pack(">II", 0, 12) + RAW),
        (b"sf32", bytes(36) + RAW),
        (b"sig ", RAW),
        (b"mft2", bytes([1, 1, 2, 0]) + bytes(36) + struct.pack(">HH6H", 2, 2, *range(6)) + RAW),
        (b"text", RAW),
        (b"ui08", RAW),
    ],
)
def test_a_color_profile_contains_only_its_declared_tags(kind: bytes, body: bytes) -> None:
    profile = icc(kind, body)

    cleaned = clean_profile(profile)

    assert cleaned is not None
    assert b"Grz" not in cleaned
    assert b"Anna" not in cleaned


def test_an_unregistered_tag_is_removed_from_a_color_profile() -> None:
    cleaned = clean_profile(icc(b"XYZ ", bytes(12), b"Anna"))

    assert cleaned is not None
    assert b"Anna" not in cleaned


@pytest.mark.parametrize("place", [12, 16, 20, 44, 64])
def test_a_color_profile_with_text_in_its_header_is_rejected(place: int) -> None:
    profile = bytearray(icc(b"XYZ ", bytes(12)))
    profile[place : place + 4] = b"Anna"

    assert clean_profile(bytes(profile)) is None


@pytest.mark.filterwarnings("ignore")
def test_a_transform_keeps_only_its_curves_and_grid() -> None:
    curve = b"para" + bytes(4) + b"\0\0\0\0" + b"\0\1\0\0"
    offsets = struct.pack(">5I", 32, 0, 0, 32 + 16 + 20, 0)
    grid = bytes([2]) + b"Grzbowska Anna?" + b"\1\0\0\0" + bytes([5, 6])
    profile = icc(b"mAB ", bytes([1, 1, 0, 0]) + offsets + curve + RAW + grid, b"A2B0")

    cleaned = clean_profile(profile)

    assert cleaned is not None
    assert b"Anna" not in cleaned
    assert cleaned[144 + 32 : 144 + 48] == curve
    assert cleaned[-2:] == bytes([5, 6])


@pytest.mark.parametrize(
    ("tag", "vr", "value"),
    [
        (0x00720078, "UL", [int.from_bytes(RAW[at : at + 4], "little") for at in range(0, 20, 4)]),
        (0x0072007A, "US", words()),
        (0x00720074, "FD", list(struct.unpack("<2d", RAW[:16]))),
        (0x00720064, "IS", [str(byte) for byte in RAW]),
        (0x00720072, "DS", [str(byte) for byte in RAW]),
    ],
)
def test_numeric_elements_of_other_objects_are_removed(
    tag: int, vr: str, value: list[object], real: Real, release: Release
) -> None:
    data_set = real("CT_small.dcm")
    data_set.add_new(tag, vr, value)

    _, _, released = release(data_set)

    assert tag not in released


def test_numbers_that_decode_to_text_are_removed_even_where_allowed(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    table = lut(16, words(RAW))
    table.LUTDescriptor = [len(RAW) // 2, 0, 16]
    data_set.VOILUTSequence = Sequence([table])

    _, out, _ = release(data_set)

    assert RAW not in out


@pytest.mark.parametrize(
    ("uid", "stays"),
    [("2.16.840.1.113883.6.96", True), ("1.2.840.10008.2.16.4", True), ("1.2.276.1234567.8", False)],
)
def test_a_private_coding_scheme_is_remapped(uid: str, stays: bool, real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    scheme = Dataset()
    scheme.CodingSchemeDesignator, scheme.CodingSchemeUID = "99XYZ", uid
    data_set.CodingSchemeIdentificationSequence = Sequence([scheme])

    _, _, released = release(data_set)

    assert (released.CodingSchemeIdentificationSequence[0].CodingSchemeUID == uid) is stays


@pytest.mark.parametrize("group", ["Hispanic", "HISPANIC", "White", "African American"])
def test_an_ethnic_group_is_kept_with_patient_characteristics(
    group: str, real: Real, release: Release
) -> None:
    data_set = real("CT_small.dcm")
    data_set.EthnicGroup = group

    _, _, released = release(data_set)

    assert released.EthnicGroup == group


def test_an_ethnic_group_equal_to_the_patients_name_is_removed(real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    data_set.EthnicGroup, data_set.PatientName = "White", "White^Jane"

    _, _, released = release(data_set)

    assert "White" not in str(released.get("EthnicGroup", ""))


def test_a_dummy_date_is_not_a_known_date(make_policy: MakePolicy, subkeys: SubKeys) -> None:
    policy = make_policy("ps3.15-basic")

    def made_up(known: frozenset[str]) -> str:
        subject = SubjectState("id:/1", "X", Shift(31), NOTHING_FORBIDDEN, known)
        job = ObjectState(policy, subkeys, subject, {}, TextRules(policy.text))
        return dummy_value(job, 0x00080023, b"DA", b"unreadable").decode()

    first = made_up(frozenset())
    second = made_up(frozenset([first]))

    assert second == shift_date(first, 1)


def test_a_color_profile_of_a_real_file_keeps_its_numbers() -> None:
    folder = Path(str(get_testdata_file("CT_small.dcm", download=False))).parent
    profile = (folder / "crayons.icc").read_bytes()

    cleaned = clean_profile(profile)

    assert cleaned is not None
    assert sum(cleaned) > 0.8 * sum(profile)
