"""Find the parts of image data where an identifier is possible: long runs of bytes that identifiers consist
of.

Encoded images resemble random data, in which nine letters in a row are rare. About a thousandth of the data
passes this filter, so the search itself takes little time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_RUN: Final = 9
"""Length of the shortest value that is always found."""
_WORD: Final = 4
_WORD_MARKED: Final = 0x01010101
_FOLLOWING: Final = 2
_BEFORE: Final = _WORD - 1
_AFTER: Final = _WORD + _FOLLOWING - 1
"""No run starts further before its first marked word, or ends further behind its last one."""
_IN_TURN: Final = (1, 0, 3, 2, 5, 4)
"""Offsets in and after a word, first those with the high bytes of samples, which are rarely letters."""
_TWO_MARKED: Final = 0x0101
_ASCII: Final = 128
BLOCK: Final = 1 << 18
"""Bytes processed together; few enough for all intermediate arrays to stay in the processor cache."""


def byte_table(letters: bytes) -> bytes | None:
    """Return a table that marks ``letters`` with 1, for `candidate_runs`; None if more than 128 bytes are
    marked.

    With more marked bytes the filter passes too much to save time.
    """
    table = bytearray(256)
    for one in set(letters):
        table[one] = 1
    return None if sum(table) > 128 else bytes(table)


def candidate_runs(chunk: bytes, table: bytes) -> Iterator[bytes]:
    """Yield pieces that contain every run of `MIN_RUN` or more marked bytes, with a few adjacent bytes.

    Such a run contains an aligned word of four marked bytes followed by two more; these words are rare and
    are examined. If NUL is marked, words of four NULs, the background of most images, are left out of pieces;
    what precedes and follows them stays in one piece.

    Parameters
    ----------
    chunk : bytes
        Image data.
    table : bytes
        Result of `byte_table`.
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
                yield b"".join([*parts, chunk[begin : reached + _AFTER]])
            parts, begin = [], max(start - _BEFORE, 0)
        reached = stop
    if reached:
        yield b"".join([*parts, chunk[begin : reached + _AFTER]])


def _aligned(chunk: bytes, table: bytes) -> NDArray[np.int64]:
    """Return candidates for aligned marked words followed by two marked bytes; some are false."""
    import numpy as np

    top = len(table.rstrip(b"\0"))
    found = []
    for start in range(0, len(chunk), BLOCK):
        stop = start + BLOCK + _WORD
        if top <= _ASCII:
            few = np.frombuffer(chunk, np.uint8)[start:stop] < top  # one operation; exact marks need several
        else:
            few = np.frombuffer(chunk[start:stop].translate(table), np.bool_)
        words = few[: len(few) // _WORD * _WORD].view("<u4")
        at = (words[:-1] == _WORD_MARKED) & (words[1:] & _TWO_MARKED == _TWO_MARKED)
        at &= np.frombuffer(chunk, "<u4", len(at), start) != 0
        found.append(start + _WORD * np.flatnonzero(at))
    last = (len(chunk) - _WORD - _FOLLOWING) // _WORD * _WORD
    if last >= 0 and last > len(chunk) // _WORD * _WORD - 2 * _WORD:
        found.append(np.array([last]))  # the bytes behind it are no whole word
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _is_long(data: NDArray[np.uint8], marked: NDArray[np.bool_], at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each marked word, whether it belongs to a run of at least `MIN_RUN` marked bytes."""
    import numpy as np

    length = np.full(len(at), _WORD)
    for step in (-1, 1):
        going = np.ones(len(at), bool)
        for distance in range(1, MIN_RUN - _WORD + 1):
            place = at + (-distance if step < 0 else _WORD - 1 + distance)
            inside = (place >= 0) & (place < len(data))
            going &= inside & marked[data[place.clip(0, len(data) - 1)]]
            length += going
    return length >= MIN_RUN
