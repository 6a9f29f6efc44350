"""The values that a released DICOM object contains, by attribute, as a person reads them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from medsanitize.verifiers.leaks.dicom_reader import Buffer, Parsed, read

SHOWN: Final = 1000
"""Characters of a value that are kept; its digest covers all of it."""
_READ: Final = 4 * SHOWN + 64
_NUMBERS: Final = {
    **{b"US": "H", b"SS": "h", b"UL": "I", b"SL": "i", b"UV": "Q", b"SV": "q", b"FL": "f", b"FD": "d"},
    b"AT": "H",
}
_BULK: Final = frozenset((b"OB", b"OD", b"OF", b"OL", b"OV", b"OW"))
_PLAIN: Final = re.compile(rb"[\x20-\x7e\t\r\n]*")
_CHARACTER_SET: Final = 0x00080005
# Items and delimiters, which have no value of their own.
_STRUCTURE: Final = 0xFFFE


@dataclass(frozen=True, slots=True)
class AttributePath:
    """An attribute, and the sequences that it is in.

    Attributes
    ----------
    path : str
        Keywords, or tags, joined by dots; a private attribute as ``(gggg,"CREATOR",ee)``.
    vr : str
        Value representation.
    private : bool
        Whether it, or a sequence around it, is private.
    """

    path: str
    vr: str
    private: bool


@dataclass(frozen=True, slots=True, repr=False)
class ObjectValue:
    """A value: its first characters, its length in bytes, and a digest of all of it."""

    text: str
    length: int
    digest: bytes

    def __repr__(self) -> str:
        return f"ObjectValue({self.length})"


def object_values(source: Path | bytes) -> dict[AttributePath, dict[bytes, ObjectValue]]:
    """Read the values of a DICOM file: attribute -> digest -> value, each once.

    Raises
    ------
    MalformedFile
        The file cannot be read to its last byte.
    """
    parsed = read(source)
    found: dict[AttributePath, dict[bytes, ObjectValue]] = {}
    encodings = (parsed.value(_CHARACTER_SET) or b"").decode("ascii", "replace")
    for path, vr, start, end in _leaves(parsed):
        value = _value(parsed, vr, start, end, encodings)
        found.setdefault(path, {})[value.digest] = value
    return found


def _leaves(parsed: Parsed) -> Iterator[tuple[AttributePath, bytes, int, int]]:
    """Yield every element with a value: its attribute, VR, start and end."""
    creators: dict[tuple[int, int, int], str] = {}
    paths: dict[int, tuple[str, bool]] = {-1: ("", False)}
    for index, (tag, vr, start, end, item) in enumerate(parsed.elements):
        group, element = tag >> 16, tag & 0xFFFF
        if group == _STRUCTURE:
            continue
        if group % 2 and 0x10 <= element <= 0xFF:
            creators[item, group, element] = _plain(parsed.buffer, start, end)
        above, inside = paths[parsed.items[item][0] if item >= 0 else -1]
        private = bool(group % 2) or inside
        name = _private(creators, item, group, element) if group % 2 else _keyword(tag)
        path = f"{above}.{name}" if above else name
        if vr == b"SQ":
            paths[index] = path, private
            continue
        yield AttributePath(path, vr.decode("ascii", "replace"), private), vr, start, end


def _private(creators: dict[tuple[int, int, int], str], item: int, group: int, element: int) -> str:
    if element <= 0xFF:
        return f"({group:04X},{element:04X})"
    creator = creators.get((item, group, element >> 8), "")
    return f'({group:04X},"{creator}",{element & 0xFF:02X})'


@lru_cache(maxsize=8192)
def _keyword(tag: int) -> str:
    from pydicom.datadict import keyword_for_tag

    return keyword_for_tag(tag) or f"({tag >> 16:04X},{tag & 0xFFFF:04X})"


def _plain(buffer: Buffer, start: int, end: int) -> str:
    return bytes(buffer[start : min(end, start + 64)]).rstrip(b" \0").decode("latin-1")


def _value(parsed: Parsed, vr: bytes, start: int, end: int, encodings: str) -> ObjectValue:
    whole = memoryview(parsed.buffer)[start:end]
    digest = blake2b(whole, digest_size=16).digest()
    head = bytes(whole[:_READ])
    whole.release()
    text = _text(vr, head, end - start, encodings, little=parsed.little)
    return ObjectValue(text[:SHOWN], end - start, digest)


def _text(vr: bytes, head: bytes, length: int, encodings: str, *, little: bool) -> str:
    if vr in _NUMBERS:
        size = struct.calcsize(_NUMBERS[vr])
        count = min(len(head), SHOWN) // size
        numbers = struct.unpack(f"{'<' if little else '>'}{count}{_NUMBERS[vr]}", head[: count * size])
        return "\\".join(f"{one:g}" if isinstance(one, float) else str(one) for one in numbers)
    if vr in _BULK or (vr == b"UN" and not _PLAIN.fullmatch(head.rstrip(b"\0"))):
        return f"{length:,} bytes"
    head = head.rstrip(b" \0")
    if head.isascii() and b"\x1b" not in head:
        return head.decode("ascii")
    return _decoded(head, encodings)


def _decoded(head: bytes, encodings: str) -> str:
    from pydicom.charset import convert_encodings, decode_bytes

    try:
        names = convert_encodings(encodings.split("\\"))
        return decode_bytes(head, names, {0x0A, 0x0C, 0x0D, 0x09, 0x5C, 0x5E})
    except (LookupError, ValueError, UserWarning):
        return head.decode("utf-8", "replace")
