"""A second, minimal DICOM reader for the audit.

It shares no code with the reader of the sanitizer, so that one misinterpretation cannot hide a value from
both. It reads released Part 10 files (PS3.10 chapter 7, PS3.5 chapter 7 and annex A) and accepts a file only
if every byte belongs to exactly one element: lengths end where their container ends, sequences and items are
closed, and nothing follows the last element.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from medsanitize.errors import IntegrityError
from medsanitize.policies.tables.standard import table_vrs

DEFLATED: Final = "1.2.840.10008.1.2.1.99"
IMPLICIT_LITTLE: Final = "1.2.840.10008.1.2"
EXPLICIT_BIG: Final = "1.2.840.10008.1.2.2"
PIXEL_DATA: Final = 0x7FE00010

MAPPED_BYTES: Final = 4 << 20
"""Larger files are memory-mapped instead of loaded."""

# Keeps the recursion of data_set, _large and _sequence below Python's limit.
MAX_DEPTH: Final = 200

Buffer = bytes | mmap.mmap
Element = tuple[int, bytes, int, int, int]
"""Tag, VR, start and end of the value in ``Parsed.buffer``, index of the enclosing item or -1."""

_SHORT_VRS: Final = frozenset(b"AE AS AT CS DA DS DT FL FD IS LO LT PN SH SL SS ST TM UI UL US".split())
_LONG_VRS: Final = frozenset(b"OB OD OF OL OV OW SQ SV UC UN UR UT UV".split())
_UNDEFINED: Final = 0xFFFFFFFF
_ITEM: Final = 0xFFFEE000
_ITEM_END: Final = 0xFFFEE00D
_SEQUENCE_END: Final = 0xFFFEE0DD
_META_START: Final = 132
# Float Pixel Data, Double Float Pixel Data, Pixel Data.
_PIXEL_TAGS: Final = frozenset({0x7FE00008, 0x7FE00009, PIXEL_DATA})


class MalformedFile(IntegrityError):
    """{what}. {remedy}."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(f"A released object cannot be read to its last byte ({rule})", "Do not publish it")


@dataclass(frozen=True, slots=True, repr=False)
class Parsed:
    """A parsed file in which every byte is accounted for.

    Attributes
    ----------
    raw : bytes or mmap
        The file.
    buffer : bytes or mmap
        Equal to ``raw``, except for deflated files, whose dataset is inflated.
    elements : list of Element
        All elements in file order, including nested ones.
    items : list of (int, int)
        For each item, the index of its sequence in ``elements`` and its position in it.
    meta : int
        Number of elements of group 0002, which come first.
    transfer_syntax : str
        UID of the transfer syntax.
    unordered : list of int
        Indexes of elements whose tags are not in ascending order.
    """

    raw: Buffer
    buffer: Buffer
    elements: list[Element]
    items: list[tuple[int, int]]
    meta: int
    transfer_syntax: str
    unordered: list[int]

    @property
    def little(self) -> bool:
        """Whether the dataset is little endian."""
        return self.transfer_syntax != EXPLICIT_BIG

    def value(self, tag: int) -> bytes | None:
        """Return the value of a top-level element as bytes without padding; None if absent."""
        for found, _, start, end, item in self.elements:
            if found == tag and item < 0:
                return bytes(self.buffer[start:end]).rstrip(b" \0")
        return None

    def path(self, index: int) -> str:
        """Return the location of an element: ``(gggg,eeee)`` of each level, joined by ``>``."""
        tags: list[int] = []
        while index >= 0:
            tag, _, _, _, item = self.elements[index]
            tags.append(tag)
            index = self.items[item][0] if item >= 0 else -1
        return ">".join(f"({tag >> 16:04X},{tag & 0xFFFF:04X})" for tag in reversed(tags))


def read(source: Path | bytes, *, inflated_bytes: int = 512 << 20) -> Parsed:
    """Read one Part 10 file.

    Parameters
    ----------
    source : Path or bytes
        A file (memory-mapped if large) or its bytes.
    inflated_bytes : int
        Maximum size of an inflated dataset in bytes.

    Returns
    -------
    Parsed
        The elements and their positions.

    Raises
    ------
    MalformedFile
        A byte is not accounted for; ``rule`` is the reason.
    """
    raw = source if isinstance(source, bytes) else _load(source)
    if len(raw) < _META_START or raw[128:132] != b"DICM":
        raise MalformedFile("not-part-10")
    elements: list[Element] = []
    meta_end = _meta_end(raw)
    # Group 0002 is always explicit VR little endian (PS3.10 7.1).
    _Walk(raw, elements, [], [], False, "<").data_set(_META_START, meta_end, -1, 0)
    syntax = _transfer_syntax(raw, elements)
    meta = len(elements)
    buffer = raw
    if syntax == DEFLATED:
        buffer = raw[:meta_end] + _inflate(raw, meta_end, inflated_bytes)
    walk = _Walk(buffer, elements, [], [], syntax == IMPLICIT_LITTLE, ">" if syntax == EXPLICIT_BIG else "<")
    walk.data_set(meta_end, len(buffer), -1, 0)
    return Parsed(raw, buffer, elements, walk.items, meta, syntax, walk.unordered)


def _load(path: Path) -> Buffer:
    with path.open("rb") as file:
        head = file.read(MAPPED_BYTES + 1)
        if len(head) <= MAPPED_BYTES:
            return head
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _meta_end(raw: Buffer) -> int:
    """Find the end of group 0002 and compare it with the group length (PS3.10 table 7.1-1)."""
    pos, size, declared = _META_START, len(raw), -1
    while pos + 8 <= size and raw[pos : pos + 2] == b"\x02\x00":
        if raw[pos + 4 : pos + 6] in _LONG_VRS:
            if pos + 12 > size:
                raise MalformedFile("cut")
            pos, start = pos + 12 + int.from_bytes(raw[pos + 8 : pos + 12], "little"), pos
        else:
            pos, start = pos + 8 + int.from_bytes(raw[pos + 6 : pos + 8], "little"), pos
        if start == _META_START and raw[start + 2 : start + 4] == b"\0\0" and pos == start + 12:
            declared = pos + int.from_bytes(raw[start + 8 : start + 12], "little")
    if pos > size:
        raise MalformedFile("cut")
    if declared != pos:
        raise MalformedFile("meta-length")
    return pos


def _transfer_syntax(raw: Buffer, elements: list[Element]) -> str:
    for tag, _, start, end, _ in elements:
        if tag == 0x00020010:
            return bytes(raw[start:end]).rstrip(b"\0 ").decode("ascii", "replace")
    raise MalformedFile("no-transfer-syntax")


def _inflate(raw: Buffer, start: int, limit: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # One byte more than allowed, to detect larger data without inflating all of it.
        data = inflater.decompress(raw[start:], limit + 1)
    except zlib.error:
        raise MalformedFile("deflate") from None
    if len(data) > limit:
        raise MalformedFile("inflated-bytes")
    # PS3.5 A.5 pads the deflated stream to even length with one NUL.
    if not inflater.eof or inflater.unused_data not in (b"", b"\0"):
        raise MalformedFile("deflate")
    return data


@lru_cache(maxsize=1)
def _dictionary() -> dict[int, bytes]:
    """VRs of PS3.6, for implicit VR; those of newer attributes are in Table E.1-1 (PS3.15)."""
    from pydicom._dicom_dict import DicomDictionary

    known = {tag: entry[0][:2].encode("ascii") for tag, entry in DicomDictionary.items()}
    return {tag: vr.encode("ascii") for tag, vr in table_vrs().items()} | known


def implicit_vr(tag: int) -> bytes:
    """Return the VR of a tag in PS3.6; UN if it has none."""
    if tag & 0xFFFF == 0:
        return b"UL"
    # Private creators are LO (PS3.5 7.8.1); the VR of other private elements is unknown.
    if tag >> 16 & 1:
        return b"LO" if 0x10 <= tag & 0xFFFF <= 0xFF else b"UN"
    vr = _dictionary().get(tag)
    # Repeating groups such as 60xx are not in the plain dictionary.
    if vr is None:
        from pydicom.datadict import dictionary_VR

        try:
            return dictionary_VR(tag)[:2].encode("ascii")
        except KeyError:
            return b"UN"
    return vr


class _Walk:
    """One pass over a dataset; appends to ``elements``, ``items`` and ``unordered``."""

    __slots__ = ("buf", "elements", "head", "implicit", "items", "long", "order", "unordered")

    def __init__(
        self,
        buf: Buffer,
        elements: list[Element],
        items: list[tuple[int, int]],
        unordered: list[int],
        implicit: bool,
        order: str,
    ) -> None:
        self.buf = buf
        self.elements = elements
        self.items = items
        self.unordered = unordered
        self.implicit = implicit
        self.order = order
        self.head = struct.Struct(order + ("HHL" if implicit else "HH2sH")).unpack_from
        self.long = struct.Struct(order + "L").unpack_from

    def data_set(self, pos: int, end: int, item: int, depth: int, *, closed: bool = False) -> int:
        """Read elements up to ``end``, or up to the item delimiter if ``closed``; return the end position."""
        if depth > MAX_DEPTH:
            raise MalformedFile("depth")
        if self.implicit:
            return self._implicit(pos, end, item, depth, closed)
        # Attributes in local variables: this loop dominates the time of the audit.
        buf, head, elements = self.buf, self.head, self.elements
        append, short, last = elements.append, _SHORT_VRS, -1
        try:
            while pos < end:
                group, number, vr, length = head(buf, pos)
                tag = group << 16 | number
                start = pos + 8
                if vr in short:
                    pos = start + length
                    if pos > end:
                        raise MalformedFile("length")
                    append((tag, vr, start, pos, item))
                elif vr in _LONG_VRS:
                    pos = self._large(tag, vr, start + 4, self.long(buf, start)[0], end, item, depth)
                elif closed and tag == _ITEM_END:
                    return self._delimited(pos, end)
                else:
                    raise MalformedFile("vr")
                if tag <= last:
                    self.unordered.append(len(elements) - 1)
                last = tag
        except struct.error:
            raise MalformedFile("cut") from None
        if closed or pos != end:
            raise MalformedFile("not-closed")
        return pos

    def _implicit(self, pos: int, end: int, item: int, depth: int, closed: bool) -> int:
        last = -1
        try:
            while pos < end:
                group, number, length = self.head(self.buf, pos)
                tag = group << 16 | number
                if group == 0xFFFE:
                    if closed and tag == _ITEM_END:
                        return self._delimited(pos, end)
                    raise MalformedFile("delimiter")
                vr = implicit_vr(tag)
                # Of undefined length only a sequence can be parsed (PS3.5 6.2.2).
                if length == _UNDEFINED and vr == b"UN":
                    vr = b"SQ"
                index = len(self.elements)
                pos = self._large(tag, vr, pos + 8, length, end, item, depth)
                if tag <= last:
                    self.unordered.append(index)
                last = tag
        except struct.error:
            raise MalformedFile("cut") from None
        if closed or pos != end:
            raise MalformedFile("not-closed")
        return pos

    def _delimited(self, pos: int, end: int) -> int:
        """Return the position after the delimiter at ``pos``, whose length must be zero."""
        if pos + 8 > end or self.buf[pos + 4 : pos + 8] != b"\0\0\0\0":
            raise MalformedFile("delimiter")
        return pos + 8

    def _large(self, tag: int, vr: bytes, start: int, length: int, end: int, item: int, depth: int) -> int:
        """Read an element with a 32-bit length and its nested elements; return its end position."""
        if length != _UNDEFINED:
            stop = start + length
            if stop > end:
                raise MalformedFile("length")
            self.elements.append((tag, vr, start, stop, item))
            if vr == b"SQ":
                self._sequence(len(self.elements) - 1, start, stop, depth, closed=False)
            # A known sequence written as UN is still searched item by item.
            elif vr == b"UN" and implicit_vr(tag) == b"SQ":
                self._unknown()._sequence(len(self.elements) - 1, start, stop, depth, closed=False)
            return stop
        index = len(self.elements)
        self.elements.append((tag, vr, start, start, item))
        if vr == b"SQ":
            stop = self._sequence(index, start, end, depth, closed=True)
        elif vr == b"UN":
            stop = self._unknown()._sequence(index, start, end, depth, closed=True)
        elif tag in _PIXEL_TAGS:
            stop = self._fragments(start, end)
        else:
            raise MalformedFile("length")
        # The end is known only now; the entry was reserved so that elements stay in file order.
        self.elements[index] = (tag, vr, start, stop, item)
        return stop

    def _unknown(self) -> _Walk:
        """Continue in implicit VR little endian, the encoding of sequences with VR UN (PS3.5 6.2.2)."""
        return _Walk(self.buf, self.elements, self.items, self.unordered, True, "<")

    def _sequence(self, index: int, pos: int, end: int, depth: int, *, closed: bool) -> int:
        """Read the items of a sequence (PS3.5 7.5)."""
        buf, count = self.buf, 0
        pair = struct.Struct(self.order + "HHL").unpack_from
        while pos < end:
            if pos + 8 > end:
                raise MalformedFile("cut")
            group, number, length = pair(buf, pos)
            tag = group << 16 | number
            if closed and tag == _SEQUENCE_END:
                return self._delimited(pos, end)
            if tag != _ITEM:
                raise MalformedFile("item")
            self.items.append((index, count))
            item = len(self.items) - 1
            count += 1
            pos += 8
            if length == _UNDEFINED:
                pos = self.data_set(pos, end, item, depth + 1, closed=True)
            else:
                if pos + length > end:
                    raise MalformedFile("length")
                pos = self.data_set(pos, pos + length, item, depth + 1)
        if closed:
            raise MalformedFile("not-closed")
        return pos

    def _fragments(self, pos: int, end: int) -> int:
        """Skip encapsulated pixel data (PS3.5 A.4): items up to the sequence delimiter."""
        pair = struct.Struct(self.order + "HHL").unpack_from
        while pos + 8 <= end:
            group, number, length = pair(self.buf, pos)
            tag = group << 16 | number
            if tag == _SEQUENCE_END:
                return self._delimited(pos, end)
            if tag != _ITEM or length == _UNDEFINED or pos + 8 + length > end:
                raise MalformedFile("fragment")
            pos += 8 + length
        raise MalformedFile("not-closed")
