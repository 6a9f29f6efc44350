"""Sample data outside the pixel data, trimmed to the length that other attributes state.

Look-up tables (PS3.3 C.11.1, C.7.6.3.1.6, C.7.9.2), waveforms (C.10.9), surfaces (C.27.1) and deformation
grids (C.20.3). Bytes beyond the stated length could hide anything; data without a stated length is removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from math import prod

_CHANNELS, _SAMPLES, _SAMPLE_BITS = 0x003A0005, 0x003A0010, 0x54001004
_POINTS, _VECTORS, _DIMENSIONS, _GRID = 0x00660015, 0x0066001E, 0x0066001F, 0x00640007
_WAVEFORM, _PADDING = 0x54001010, 0x5400100A
_POINT_DATA, _VECTOR_DATA, _GRID_DATA = 0x00660016, 0x00660021, 0x00640009
_LUTS = {
    0x00283006: 0x00283002,
    0x00281201: 0x00281101,
    0x00281202: 0x00281102,
    0x00281203: 0x00281103,
    0x00281204: 0x00281101,
    0x00281408: 0x00281407,
}
_SEGMENTED = {0x00281221: 0x00281101, 0x00281222: 0x00281102, 0x00281223: 0x00281103, 0x00281224: 0x00281101}
"""Look-up table data, plain and segmented -> descriptor: entries, first value, bits."""
# Retired tables have descriptors of their own, which are not read: they are removed.
_RETIRED = frozenset([0x00281200, 0x00281211, 0x00281212, 0x00281213])

_WIDTHS = {_CHANNELS: 2, _SAMPLES: 4, _SAMPLE_BITS: 2, _POINTS: 4, _VECTORS: 4, _DIMENSIONS: 2, _GRID: 4}
_WIDTHS |= dict.fromkeys([*_LUTS.values(), *_SEGMENTED.values()], 2)
_DISCRETE, _LINEAR, _INDIRECT = 0, 1, 2

DATA = frozenset([*_LUTS, *_SEGMENTED, *_RETIRED, _WAVEFORM, _PADDING, _POINT_DATA, _VECTOR_DATA, _GRID_DATA])
"""Attributes that ``trim_to_counts`` trims."""
COUNTS = frozenset(_WIDTHS)
"""Attributes of the same data set or item that state their length."""

LOOKUP_TABLES = frozenset([*_LUTS, *_SEGMENTED])
"""Those of them whose entries are few enough to be read as text."""

# Words of one case, or with a capital: entries that are chosen for an image hit letters of both at random.
_WORDS = re.compile(rb"(?:(?:[A-Z]?[a-z]{2,}|[A-Z]{3,})[ ,.^'-]{0,2})+")
_SHORTEST_TEXT = 16
_SHORTEST_WORD = 6

Counts = dict[int, tuple[int, ...]]


def unsigned_numbers(tag: int, value: bytes, *, big: bool) -> tuple[int, ...]:
    """Decode the unsigned numbers of an attribute in ``COUNTS``."""
    width, order = _WIDTHS[tag], "big" if big else "little"
    return tuple(
        int.from_bytes(value[at : at + width], order)  # type: ignore[arg-type]
        for at in range(0, len(value) - width + 1, width)
    )


def spells_text(value: bytes, words: Collection[str]) -> bool:
    """Report whether the entries of a look-up table are letters of a text, or contain one of some words.

    Parameters
    ----------
    value : bytes
        Entries of one byte, or of two of which each, one or none is a letter.
    words : collection of str
        Folded words; short ones are not looked for, since they are found by chance.
    """
    known = [word.encode() for word in words if word.isascii() and len(word) >= _SHORTEST_WORD]
    for letters in (value, value[::2], value[1::2]):
        folded = letters.lower()
        if any(word in folded for word in known):
            return True
        if any(_is_text(found[0]) for found in _WORDS.finditer(letters)):
            return True
    return False


def _is_text(run: bytes) -> bool:
    """Whether letters rise and fall as those of no gradient do."""
    steps = [after - before for before, after in pairwise(run)]
    turns = sum(first * second < 0 for first, second in pairwise(steps))
    return len(run) >= _SHORTEST_TEXT and turns >= len(run) // 3 and not is_ramp(run, 2)


def is_ramp(value: bytes, size: int) -> bool:
    """Whether the numbers are monotonic, as in a look-up table; those of a text are not."""
    places = range(0, len(value) - size + 1, size)
    little = [int.from_bytes(value[at : at + size], "little") for at in places]
    big = [int.from_bytes(value[at : at + size], "big") for at in places]
    return any(cells in (sorted(cells), sorted(cells, reverse=True)) for cells in (little, big))


def trim_to_counts(counts: Counts, tag: int, value: bytes, *, big: bool) -> bytes | None:
    """Trim the value of ``tag`` to its stated length; ``None`` if that is missing or inconsistent.

    Parameters
    ----------
    counts : dict
        ``unsigned_numbers`` of the attributes in ``COUNTS`` of the same data set or item.
    tag : int
        An attribute in ``DATA``.
    value : bytes
    big : bool
        Whether words are big endian.

    Returns
    -------
    bytes or None
        Of even length.
    """
    if tag in _LUTS:
        return _table(counts.get(_LUTS[tag], ()), value, big=big)
    if tag in _SEGMENTED:
        return _segments(counts.get(_SEGMENTED[tag], ()), value, big=big)
    size = _SIZES[tag](counts) if tag in _SIZES else 0
    return value[: size + (size & 1)] if size else None


def _product(counts: Counts, *tags: int) -> int:
    return prod(value for tag in tags for value in counts.get(tag, (0,)))


_SIZES: Mapping[int, Callable[[Counts], int]] = {
    _WAVEFORM: lambda counts: (_product(counts, _CHANNELS, _SAMPLES, _SAMPLE_BITS) + 7) // 8,
    _PADDING: lambda counts: _product(counts, _SAMPLE_BITS) // 8,
    _POINT_DATA: lambda counts: 12 * _product(counts, _POINTS),
    _VECTOR_DATA: lambda counts: 4 * _product(counts, _VECTORS, _DIMENSIONS),
    _GRID_DATA: lambda counts: 12 * _product(counts, _GRID),
}
"""Attribute -> its length in bytes: samples of a waveform, or three 32-bit floats per point."""


def _entries(descriptor: tuple[int, ...]) -> tuple[int, int] | None:
    """Number of entries (0 means 65536, PS3.3 C.7.6.3.1.5) and bits of each."""
    if len(descriptor) != 3 or not 1 <= descriptor[2] <= 16:
        return None
    return descriptor[0] or 1 << 16, descriptor[2]


def _table(descriptor: tuple[int, ...], value: bytes, *, big: bool) -> bytes | None:
    """Trim a look-up table; entries of up to 8 bits have one byte each, or one word with an unused byte."""
    found = _entries(descriptor)
    if found is None:
        return None
    entries, bits = found
    words = value[: 2 * entries]
    if bits <= 8:
        high, low = (words[::2], words[1::2]) if big else (words[1::2], words[::2])
        # The unused byte is zero or, by some writers, a copy; otherwise the table has one byte per entry.
        if len(words) < 2 * entries or (high.strip(b"\0") and high != low):
            return value[: entries + (entries & 1)]
    return words


def _segments(descriptor: tuple[int, ...], value: bytes, *, big: bool) -> bytes | None:
    """Trim a segmented table after the segment that produces its last entry (PS3.3 C.7.9.2)."""
    found = _entries(descriptor)
    if found is None:
        return None
    entries, bits = found
    width, order = 2 if bits > 8 else 1, "big" if big else "little"
    words = [int.from_bytes(value[at : at + width], order) for at in range(0, len(value), width)]  # type: ignore[arg-type]
    made: dict[int, int] = {}
    at = total = 0
    while total < entries:
        if at + 2 >= len(words):
            return None
        code, length = words[at : at + 2]
        if code == _INDIRECT:
            # Indirect segment: number of segments to copy, and the offset of the first (two words).
            step, gives = 4, _copied(made, words[at + 2 : at + 4], length, width)
        else:
            step, gives = (2 + length if code == _DISCRETE else 3), length
        if code not in (_DISCRETE, _LINEAR, _INDIRECT) or not gives or at + step > len(words):
            return None
        made[at] = gives
        total, at = total + gives, at + step
    return value[: at * width + (at * width & 1)] if total == entries else None


def _copied(made: dict[int, int], place: list[int], count: int, width: int) -> int:
    """Number of entries that ``count`` segments from byte offset ``place`` on produce."""
    if len(place) < 2:
        return 0
    offset = place[0] | place[1] << 8 * width
    starts = sorted(made)
    if offset % width or offset // width not in made:
        return 0
    first = starts.index(offset // width)
    return sum(made[start] for start in starts[first : first + count])
