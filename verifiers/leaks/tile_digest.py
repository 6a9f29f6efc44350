"""Digest of the encoded tiles of a DICOM whole-slide image, comparable with that of vendor formats.

A scan that a converter copied tile by tile into DICOM is thus found in both formats.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from medsanitize.verifiers.leaks.dicom_conformance import NATIVE
from medsanitize.verifiers.leaks.dicom_reader import PIXEL_DATA, Parsed
from medsanitize.verifiers.leaks.slide_layout import Range
from medsanitize.verifiers.leaks.slide_single_pass import sums_of

_WHOLE_SLIDE: Final = b"1.2.840.10008.5.1.4.1.1.77.1.6"
"""VL Whole Slide Microscopy Image Storage."""
_SOP_CLASS: Final = 0x00080016
_COLUMN, _ROW = 0x0048021E, 0x0048021F
"""Column and Row Position In Total Image Pixel Matrix (PS3.3 C.8.12.6.1) of sparse tiles."""
_PADDED: Final = b"\xff\xd9\0"
"""End of a JPEG of odd length, in a fragment of even length (PS3.5 A.4)."""
_HEAD: Final = 8
_ITEM: Final = struct.Struct("<HHL")


def frames_digest(parsed: Parsed) -> str | None:
    """Return a digest of the encoded frames of a whole-slide image, row by row.

    Computed as `medsanitize.verifiers.leaks.slide_audit.tile_digests` does: length and CRC-32 of each tile,
    of JPEG from the first scan, so that comments, application segments and tables have no influence.

    Returns
    -------
    str or None
        64 hexadecimal digits; None for other objects, native samples, and frames of several fragments. Not to
        be published: the original file has the same digest.
    """
    if parsed.value(_SOP_CLASS) != _WHOLE_SLIDE or parsed.transfer_syntax in NATIVE:
        return None
    frames = _frames(parsed)
    stated = (parsed.value(0x00280008) or b"1").strip()
    if not frames or stated != str(len(frames)).encode():
        return None
    placed = _in_rows(parsed, frames)
    return sha256(sums_of(parsed.buffer, placed)).hexdigest()


def _frames(parsed: Parsed) -> list[Range]:
    """Return the ranges of the fragments, without the offset table and their padding."""
    place = next((one for one in parsed.elements if one[0] == PIXEL_DATA and one[4] < 0), None)
    if place is None:
        return []
    _, _, at, end, _ = place
    found: list[Range] = []
    while at + _HEAD <= end:
        group, number, length = _ITEM.unpack_from(parsed.buffer, at)
        if (group, number) != (0xFFFE, 0xE000):
            break
        start, at = at + _HEAD, at + _HEAD + length
        padded = parsed.buffer[at - len(_PADDED) : at] == _PADDED
        found.append((start, at - 1 if padded else at))
    # The first item is the Basic Offset Table (PS3.5 A.4), even if empty.
    return found[1:]


def _in_rows(parsed: Parsed, frames: Sequence[Range]) -> list[Range]:
    """Sort frames by their stated position; without positions they are in order already."""
    axes = [
        [
            int.from_bytes(parsed.buffer[start:end], "little", signed=True)
            for found, _, start, end, _ in parsed.elements
            if found == tag
        ]
        for tag in (_ROW, _COLUMN)
    ]
    if any(len(axis) != len(frames) for axis in axes):
        return list(frames)
    order = sorted(range(len(frames)), key=lambda number: (axes[0][number], axes[1][number]))
    return [frames[number] for number in order]
