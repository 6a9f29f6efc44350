"""Exact discrete Laplace noise from a secret key, in integers only.

The sampler is that of Canonne, Kamath and Steinke (2020, algorithm 2), as opendp uses it: no floating-point
number is rounded, so no bit of the result depends on the exact count in another way than the bound says.
opendp draws its randomness from the operating system only; here it comes from ChaCha20 under a key that never
leaves the holder, so that a repeated run gives the same figures instead of a second look at the data.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

_CHUNK: Final = 4096


class KeyedBits:
    """Uniform random integers from a key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        # A key of its own for every card: the nonce can be constant.
        self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()
        self._buffer = b""

    def __repr__(self) -> str:
        return "KeyedBits(...)"

    def below(self, limit: int) -> int:
        """Draw an integer from 0 to ``limit`` - 1; all are equally likely."""
        bits = (limit - 1).bit_length()
        size = -(-bits // 8)
        while True:
            # The remainder of a larger number would prefer some values: such a number is drawn again.
            number = int.from_bytes(self._bytes(size), "big") & ((1 << bits) - 1)
            if number < limit:
                return number

    def _bytes(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += self._stream.update(bytes(_CHUNK))
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def discrete_laplace(bits: KeyedBits, scale: Fraction) -> int:
    """Draw an integer x with a probability proportional to exp(-|x| / scale)."""
    while True:
        size = _geometric(bits, scale)
        negative = bits.below(2) == 1
        # Zero has one sign only.
        if not (negative and size == 0):
            return -size if negative else size


def laplace_share(bits: KeyedBits, scale: Fraction, shares: int) -> int:
    """Draw a number such that the sum of ``shares`` independent ones is discrete Laplace noise of a scale.

    Such noise is the difference of two geometric numbers, each of which is a sum of negative binomial (Polya)
    numbers with exponent 1 / shares.
    """
    return _polya(bits, scale, shares) - _polya(bits, scale, shares)


def _polya(bits: KeyedBits, scale: Fraction, shares: int) -> int:
    """Draw n with a probability proportional to C(n + r - 1, n) exp(-n / scale), with r = 1 / shares."""
    while True:
        size = _geometric(bits, scale)
        # The ratio of both probabilities is the product of (i - 1 + r) / i, each a fraction: exact rejection.
        if all(bits.below(shares * number) < shares * (number - 1) + 1 for number in range(1, size + 1)):
            return size


def _geometric(bits: KeyedBits, scale: Fraction) -> int:
    """Draw n from 0 with a probability proportional to exp(-n / scale)."""
    top, bottom = scale.numerator, scale.denominator
    while True:
        rest = bits.below(top)
        if not _with_exp(bits, Fraction(rest, top)):
            continue
        whole = 0
        while _with_exp(bits, Fraction(1)):
            whole += 1
        return (rest + top * whole) // bottom


def _with_exp(bits: KeyedBits, rate: Fraction) -> bool:
    """Return True with probability exp(-rate), for a rate from 0 to 1."""
    number = 1
    while bits.below(rate.denominator * number) < rate.numerator:
        number += 1
    return number % 2 == 1
