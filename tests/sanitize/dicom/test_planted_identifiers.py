"""An identifier planted anywhere in a real file is in no byte of the released file."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from io import BytesIO

import pydicom
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.result import Outcome, Sanitized
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

Release = Callable[..., tuple[Sanitized, bytes, Dataset]]
Sanitize = Callable[..., tuple[Sanitized, bytes]]
Real = Callable[[str], Dataset]
Load = Callable[..., bytes]

SECRET = "Grzbowska"
RAW = SECRET.encode()
PRESETS = ("ps3.15-basic", "research", "hipaa-safe-harbor")


def put(data_set: Dataset, tag: int, vr: str, value: object) -> None:
    data_set[tag] = DataElement(tag, vr, value)


def item(**values: object) -> Dataset:
    made = Dataset()
    for keyword, value in values.items():
        setattr(made, keyword, value)
    return made


def in_item(tag: int, *items: Dataset) -> Callable[[Dataset], None]:
    return lambda ds: put(ds, tag, "SQ", Sequence(items))


def value(tag: int, vr: str, what: object) -> Callable[[Dataset], None]:
    return lambda ds: put(ds, tag, vr, what)


def nested(depth: int) -> Callable[[Dataset], None]:
    inner = item(PatientName=SECRET, StudyDescription=SECRET)
    for _ in range(depth):
        inner = item(ReferencedSeriesSequence=Sequence([inner]))
    return in_item(0x00081115, inner)


def safe_block(ds: Dataset) -> None:
    block = ds.private_block(0x0019, "SIEMENS MR HEADER", create=True)
    block.add_new(0x0C, "IS", "1000")
    block.add_new(0x08, "CS", SECRET)


def private_item(ds: Dataset) -> None:
    made = Dataset()
    made.private_block(0x11, "SOMEBODY", create=True).add_new(1, "LO", SECRET)
    put(ds, 0x00081115, "SQ", Sequence([made]))


def private_sequence(ds: Dataset) -> None:
    ds.private_block(0x0029, "SOMEBODY", create=True).add_new(1, "SQ", Sequence([item(PatientName=SECRET)]))


def overlay(ds: Dataset) -> None:
    put(ds, 0x60020010, "US", 8)
    put(ds, 0x60020011, "US", 8)
    put(ds, 0x60020022, "LO", SECRET)
    put(ds, 0x60021500, "LO", SECRET)
    put(ds, 0x60023000, "OW", RAW * 2)


def curve(ds: Dataset) -> None:
    put(ds, 0x50040005, "US", 1)
    put(ds, 0x50040022, "LO", SECRET)
    put(ds, 0x50043000, "OW", RAW * 2)


def icon(ds: Dataset) -> None:
    made = item(Rows=3, Columns=6, SamplesPerPixel=1, BitsAllocated=8, BitsStored=8, HighBit=7)
    made.PhotometricInterpretation, made.PixelRepresentation = "MONOCHROME2", 0
    made.PixelData = RAW * 2
    made["PixelData"].VR = "OB"
    put(ds, 0x00880200, "SQ", Sequence([made]))


def pixels_of_a_reference(ds: Dataset) -> None:
    made = item(ReferencedSOPClassUID="1.2.840.10008.5.1.4.1.1.2", ReferencedSOPInstanceUID="1.2.3")
    made.PixelData = RAW * 2
    made["PixelData"].VR = "OB"
    put(ds, 0x00081140, "SQ", Sequence([made]))


def functional_groups(ds: Dataset) -> None:
    anatomy = item(FrameAnatomySequence=Sequence([item(FrameLaterality="R", FrameComments=SECRET)]))
    content = item(FrameContentSequence=Sequence([item(FrameLabel=SECRET, FrameComments=SECRET)]))
    put(ds, 0x52009229, "SQ", Sequence([anatomy]))
    put(ds, 0x52009230, "SQ", Sequence([content]))


def code(meaning: str = SECRET, code_value: str = SECRET, scheme: str = SECRET) -> Dataset:
    return item(CodeValue=code_value, CodingSchemeDesignator=scheme, CodeMeaning=meaning)


def lut(ds: Dataset) -> None:
    made = item(LUTDescriptor=[1, 0, 8], LUTExplanation=SECRET, ModalityLUTType=SECRET)
    made.LUTData = b"\0\0"
    made["LUTData"].VR = "OW"
    put(ds, 0x00283000, "SQ", Sequence([made]))


def other_charset(ds: Dataset) -> None:
    made = item(SpecificCharacterSet="ISO_IR 144", PatientName=f"{SECRET}^Анна", StudyDescription=SECRET)
    put(ds, 0x00081115, "SQ", Sequence([made]))


def no_charset(ds: Dataset) -> None:
    ds.pop("SpecificCharacterSet", None)
    put(ds, 0x00081030, "LO", RAW + b" M\xfcller")


def gb(ds: Dataset) -> None:
    ds.SpecificCharacterSet = "GB18030"
    put(ds, 0x00081030, "LO", f"{SECRET} 王小东")


def utf8(ds: Dataset) -> None:
    ds.SpecificCharacterSet = "ISO_IR 192"
    put(ds, 0x00081030, "LO", f"{SECRET} Ångström")


def japanese(ds: Dataset) -> None:
    ds.SpecificCharacterSet = ["", "ISO 2022 IR 87"]
    put(ds, 0x00100010, "PN", f"{SECRET}^Jiro=山田^次郎")
    put(ds, 0x00081030, "LO", f"{SECRET} 山田")


PLANTS: dict[str, Callable[[Dataset], None]] = {
    "PatientName": value(0x00100010, "PN", SECRET + "^Anna"),
    "PatientName several values": value(0x00100010, "PN", ["A^B", SECRET]),
    "PatientName as UN": value(0x00100010, "UN", RAW + b" "),
    "PatientName as OB": value(0x00100010, "OB", RAW + b"\0"),
    "PatientID": value(0x00100020, "LO", SECRET),
    "issuer": value(0x00100021, "LO", SECRET),
    "OtherPatientIDsSequence": in_item(0x00101002, item(PatientID=SECRET, TypeOfPatientID=SECRET)),
    "StudyDescription": value(0x00081030, "LO", f"CT of {SECRET} 555-1234"),
    "StudyDescription longer than its VR": value(0x00081030, "LO", "x" * 200 + SECRET),
    "ImageComments": value(0x00204000, "LT", SECRET),
    "identifying comments, retired": value(0x00084000, "LT", SECRET),
    "ImageType value 4": value(0x00080008, "CS", ["ORIGINAL", "PRIMARY", "AXIAL", SECRET]),
    "Modality": value(0x00080060, "CS", SECRET),
    "BodyPartExamined": value(0x00180015, "CS", SECRET),
    "PatientSex": value(0x00100040, "CS", SECRET),
    "PatientOrientation": value(0x00200020, "CS", [SECRET, "P"]),
    "ManufacturerModelName": value(0x00081090, "LO", SECRET),
    "Manufacturer": value(0x00080070, "LO", SECRET),
    "SoftwareVersions": value(0x00181020, "LO", ["1.0", SECRET]),
    "AETitle": value(0x00080054, "AE", SECRET),
    "RetrieveURL": value(0x00081190, "UR", f"http://pacs/{SECRET}"),
    "WindowCenterWidthExplanation": value(0x00281055, "LO", SECRET),
    "CodeMeaning": in_item(0x00081032, code(code_value="T-04000", scheme="SRT")),
    "CodeValue that is a record number": in_item(0x00081032, code("Chest", SECRET, "99LOCAL")),
    "CodingSchemeDesignator": in_item(0x00081032, code("Chest", "T-04000")),
    "private coding scheme": in_item(0x00081032, code("Chest", "X", "99" + SECRET)),
    "LUT": lut,
    "DA": value(0x00080020, "DA", SECRET),
    "TM": value(0x00080030, "TM", SECRET),
    "DT": value(0x0008002A, "DT", SECRET),
    "AS": value(0x00101010, "AS", SECRET),
    "UI": value(0x0020000D, "UI", SECRET),
    "SOPInstanceUID": value(0x00080018, "UI", SECRET),
    "UI several values": value(0x00081150, "UI", ["1.2.840.10008.1.1", SECRET]),
    "US with text in it": value(0x00280106, "OB", RAW + b"\0"),
    "a sequence as text": value(0x00081115, "LO", SECRET),
    "a text as sequence": in_item(0x00081030, item(PatientName=SECRET)),
    "nested once": nested(1),
    "nested forty times": nested(40),
    "functional groups": functional_groups,
    "private sequence": private_sequence,
    "private block in a public sequence": private_item,
    "private creator": value(0x00110010, "LO", SECRET),
    "private without creator": value(0x00111001, "LO", SECRET),
    "odd group below 8": value(0x00030010, "LO", SECRET),
    "unknown even group": value(0x00080FF1, "LO", SECRET),
    "unknown even group far": value(0x77700010, "LO", SECRET),
    "safe private block": safe_block,
    "overlay": overlay,
    "curve": curve,
    "icon": icon,
    "pixels in an item of a reference": pixels_of_a_reference,
    "trailing padding": value(0xFFFCFFFC, "OB", RAW * 2),
    "private group after the pixels": value(0x7FE10010, "LO", SECRET),
    "digital signature": in_item(0xFFFAFFFA, item(CertificateOfSigner=RAW + b"\0")),
    "own character set in an item": other_charset,
    "no character set": no_charset,
    "GB18030": gb,
    "UTF-8": utf8,
    "ISO 2022": japanese,
    "unknown character set": value(0x00080005, "CS", SECRET),
    "embedded document": value(0x00420011, "OB", RAW + b"\0"),
    "binary of no image": value(0x00181623, "OB", RAW + b"\0"),
    "red palette that does not belong": value(0x00281221, "OW", RAW + b"\0"),
}


def plain(data: bytes) -> bytes:
    """Released bytes, with a deflated data set inflated."""
    if b"1.2.840.10008.1.2.1.99" not in data[:400]:
        return data
    meta = 144 + int.from_bytes(data[140:144], "little")
    return data[:meta] + zlib.decompress(data[meta:], -zlib.MAX_WBITS)


def unseen(out: bytes) -> bool:
    """Whether the secret is absent in any case, also in 16-bit characters."""
    low = plain(out).lower()
    return RAW.lower() not in low and SECRET.lower().encode("utf-16-le") not in low


@pytest.fixture(scope="module")
def policies(make_policy: Callable[..., Policy]) -> dict[str, Policy]:
    dicom = {"options": {"clean_pixel_data": False}}
    return {name: make_policy(name, dicom=dicom, pixels={"at_risk": "release"}) for name in PRESETS}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("base", ["CT_small.dcm", "MR_small_implicit.dcm", "MR_small_bigendian.dcm"])
@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_no_planted_text_survives(
    plant: str,
    base: str,
    preset: str,
    policies: dict[str, Policy],
    real: Real,
    load_bytes: Load,
    sanitize: Sanitize,
) -> None:
    data_set = real(base)
    PLANTS[plant](data_set)
    source = load_bytes(data_set)
    assert RAW in source, "the plant did not take"

    done, out = sanitize(source, policies[preset])

    assert unseen(out)
    assert SECRET not in repr(done.record)
    if done.record.outcome is Outcome.RELEASED:
        pydicom.dcmread(BytesIO(out))


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_a_bad_value_removes_an_element_but_not_the_object(plant: str, real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    PLANTS[plant](data_set)

    done, _, released = release(data_set)

    assert done.record.outcome is Outcome.RELEASED
    assert released.pixel_array.shape == (128, 128)


@pytest.mark.parametrize("plant", sorted(set(PLANTS) - {"UI", "SOPInstanceUID"}))
def test_a_second_pass_changes_only_pseudonyms(plant: str, real: Real, release: Release) -> None:
    data_set = real("CT_small.dcm")
    PLANTS[plant](data_set)
    _, once, _ = release(data_set)

    _, twice, _ = release(once)

    assert len(once) == len(twice)


def test_no_planted_text_survives_deflation(real: Real, release: Release) -> None:
    data_set = real("image_dfl.dcm")
    for name in ("StudyDescription", "nested once", "private creator", "CodeMeaning", "trailing padding"):
        PLANTS[name](data_set)

    _, out, _ = release(data_set)

    assert unseen(out)
    assert b"1.2.840.10008.1.2.1.99" in out


def spliced(data: bytes, tag: int, raw: bytes) -> bytes:
    """An Explicit VR Little Endian file with ``raw`` before the first element of at least ``tag``."""
    pos = 144 + int.from_bytes(data[140:144], "little")
    while pos < len(data):
        group, number, vr, length = struct.unpack_from("<HH2sH", data, pos)
        if group << 16 | number >= tag:
            break
        long = vr in (b"OB", b"OW", b"SQ", b"UN", b"UT")
        pos += 12 + int.from_bytes(data[pos + 8 : pos + 12], "little") if long else 8 + length
    return data[:pos] + raw + data[pos:]


def raw_element(tag: int, vr: bytes, value: bytes, reserved: bytes = b"\0\0") -> bytes:
    head = struct.pack("<HH2s", tag >> 16, tag & 0xFFFF, vr)
    if vr in (b"OB", b"OW", b"SQ", b"UN", b"UT"):
        return head + reserved + struct.pack("<I", len(value)) + value
    return head + struct.pack("<H", len(value)) + value


def implicit(tag: int, value: bytes) -> bytes:
    return struct.pack("<HHI", tag >> 16, tag & 0xFFFF, len(value)) + value


def implicit_item(content: bytes) -> bytes:
    return struct.pack("<HHI", 0xFFFE, 0xE000, len(content)) + content


EVEN = RAW + b" "
NAME_ITEM = implicit_item(implicit(0x00100010, EVEN) + implicit(0x00081030, EVEN))
FAR_DEEP = implicit(0x00081115, implicit_item(implicit(0x00081115, NAME_ITEM)))
RAW_PLANTS = {
    "DS": (0x00180051, raw_element(0x00180051, b"DS", EVEN)),
    "IS": (0x00201209, raw_element(0x00201209, b"IS", EVEN)),
    "IS with a name behind a number": (0x00201209, raw_element(0x00201209, b"IS", b"1\\\\" + EVEN + b"  ")),
    "command group": (0x00000600, raw_element(0x00000600, b"AE", EVEN)),
    "group length": (0x00100000, raw_element(0x00100000, b"OB", EVEN)),
    "group length that is a text": (0x00100000, raw_element(0x00100000, b"LO", EVEN)),
    "sequence as UN": (0x00081115, raw_element(0x00081115, b"UN", NAME_ITEM)),
    "sequences in a UN sequence": (0x00081115, raw_element(0x00081115, b"UN", implicit_item(FAR_DEEP))),
    "no sequence as UN": (0x00081115, raw_element(0x00081115, b"UN", EVEN * 4)),
    "UN sequence cut short": (0x00081115, raw_element(0x00081115, b"UN", NAME_ITEM[:-4])),
    "UN sequence with its own character set": (
        0x00081115,
        raw_element(
            0x00081115, b"UN", implicit_item(implicit(0x00080005, b"ISO_IR 144") + implicit(0x00100010, EVEN))
        ),
    ),
    "private sequence as UN": (0x00091010, raw_element(0x00091010, b"UN", NAME_ITEM)),
    "text behind NULs": (0x00081040, raw_element(0x00081040, b"LO", b"CHEST\0\0\0" + EVEN)),
    "code behind NULs": (0x00180015, raw_element(0x00180015, b"CS", b"CHEST\0\0\0" + EVEN)),
    "escape sequences": (0x00081040, raw_element(0x00081040, b"LO", b"CHEST\x1b$B" + EVEN)),
    "element twice": (
        0x00180015,
        raw_element(0x00180015, b"CS", EVEN) + raw_element(0x00180015, b"CS", EVEN),
    ),
    "elements out of order": (
        0x00080005,
        raw_element(0x00204000, b"LT", EVEN) + raw_element(0x00100010, b"PN", EVEN),
    ),
    "undefined lengths": (
        0x00081115,
        struct.pack("<HH2sHI", 0x0008, 0x1115, b"SQ", 0, 0xFFFFFFFF)
        + struct.pack("<HHI", 0xFFFE, 0xE000, 0xFFFFFFFF)
        + raw_element(0x00100010, b"PN", EVEN)
        + struct.pack("<HHI", 0xFFFE, 0xE00D, 0)
        + struct.pack("<HHI", 0xFFFE, 0xE0DD, 0),
    ),
    "undefined length of no sequence": (
        0x00091001,
        struct.pack("<HH2sHI", 0x0009, 0x1001, b"UN", 0, 0xFFFFFFFF)
        + NAME_ITEM
        + struct.pack("<HHI", 0xFFFE, 0xE0DD, 0),
    ),
}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("plant", sorted(RAW_PLANTS))
def test_no_planted_bytes_survive(
    plant: str, preset: str, policies: dict[str, Policy], load_bytes: Load, release: Release
) -> None:
    source = spliced(load_bytes("CT_small.dcm"), *RAW_PLANTS[plant])

    _, out, released = release(source, policies[preset])

    assert unseen(out)
    assert released.pixel_array.shape == (128, 128)


@pytest.mark.parametrize("tag", [0x00081199, 0x00400440])
def test_reserved_bytes_of_a_header_are_zero(tag: int, load_bytes: Load, release: Release) -> None:
    source = spliced(load_bytes("CT_small.dcm"), tag, raw_element(tag, b"SQ", b"", reserved=b"GW"))

    _, out, _ = release(source)

    assert b"SQGW" not in out


def test_reserved_bytes_of_sample_data_are_zero(load_bytes: Load, release: Release) -> None:
    source = load_bytes("examples_palette.dcm")
    at = source.index(struct.pack("<HH2s", 0x0028, 0x1201, b"OW"))
    source = source[: at + 6] + b"GW" + source[at + 8 :]

    _, out, _ = release(source)

    assert b"OWGW" not in out


def test_preamble_and_file_meta_are_rebuilt(load_bytes: Load, release: Release) -> None:
    data = load_bytes("CT_small.dcm")
    extra = (
        raw_element(0x00020016, b"AE", EVEN)
        + raw_element(0x00020102, b"OB", EVEN)
        + raw_element(0x00020100, b"UI", b"1.2")
    )
    start = 144 + int.from_bytes(data[140:144], "little")
    length = (start - 144 + len(extra)).to_bytes(4, "little")
    data = (RAW * 20)[:128] + data[128:140] + length + data[144:start] + extra + data[start:]

    _, out, released = release(data)

    assert unseen(out)
    assert out[:128] == bytes(128)
    assert {element.tag.element for element in released.file_meta} == {0, 1, 2, 3, 0x10, 0x12, 0x13}


@pytest.mark.parametrize("name", ["CT_small.dcm", "MR_small_RLE.dcm", "reportsi.dcm"])
def test_bytes_after_the_object_are_removed(name: str, load_bytes: Load, sanitize: Sanitize) -> None:
    _, out = sanitize(load_bytes(name) + b"\0\0\0\0 " + RAW * 3)

    assert unseen(out)


def test_every_element_of_the_confidentiality_table_is_removed_at_every_depth(
    real: Real, policies: dict[str, Policy], release: Release
) -> None:
    from medsanitize.policies.tables.standard import confidentiality_rows
    from pydicom.datadict import dictionary_VR

    def planted(count: list[int]) -> Dataset:
        made = Dataset()
        for row in confidentiality_rows():
            if "x" in row.mask or row.mask == "private" or row.mask[:4] in ("0000", "0002", "fffa", "fffc"):
                continue
            tag = int(row.mask, 16)
            try:
                vr = dictionary_VR(tag).split(" or ")[0]
            except KeyError:
                continue
            count[0] += 1
            if vr in ("LO", "SH", "ST", "LT", "UT", "UC", "PN", "CS", "AE", "UR"):
                put(made, tag, vr, f"{SECRET}{count[0]}")
            elif vr == "UI":
                put(made, tag, vr, f"1.2.3.77777.{count[0]}")
            elif vr in ("OB", "OW", "UN"):
                put(made, tag, vr, RAW + b"\0")
            elif vr == "SQ" and not count[1:]:
                put(made, tag, vr, Sequence([item(CodeMeaning=SECRET, PatientName=SECRET)]))
        return made

    data_set = real("CT_small.dcm")
    class_and_instance = data_set.SOPClassUID, data_set.file_meta
    data_set.update(planted([0]))
    data_set.SOPClassUID, data_set.file_meta = class_and_instance
    data_set.ReferencedSeriesSequence = Sequence([planted([1000, 1])])
    data_set.SharedFunctionalGroupsSequence = Sequence(
        [item(FrameContentSequence=Sequence([planted([2000, 1])]))]
    )

    _, out, _ = release(data_set, policies["ps3.15-basic"])

    assert unseen(out)
    assert b"1.2.3.77777" not in out
