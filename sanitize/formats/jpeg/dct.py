"""Blanking of JPEG frames in the DCT domain: blanked blocks become flat, all others stay unchanged.

Only sequential Huffman frames of 8 bits (T.81 processes 1 and 2) are edited; libjpeg does the entropy
coding, through jpeglib. Decoders that interpolate chroma may show a difference of one pixel around an
area, because a neighboring block changed; the coefficients there do not change. Blanked blocks get the level
of the blocks around them (see `medsanitize.sanitize.formats.ground`), or black where these are not flat.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Area, snap_area
from medsanitize.sanitize.formats.frame_header import read_frame_header
from medsanitize.sanitize.formats.ground import MOST_GROUNDS, SPREAD, flat_value, mask_of, touching_groups
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

_SEQUENTIAL = frozenset([0xC0, 0xC1])
_RGB, _GRAY = 2, 1
# Values of each component by color model, as jpeglib numbers the models.
_BLACK = {_GRAY: (0,), _RGB: (0, 0, 0)}
_BLACK_YCC = (0, 128, 128)
_WHITE_VALUE = (255,)
_SOS = 0xDA
# An AC coefficient of 4 changes samples by at most 1 (T.81 A.3.3).
_AC = 4
# Level of a block with a pattern: no ground has it.
_PATTERN = 1 << 40


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Quantized coefficients of one frame; each component has shape (block rows, block columns, 64)."""

    components: tuple[NDArray[np.int16], ...]
    tables: NDArray[np.uint16]
    table_of: tuple[int, ...]
    size: tuple[int, int]
    sampling: tuple[tuple[int, int], ...]
    model: int

    @property
    def unit(self) -> tuple[int, int]:
        """Width and height in pixels of a minimum coded unit (T.81 A.2.3)."""
        return 8 * max(h for _, h in self.sampling), 8 * max(v for v, _ in self.sampling)


def is_editable(frame: bytes) -> bool:
    """Return whether `blank_blocks` supports the frame."""
    stated = read_frame_header(frame, "jpeg")
    return (
        stated is not None and stated.process in _SEQUENTIAL and stated.bits == 8 and stated.samples in (1, 3)
    )


def blank_blocks(frame: bytes, areas: Sequence[Area], *, white: bool) -> bytes:
    """Blank the blocks of one frame that ``areas`` touch.

    Parameters
    ----------
    frame : bytes
        A frame that `is_editable`.
    areas : sequence of Area
        Areas in pixels.
    white : bool
        Whether the highest value is displayed as black (MONOCHROME1).

    Raises
    ------
    Quarantined
        ``pixels-not-rewritten`` unless the new frame, read again, has flat blanked blocks, and all other
        blocks, tables, size and color model unchanged.
    """
    with _files(frame) as (source, target, written):
        old = _read(source)
        # A blanked area must look black in MONOCHROME1 too.
        values = _WHITE_VALUE if white and old.model == _GRAY else _BLACK.get(old.model, _BLACK_YCC)
        wanted = _blanked(old, areas, values)
        _write(source, target, old, wanted)
        new = _with_application_segments(written(), frame)
    # The written frame is read again and compared: a codec error must not release a blanked area.
    with _files(new) as (source, _, _):
        found = _read(source)
    same = all(np.array_equal(a, b) for a, b in zip(found.components, wanted, strict=True))
    tables = all(
        np.array_equal(found.tables[a], old.tables[b])
        for a, b in zip(found.table_of, old.table_of, strict=True)
    )
    if not same or not tables or (found.size, found.sampling) != (old.size, old.sampling):
        raise Quarantined("pixels-not-rewritten", "pixels")
    if found.model != old.model or read_frame_header(new, "jpeg") is None:
        raise Quarantined("pixels-not-rewritten", "pixels")
    return new


def _blanked(old: _Blocks, areas: Sequence[Area], values: tuple[int, ...]) -> tuple[NDArray[np.int16], ...]:
    """Return the coefficients with flat areas: one DC value, no AC."""
    width, height = old.unit
    snapped = [snap_area(area, old.size, width, height) for area in areas]
    # In minimum coded units, so that an area has the same bounds in every component.
    units = [
        (x // width, y // height, -(-right // width), -(-bottom // height)) for x, y, right, bottom in snapped
    ]
    made = tuple(blocks.copy() for blocks in old.components)
    # The DC coefficient is stored divided by its quantization step.
    steps = [int(old.tables[table, 0]) for table in old.table_of]
    black = [_level(value, step) for value, step in zip(values, steps, strict=True)]
    for group in touching_groups(units):
        for part, found in _parts(old, group, units):
            for blocks, sampling, level in zip(made, old.sampling, found or black, strict=True):
                inside = mask_of(_in_blocks(part, sampling), blocks.shape)
                blocks[inside] = 0
                blocks[inside, 0] = level
    return made


def _parts(
    old: _Blocks, group: Sequence[Area], blanked: Sequence[Area]
) -> list[tuple[Sequence[Area], list[int] | None]]:
    """Return the parts of a group with their levels; where two grounds meet, rows of units are parts."""
    levels = _ground(old, group, blanked)
    if levels is not None:
        return [(group, levels)]
    rows = [(row, _ground(old, row, blanked, down=0)) for row in _rows(group)]
    grounds = {tuple(found) for _, found in rows if found is not None}
    return [*rows] if len(grounds) <= MOST_GROUNDS else [(group, None)]


def _rows(group: Sequence[Area]) -> list[list[Area]]:
    """Divide areas in minimum coded units into rows of units."""
    tops = range(min(area[1] for area in group), max(area[3] for area in group))
    return [
        [(left, row, right, row + 1) for left, top, right, bottom in group if top <= row < bottom]
        for row in tops
    ]


def _ground(
    old: _Blocks, group: Sequence[Area], blanked: Sequence[Area], *, down: int = 1
) -> list[int] | None:
    """Return the DC coefficient of the blocks around a group by component; None if they are not flat.

    Parameters
    ----------
    old : _Blocks
    group, blanked : sequence of Area
        The areas to fill, and all areas that are blanked, in minimum coded units.
    down : int, optional
        Rows above and below that count as well.
    """
    around = [(left - 1, top - down, right + 1, bottom + down) for left, top, right, bottom in group]
    found = []
    for blocks, sampling, table in zip(old.components, old.sampling, old.table_of, strict=True):
        ring = mask_of(_in_blocks(around, sampling), blocks.shape)
        ring &= ~mask_of(_in_blocks(blanked, sampling), blocks.shape)
        steps = old.tables[table].astype(np.int64)
        values = blocks[ring] * steps
        flat = np.abs(values[:, 1:]).max(axis=1, initial=0) <= _AC * SPREAD
        level = flat_value(np.where(flat, values[:, 0], _PATTERN), 8 * SPREAD)
        if level is None or int(level) == _PATTERN:
            return None
        found.append(int(level) // int(steps[0]))
    return found


def _in_blocks(units: Sequence[Area], sampling: tuple[int, int]) -> list[Area]:
    """Return areas in minimum coded units as areas in blocks of a component."""
    vertical, horizontal = sampling
    return [
        (max(left, 0) * horizontal, max(top, 0) * vertical, right * horizontal, bottom * vertical)
        for left, top, right, bottom in units
    ]


def _level(value: int, step: int) -> int:
    """Return the DC coefficient that decodes to ``value``; 0 and 255 are exact, because decoders clamp."""
    exact = (value - 128) * 8
    return -(-exact // step) if exact > 0 else exact // step


@contextmanager
def _files(frame: bytes) -> Iterator[tuple[bytes, bytes, Any]]:
    """Yield paths of a source and a target, and a function that reads the target.

    Both exist in memory only, or in a private folder where the system has no ``memfd_create``.
    """
    # jpeglib accepts only paths, and the frame contains PHI that must not reach a disk.
    if hasattr(os, "memfd_create"):
        source, target = os.memfd_create("jpeg"), os.memfd_create("jpeg")
        try:
            with os.fdopen(os.dup(source), "wb") as file:
                file.write(frame)
            yield (
                f"/proc/self/fd/{source}".encode(),
                f"/proc/self/fd/{target}".encode(),
                lambda: os.pread(target, os.fstat(target).st_size, 0),
            )
        finally:
            os.close(source)
            os.close(target)
        return
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:  # mode 0700
        first, second = Path(folder, "source"), Path(folder, "target")
        first.write_bytes(frame)
        yield os.fsencode(first), os.fsencode(second), second.read_bytes


def _library() -> Any:
    from jpeglib._bind import CJpegLib  # type: ignore[import-untyped]

    return CJpegLib.get()


def _read(path: bytes) -> _Blocks:
    library = _library()
    dims, size, counts = (ctypes.c_int * 8)(), (ctypes.c_int * 2)(), (ctypes.c_int * 3)()
    sampling, models, scans = (ctypes.c_int * 8)(), (ctypes.c_int * 2)(), (ctypes.c_int * 1)()
    flags = (ctypes.c_uint * 1)()
    asked = (path, dims, size, counts, sampling, models, None, None, None, None, scans, flags)
    if library.read_jpeg_info(*asked) == 0 or counts[0] not in (1, 3):
        raise Quarantined("pixels-undecodable", "pixels")
    shapes = [(dims[2 * i], dims[2 * i + 1], 64) for i in range(counts[0])]
    blocks = tuple(np.zeros(shape, np.int16) for shape in shapes)
    tables, table_of = np.zeros((4, 64), np.uint16), np.zeros(4, np.int16)
    pointers = [_pointer(one) for one in blocks] + [None] * (4 - len(blocks))
    if library.read_jpeg_dct(path, *pointers, _pointer(tables), _pointer(table_of)) == 0:
        raise Quarantined("pixels-undecodable", "pixels")
    factors = tuple((sampling[2 * i], sampling[2 * i + 1]) for i in range(counts[0]))
    assigned = tuple(int(one) for one in table_of[: counts[0]])
    return _Blocks(blocks, tables, assigned, (size[0], size[1]), factors, models[1])


def _write(source: bytes, target: bytes, old: _Blocks, wanted: tuple[NDArray[np.int16], ...]) -> None:
    """Write ``wanted`` with the tables, component IDs and sampling factors of the source."""
    from jpeglib._bind import CJpegLib

    size = (ctypes.c_int * 2)(*old.size)
    dims = (ctypes.c_int * 8)(*(side for one in wanted for side in one.shape[:2]))
    pointers = [_pointer(one) for one in wanted] + [None] * (4 - len(wanted))
    # The source's Huffman tables may lack a symbol that a flat block needs.
    masks = CJpegLib.flags_to_mask(["+OPTIMIZE_CODING"])
    rest = (size, dims, None, old.model, len(wanted), None, ctypes.c_short(-1), None, 0, None, None, None)
    if _library().write_jpeg_dct(source, target, *pointers, *rest, *masks) == 0:
        raise Quarantined("pixels-not-rewritten", "pixels")


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _with_application_segments(new: bytes, old: bytes) -> bytes:
    """Return ``new`` with the APPn segments of ``old``, from which decoders choose the color model."""
    kept = [segment for marker, segment in _segments(old)[0] if 0xE0 <= marker <= 0xEF]
    segments, scan = _segments(new)
    rest = [segment for marker, segment in segments if not 0xE0 <= marker <= 0xEF]
    return b"".join([b"\xff\xd8", *kept, *rest, new[scan:]])


def _segments(frame: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """Return (marker, segment) of everything before the first scan, and the offset of the scan."""
    found: list[tuple[int, bytes]] = []
    pos = 2
    while pos + 4 <= len(frame) and frame[pos] == 0xFF:
        marker = frame[pos + 1]
        if marker == _SOS:
            return found, pos
        if marker == 0xFF:
            pos += 1
            continue
        stop = pos + 2 + int.from_bytes(frame[pos + 2 : pos + 4], "big")
        found.append((marker, frame[pos:stop]))
        pos = stop
    raise Quarantined("pixels-undecodable", "pixels")
