"""Segmented palettes (PS3.3 C.7.9.2): look-up tables stored as runs, lines and references to earlier ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DISCRETE, _LINEAR, _INDIRECT = 0, 1, 2


def expand_segments(data: bytes, bits: int, count: int, *, big: bool) -> NDArray[np.uint16] | None:
    """Expand a segmented look-up table.

    Parameters
    ----------
    data : bytes
        Value of one of the Segmented Palette Color Lookup Table Data attributes.
    bits : int
        Bits of an entry, 8 or 16: third value of the descriptor.
    count : int
        Number of entries: first value of the descriptor.
    big : bool
        Whether words are big endian.

    Returns
    -------
    array or None
        The entries; None if the segments are malformed or do not give ``count`` entries.
    """
    kind = np.dtype(np.uint8) if bits == 8 else np.dtype(">u2" if big else "<u2")
    cells = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind).astype(np.int64)
    try:
        table = _expanded(cells.tolist(), kind.itemsize, count)
    except IndexError:
        return None
    return None if table is None else np.array(table, np.uint16)


def _expanded(cells: list[int], width: int, count: int) -> list[int] | None:
    table: list[int] = []
    at = 0
    while len(table) < count:
        if cells[at] != _INDIRECT:
            at = _append(table, cells, at)
            continue
        # The offset counts bytes and is stored low word first, or as four bytes.
        places = range(at + 2, at + 2 + 4 // width)
        offset = sum(cells[place] << (8 * width * turn) for turn, place in enumerate(places))
        source, number = offset // width, cells[at + 1]
        for _ in range(number):
            # The standard allows no reference to a reference.
            if cells[source] == _INDIRECT:
                return None
            source = _append(table, cells, source)
        at += 2 + 4 // width
    return table if len(table) == count else None


def _append(table: list[int], cells: list[int], at: int) -> int:
    """Append the entries of a discrete or linear segment; return where the next segment begins."""
    opcode, length = cells[at], cells[at + 1]
    if length == 0 or opcode > _LINEAR:
        raise IndexError
    if opcode == _DISCRETE:
        values = cells[at + 2 : at + 2 + length]
        if len(values) != length:
            raise IndexError
        table += values
        return at + 2 + length
    # A line from the last entry, which it does not repeat, to its own end.
    first, last = table[-1], cells[at + 2]
    table += [first + round((last - first) * step / length) for step in range(1, length + 1)]
    return at + 3
