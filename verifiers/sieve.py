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
_TWO: Final = 0x0101


def could_be(letters: bytes) -> bytes | None:
    """A table that marks ``letters`` with 1, for `runs`; None where too many are marked for it to pay."""
    table = bytearray(256)
    for one in set(letters):
        table[one] = 1
    return None if sum(table) > 128 else bytes(table)


def runs(chunk: bytes, table: bytes) -> Iterator[bytes]:
    """Every run of `LONG` or more bytes that ``table`` marks.

    A run that long holds an aligned word of four marked bytes, of which there are few; those are looked at.
    """
    import numpy as np

    marked = chunk.translate(table)
    flags = np.frombuffer(marked, np.uint8)
    words = flags[: len(flags) // _WORD * _WORD].view(np.uint32)
    at = np.flatnonzero(words == _ALL)
    # Of a long run's first aligned word at most three bytes lie before, so two marked ones come after it.
    halves = flags[: len(flags) // 2 * 2].view(np.uint16)
    after = 2 * at + 2
    at = at[halves[after.clip(max=len(halves) - 1)] == _TWO] * _WORD
    reached = 0
    for place in at[_is_long(flags, at)].tolist():
        if place < reached:
            continue
        start = marked.rfind(b"\0", 0, place) + 1
        reached = marked.find(b"\0", place)
        reached = len(marked) if reached < 0 else reached
        yield chunk[start:reached]


def _is_long(flags: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each marked word, whether the marked bytes beside it make it a long run."""
    import numpy as np

    length = np.full(len(at), _WORD)
    for step in (-1, 1):
        going = np.ones(len(at), bool)
        for distance in range(1, LONG - _WORD + 1):
            place = at + (-distance if step < 0 else _WORD - 1 + distance)
            inside = (place >= 0) & (place < len(flags))
            going &= inside & (flags[place.clip(0, len(flags) - 1)] == 1)
            length += going
    return length >= LONG
