"""The files that a DICOMDIR lists (PS3.3 Annex F, Basic Directory IOD)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from medsanitize.policies.model import Limits
from medsanitize.sanitize.formats.dicom.elements import (
    ITEM,
    ITEM_END,
    SEQUENCE_END,
    item_headers,
    item_layout,
    read_element_header,
    skip_sequence,
    skip_undefined,
)
from medsanitize.sanitize.formats.dicom.file import open_dicom
from medsanitize.sanitize.formats.dicom.transfer_syntax import UNDEFINED, Layout
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

_RECORDS: Final = 0x00041220
_IN_USE, _FILE_ID, _SOP_INSTANCE = 0x00041410, 0x00041500, 0x00041511
_MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True, repr=False)
class ListedFile:
    """A file that a DICOMDIR lists: its path relative to the DICOMDIR, and its SOP Instance UID."""

    path: bytes
    sop_uid: str

    def __repr__(self) -> str:
        return "ListedFile(...)"


def listed_files(data: Buffer, limits: Limits) -> tuple[ListedFile, ...]:
    """Return the files that the records in use of a DICOMDIR refer to.

    Raises
    ------
    Quarantined
        The DICOMDIR cannot be read.
    """
    container = open_dicom(data, limits)
    buf, layout, pos, end = container.buf, container.syntax.layout, container.start, len(container.buf)
    found: list[ListedFile] = []
    while end - pos >= 8:
        tag, vr, length, start = read_element_header(buf, pos, end, layout)
        inner = item_layout(vr, layout, buf, start, length, end, _MAX_DEPTH)
        stop = skip_sequence(buf, start, end, inner, _MAX_DEPTH) if length == UNDEFINED else start + length
        if stop > end:
            raise Quarantined("length-past-end")
        if tag == _RECORDS:
            found += [one for one in map(_listed, _items(buf, start, stop, inner)) if one is not None]
        pos = stop
    return tuple(found)


def _items(buf: Buffer, pos: int, end: int, layout: Layout) -> Iterator[dict[int, bytes]]:
    """Yield the values of each item that say which file it refers to."""
    while end - pos >= 8:
        tag, _, length, start = read_element_header(buf, pos, end, item_headers(layout))
        if tag == SEQUENCE_END:
            return
        if tag != ITEM:
            raise Quarantined("malformed-sequence")
        stop = end if length == UNDEFINED else start + length
        if stop > end:
            raise Quarantined("length-past-end")
        values: dict[int, bytes] = {}
        pos = _read_item(buf, start, stop, layout, values)
        yield values


def _read_item(buf: Buffer, pos: int, end: int, layout: Layout, values: dict[int, bytes]) -> int:
    while end - pos >= 8:
        tag, vr, length, start = read_element_header(buf, pos, end, layout)
        if tag == ITEM_END:
            return start
        if length == UNDEFINED:
            pos = skip_undefined(buf, start, end, vr, layout, _MAX_DEPTH)
            continue
        pos = start + length
        if pos > end:
            raise Quarantined("length-past-end")
        if tag in (_IN_USE, _FILE_ID, _SOP_INSTANCE):
            values[tag] = bytes(buf[start:pos])
    return pos


def _listed(values: dict[int, bytes]) -> ListedFile | None:
    # 0 marks a record that is no longer in use (PS3.3 F.3.2.2, retired with the consistency of file-sets).
    path = b"/".join(part.strip(b" \0") for part in values.get(_FILE_ID, b"").split(b"\\"))
    if not path.strip(b"/") or values.get(_IN_USE) == b"\0\0":
        return None
    return ListedFile(path, values.get(_SOP_INSTANCE, b"").decode("latin-1").strip(" \0"))
