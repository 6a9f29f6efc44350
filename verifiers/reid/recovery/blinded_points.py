"""Blinded items of a private comparison, points of an elliptic curve, as numbers for the same attack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

# A compressed point of P-256.
_POINT_BYTES: Final = 33
_SIGNS: Final = (2, 3)
_LENGTH_DELIMITED: Final = 2


def points_in(message: bytes) -> list[bytes]:
    """Read the points of a protobuf message of OpenMined PSI, in order."""
    return [value for value in _values(message) if len(value) == _POINT_BYTES and value[0] in _SIGNS]


def gram_of_points(points: Sequence[bytes]) -> NDArray[np.float64]:
    """Compute inner products of the bits of points as -1 and 1, scaled to unit length."""
    import numpy as np

    numbers = np.frombuffer(b"".join(points), np.uint8).reshape(len(points), _POINT_BYTES)
    bits = np.unpackbits(numbers, axis=1).astype(np.float64) * 2 - 1
    gram: NDArray[np.float64] = bits @ bits.T / bits.shape[1]
    return gram


def _values(message: bytes) -> Iterator[bytes]:
    """Yield the length-delimited values of a message and of the messages in it that are no points."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        if tag & 7 != _LENGTH_DELIMITED:
            # Flags and counts are numbers of variable length.
            _, place = _number(message, place)
            continue
        length, place = _number(message, place)
        value = message[place : place + length]
        place += length
        if length == _POINT_BYTES:
            yield value
        else:
            yield from _values(value)


def _number(message: bytes, place: int) -> tuple[int, int]:
    """Read a number of variable length, and return it with the place after it."""
    number, shift = 0, 0
    while message[place] & 0x80:
        number |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return number | message[place] << shift, place + 1
