"""Where in image data a known value could stand at all: runs of bytes that known values are made of.

Encoded pictures look like chance, and chance seldom makes nine letters in a row. What is left by this sieve
is a thousandth of the data, so the search proper costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONG: Final = 9
"""Characters of the shortest value that is found."""
_WORD: Final = 4
_ALL: Final = 0x01010101
_MORE: Final = 2
_BEFORE: Final = _WORD - 1
_BEHIND: Final = _WORD + _MORE - 1
"""No run begins in a word before its first, or ends behind its last, that is marked as far as that."""
_IN_TURN: Final = (1, 0, 3, 2, 5, 4)
"""Bytes of a word and behind it; first those that hold the upper halves of samples, seldom letters."""
_TWO: Final = 0x0101
_ASCII: Final = 128
BLOCK: Final = 1 << 18
"""Bytes looked at together: few enough that all that is made of them stays near the processor."""


def byte_table(letters: bytes) -> bytes | None:
    """A table that marks ``letters`` with 1, for `candidate_runs`; None where too many are marked for
    it to pay.
    """
    table = bytearray(256)
    for one in set(letters):
        table[one] = 1
    return None if sum(table) > 128 else bytes(table)


def candidate_runs(chunk: bytes, table: bytes) -> Iterator[bytes]:
    """Pieces that hold every run of `LONG` or more bytes that ``table`` marks, and a few bytes beside them.

    A run that long holds an aligned word of four marked bytes with two more behind it, of which there are
    few; those are looked at. Words of four NULs, which the ground of most pictures is made of, are left out
    of a piece where NUL is marked; what stands before and behind them stays in one.
    """
    import numpy as np

    data, marked = np.frombuffer(chunk, np.uint8), np.frombuffer(table, np.bool_)
    at = _aligned(chunk, table)
    for beyond in _IN_TURN:
        at = at[marked[data[at + beyond]]]
    apart = np.diff(at) != _WORD
    first, last = at[np.append(True, apart)[: len(at)]], at[np.append(apart, True)[: len(at)]]
    long = _is_long(data, marked, first)
    parts: list[bytes] = []
    begin = reached = 0
    for start, stop in zip(first[long].tolist(), (last[long] + _WORD).tolist(), strict=True):
        if reached and table[0] and not chunk[reached:start].strip(b"\0"):
            parts.append(chunk[begin:reached])
            begin = start
        else:
            if reached:
                yield b"".join([*parts, chunk[begin : reached + _BEHIND]])
            parts, begin = [], max(start - _BEFORE, 0)
        reached = stop
    if reached:
        yield b"".join([*parts, chunk[begin : reached + _BEHIND]])


def _aligned(chunk: bytes, table: bytes) -> NDArray[np.int64]:
    """Where aligned words with two bytes behind them could be marked; of some only the look tells."""
    import numpy as np

    top = len(table.rstrip(b"\0"))
    found = []
    for start in range(0, len(chunk), BLOCK):
        stop = start + BLOCK + _WORD
        if top <= _ASCII:
            few = np.frombuffer(chunk, np.uint8)[start:stop] < top  # one step, where exact marks take many
        else:
            few = np.frombuffer(chunk[start:stop].translate(table), np.bool_)
        words = few[: len(few) // _WORD * _WORD].view("<u4")
        at = (words[:-1] == _ALL) & (words[1:] & _TWO == _TWO)
        at &= np.frombuffer(chunk, "<u4", len(at), start) != 0
        found.append(start + _WORD * np.flatnonzero(at))
    last = (len(chunk) - _WORD - _MORE) // _WORD * _WORD
    if last >= 0 and last > len(chunk) // _WORD * _WORD - 2 * _WORD:
        found.append(np.array([last]))  # bytes behind it are no whole word
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _is_long(data: NDArray[np.uint8], marked: NDArray[np.bool_], at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each marked word, whether the marked bytes beside it make it a long run."""
    import numpy as np

    length = np.full(len(at), _WORD)
    for step in (-1, 1):
        going = np.ones(len(at), bool)
        for distance in range(1, LONG - _WORD + 1):
            place = at + (-distance if step < 0 else _WORD - 1 + distance)
            inside = (place >= 0) & (place < len(data))
            going &= inside & marked[data[place.clip(0, len(data) - 1)]]
            length += going
    return length >= LONG
