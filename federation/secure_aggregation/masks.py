"""Masks that cancel in the sum: key agreement by X25519, and key streams of ChaCha20.

Flower derives its masks from 32 bits of the agreed key (a Mersenne Twister seeded with their XOR), which can
be searched: here, all 256 bits count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Words of a mask that are in memory at once.
_CHUNK: Final = 1 << 20


def agreed_key(own: bytes, other: bytes, purpose: bytes) -> bytes:
    """Derive the key of 32 bytes that two parties share for a purpose.

    Parameters
    ----------
    own : bytes
        Own private key.
    other : bytes
        Public key of the other party.
    purpose : bytes
        Distinguishes the keys of one pair.
    """
    shared = X25519PrivateKey.from_private_bytes(own).exchange(X25519PublicKey.from_public_bytes(other))
    return HKDF(SHA256(), 32, salt=None, info=purpose).derive(shared)


def add_mask(vector: NDArray[np.uint64], key: bytes, *, subtract: bool = False) -> None:
    """Add the mask of a key to a vector in place, modulo 2 ** 64."""
    import numpy as np

    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()
    for start in range(0, len(vector), _CHUNK):
        part = vector[start : start + _CHUNK]
        words = np.frombuffer(stream.update(bytes(8 * len(part))), "<u8")
        if subtract:
            part -= words
        else:
            part += words
