"""Transfer syntaxes and the byte layout of data elements (PS3.5 sections 7 and 10)."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

UNDEFINED = 0xFFFFFFFF

LONG_VRS = frozenset(b"OB OD OF OL OV OW SQ SV UC UN UR UT UV".split())
SHORT_VRS = frozenset(b"AE AS AT CS DA DS DT FD FL IS LO LT PN SH SL SS ST TM UI UL US".split())
# Not written: some writers leave it blank or put question marks, with the short form of the length.
MISSING_VRS = frozenset([b"  ", b"??"])
TEXT_VRS = frozenset([b"LO", b"SH", b"ST", b"LT", b"UT", b"UC"])
SINGLE_TEXT_VRS = frozenset([b"ST", b"LT", b"UT"])
STRING_VRS = TEXT_VRS | frozenset(
    [b"AE", b"AS", b"CS", b"DA", b"DS", b"DT", b"IS", b"PN", b"TM", b"UI", b"UR"]
)
# Values that are opaque bytes here: they are never read as text or numbers.
BULK_VRS = frozenset([b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"UN"])
NUMBER_SIZES = {b"US": 2, b"SS": 2, b"UL": 4, b"SL": 4, b"FL": 4, b"FD": 8, b"UV": 8, b"SV": 8, b"AT": 4}

# Largest length of one value in characters (PS3.5 table 6.2-1).
SHORT_VALUE_LIMIT = {
    b"AE": 16,
    b"CS": 16,
    b"SH": 16,
    b"LO": 64,
    b"ST": 1024,
    b"LT": 10240,
    b"UI": 64,
    b"DS": 16,
    b"IS": 12,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of element headers: byte order, and whether the VR is written."""

    explicit: bool
    big: bool
    short: Struct
    long: Struct
    tag: Struct
    length: Struct


def _layout(explicit: bool, big: bool) -> Layout:
    order = ">" if big else "<"
    return Layout(
        explicit,
        big,
        Struct(order + "HH2sH"),
        Struct(order + "I"),
        Struct(order + "HHI"),
        Struct(order + "I"),
    )


EXPLICIT_LITTLE = _layout(True, False)
EXPLICIT_BIG = _layout(True, True)
IMPLICIT_LITTLE = _layout(False, False)


@dataclass(frozen=True, slots=True)
class TransferSyntax:
    """One transfer syntax: layout of the data set, and codec of its pixel data.

    ``codec`` is ``native``, or for encapsulated pixel data ``jpeg``, ``jpeg-ls``, ``jpeg2000``,
    ``rle``, ``jpegxl``, ``deflated-frame`` or ``video``.
    """

    uid: str
    layout: Layout
    codec: str = "native"
    deflated: bool = False


_PREFIX = "1.2.840.10008.1.2"


def _table() -> dict[str, TransferSyntax]:
    rows = [
        TransferSyntax(_PREFIX, IMPLICIT_LITTLE),
        TransferSyntax(_PREFIX + ".1", EXPLICIT_LITTLE),
        TransferSyntax(_PREFIX + ".2", EXPLICIT_BIG),
        TransferSyntax(_PREFIX + ".1.99", EXPLICIT_LITTLE, deflated=True),
        TransferSyntax(_PREFIX + ".5", EXPLICIT_LITTLE, "rle"),
        TransferSyntax(_PREFIX + ".8.1", EXPLICIT_LITTLE, "deflated-frame"),
    ]
    # Retired syntaxes are included: archives still contain them.
    families = {
        "jpeg": "50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 70",
        "jpeg-ls": "80 81",
        "jpeg2000": "90 91 92 93 201 202 203",
        "jpegxl": "110 111 112",
        "video": "100 100.1 101 101.1 102 102.1 103 103.1 104 104.1 105 105.1 106 106.1 107 108",
    }
    for codec, suffixes in families.items():
        rows += [
            TransferSyntax(f"{_PREFIX}.4.{suffix}", EXPLICIT_LITTLE, codec) for suffix in suffixes.split()
        ]
    return {row.uid: row for row in rows}


TRANSFER_SYNTAXES = _table()


def encode_element(layout: Layout, tag: int, vr: bytes, value: bytes) -> bytes:
    """Encode one data element of defined length; odd values are padded as the VR requires (PS3.5 6.2)."""
    if len(value) & 1:
        value += b"\0" if vr == b"UI" or vr in BULK_VRS else b" "
    group, number = tag >> 16, tag & 0xFFFF
    if not layout.explicit:
        return layout.tag.pack(group, number, len(value)) + value
    if vr in LONG_VRS:
        return layout.short.pack(group, number, vr, 0) + layout.length.pack(len(value)) + value
    if len(value) > 0xFFFE:
        # A value too long for a 16-bit length is written as UN (PS3.5 6.2.2).
        return layout.short.pack(group, number, b"UN", 0) + layout.length.pack(len(value)) + value
    return layout.short.pack(group, number, vr, len(value)) + value


def encode_header(layout: Layout, tag: int, vr: bytes, length: int) -> bytes:
    """Encode the header of an element with a 32-bit length (``UNDEFINED`` allowed)."""
    if not layout.explicit:
        return layout.tag.pack(tag >> 16, tag & 0xFFFF, length)
    return layout.short.pack(tag >> 16, tag & 0xFFFF, vr, 0) + layout.length.pack(length)
