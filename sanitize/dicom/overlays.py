"""Overlay planes (PS3.3 C.9.2) that the policy keeps (PS3.15 E.3.3, Clean Graphics).

Planes are trimmed to their size, their texts are cleaned, and their bitmaps are read for text, by themselves
and drawn over the pixels. Only complete one-bit planes at the top level of little endian data sets are kept;
curves (50xx) are always removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from medsanitize.sanitize.dicom.actions import apply_rule
from medsanitize.sanitize.dicom.assemble import put_element
from medsanitize.sanitize.dicom.rules import GENERIC, AttributeRules, Rule, Scope
from medsanitize.sanitize.formats.dicom.transfer_syntax import encode_element

if TYPE_CHECKING:
    from medsanitize.sanitize.dicom.walk_state import WalkState

DATA = 0x3000
_ROWS, _COLUMNS, _FRAMES, _TYPE, _BITS, _POSITION = 0x0010, 0x0011, 0x0015, 0x0040, 0x0100, 0x0102
ORIGIN, FIRST_FRAME = 0x0050, 0x0051
"""Overlay Origin, Image Frame Origin."""
_VRS = {
    _ROWS: b"US",
    _COLUMNS: b"US",
    _FRAMES: b"IS",
    0x0022: b"LO",
    _TYPE: b"CS",
    0x0045: b"LO",
    ORIGIN: b"SS",
    FIRST_FRAME: b"US",
    _BITS: b"US",
    _POSITION: b"US",
    0x1001: b"CS",
    0x1301: b"IS",
    0x1302: b"DS",
    0x1303: b"DS",
    0x1500: b"LO",
}
_LENGTHS = {_ROWS: 2, _COLUMNS: 2, ORIGIN: 4, FIRST_FRAME: 2, _BITS: 2, _POSITION: 2}
_TYPES = (b"G", b"R")
_MOST_BITS = 1 << 28  # 32 MiB, which the reader expands eightfold

Reader = Callable[[bytes, int, int, int], bytes | None]
"""Bits, rows, columns and frames of a plane -> its cleaned bits; ``None`` if they cannot be proved clean."""


@dataclass(frozen=True, slots=True)
class Bitmap:
    """The bitmap of a plane: packed bits of its frames, and their size."""

    data: bytes
    rows: int
    columns: int
    frames: int


def is_plane(group: int) -> bool:
    """Return whether a group is one of the sixteen groups of overlay planes (6000 to 601E, even)."""
    return 0x6000 <= group <= 0x601E and not group & 1


def overlay_action(book: AttributeRules, group: int, *, cleaned: bool) -> str:
    """Return the action of the policy for the bitmap of a plane: ``K``, ``C`` or ``X``.

    Parameters
    ----------
    book : AttributeRules
    group : int
    cleaned : bool
        Whether the policy enables Clean Graphics.
    """
    override = book.override(group << 16 | DATA)
    if override is not None:
        return override if override in ("K", "C") else "X"
    return "C" if cleaned else "X"


def is_cleaned(walk: WalkState, group: int) -> bool:
    """Return whether the policy cleans the bitmap of a plane, instead of keeping it as it is."""
    cleaned = walk.job.policy.dicom.options.clean_graphics
    return overlay_action(walk.book, group, cleaned=cleaned) == "C"


def kept_planes(walk: WalkState, reader: Callable[[], Reader] | None = None) -> dict[int, Bitmap]:
    """Return the planes that the policy keeps, each cleaned by itself.

    Parameters
    ----------
    walk : WalkState
        Its ``overlays`` are the collected planes.
    reader : callable, optional
        Creates the cleaner of bitmaps, when the first plane needs it. Without it, planes with action ``C``
        are removed.

    Returns
    -------
    dict
        Group -> bitmap.
    """
    found = {}
    for group, values in sorted(walk.overlays.items()):
        bitmap = _bitmap(values)
        if bitmap is not None and is_cleaned(walk, group):
            new = reader()(bitmap.data, bitmap.rows, bitmap.columns, bitmap.frames) if reader else None
            bitmap = replace(bitmap, data=new) if new is not None else None
        if bitmap is not None:
            found[group] = bitmap
    return found


def put_planes(walk: WalkState, scope: Scope, out: list[bytes], planes: Mapping[int, Bitmap]) -> None:
    """Write planes into a rewritten data set.

    Parameters
    ----------
    walk : WalkState
        Its ``overlays`` are the collected planes.
    scope : Scope
        The top level of the object's IOD.
    out : list of bytes
        The rewritten elements; changed in place.
    planes : dict
        Group -> the bitmap to write; other collected planes are removed.
    """
    for group, values in sorted(walk.overlays.items()):
        walk.rules.append("C:overlay" if group in planes else "X:overlay")
        if group not in planes:
            continue
        for number in sorted(values.keys() & _VRS.keys()):
            tag = group << 16 | number
            put_element(out, walk.target, tag, _element(walk, scope, tag, values[number]))
        tag = group << 16 | DATA
        put_element(out, walk.target, tag, encode_element(walk.target, tag, b"OW", planes[group].data))


def _bitmap(values: dict[int, bytes]) -> Bitmap | None:
    """The bitmap of a plane; ``None`` if its attributes are inconsistent."""
    rows, columns = (int.from_bytes(values.get(tag, b""), "little") for tag in (_ROWS, _COLUMNS))
    frames = values.get(_FRAMES, b"1").strip(b" \0")
    # Other values mean that the plane is in unused bits of the pixel data, which is retired (PS3.5 8.1.2).
    plain = values.get(_BITS, b"\1\0") == b"\1\0" and values.get(_POSITION, b"\0\0") == b"\0\0"
    if not frames.isdigit() or len(frames) > 6 or not plain or values.get(_TYPE, b"").strip() not in _TYPES:
        return None
    bits = rows * columns * int(frames)
    data = values.get(DATA, b"")[: -(-bits // 8)]
    if not 0 < bits <= _MOST_BITS or len(data) * 8 < bits:
        return None
    # Padding bits of the last byte must not carry data.
    if bits % 8:
        data = data[:-1] + bytes([data[-1] & (1 << bits % 8) - 1])
    return Bitmap(data, rows, columns, int(frames))


def _element(walk: WalkState, scope: Scope, tag: int, value: bytes) -> bytes | None:
    """Rewrite an element of a plane other than the bitmap; ``None`` when it is removed."""
    number = tag & 0xFFFF
    if len(value) != _LENGTHS.get(number, len(value)):
        return None
    override = walk.book.override(tag)
    rule = Rule(override or GENERIC, "policy" if override else "option", "")
    vr, new, _, _ = apply_rule(walk.job, scope, rule, tag, _VRS[number], value)
    return encode_element(walk.target, tag, vr, new) if new else None
