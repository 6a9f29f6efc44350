"""Random numbers of a private training: ChaCha20 under a secret key, by purpose and step.

Noise that anyone could draw again could be subtracted: the key is random and never leaves the folder of the
unfinished training. A step that is repeated after a kill draws the same numbers, and so reveals nothing more.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from medsanitize.errors import IntegrityError
from medsanitize.release.atomic_io import write_atomic
from numpy.typing import NDArray

FILE = "private.key"
_BYTES = 32
# Gaussians per value. Added up, they leave no way back to the bits of one (Holohan and Braghin 2021).
_SUMMED = 4


@dataclass(frozen=True, slots=True, repr=False)
class NoiseKey:
    """Secret of one training."""

    secret: bytes

    def subkey(self, purpose: str) -> NoiseKey:
        """Derive an independent key."""
        return NoiseKey(hmac.digest(self.secret, purpose.encode(), "sha256"))

    def number(self, purpose: str) -> int:
        """Derive a seed for random choices that need no protection of their own."""
        return int.from_bytes(self.subkey(purpose).secret[:16], "big")

    def uniform(self, purpose: str, count: int) -> NDArray[np.float64]:
        """Draw numbers inside (0, 1)."""
        stream = Cipher(algorithms.ChaCha20(self.subkey(purpose).secret, bytes(16)), None).encryptor()
        words = np.frombuffer(stream.update(bytes(8 * count)), "<u8")
        # The middle of each of 2 ** 53 intervals: neither 0 nor 1, whose logarithms are not finite or zero.
        return np.asarray((words >> np.uint64(11)) + 0.5, np.float64) * 2.0**-53

    def gaussian(self, purpose: str, count: int) -> NDArray[np.float64]:
        """Draw standard normal numbers."""
        half = -(-count // 2)
        sums = np.zeros(2 * half)
        for one in range(_SUMMED):
            radius, angle = self.uniform(f"{purpose}/{one}", 2 * half).reshape(2, half)
            length = np.sqrt(-2 * np.log(radius))
            turned = 2 * np.pi * angle
            sums[:half] += length * np.cos(turned)
            sums[half:] += length * np.sin(turned)
        return np.asarray(sums[:count] / np.sqrt(_SUMMED), np.float64)


def kept_key(folder: Path) -> NoiseKey:
    """Read the key of an unfinished training, or make one.

    Raises
    ------
    IntegrityError
        If it is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        # Before the first step, and on the disk: a training that lost its key cannot be resumed.
        write_atomic(path, secrets.token_bytes(_BYTES), sync=True, private=True)
    secret = path.read_bytes()
    if len(secret) != _BYTES:
        raise IntegrityError(
            "The key of the private training is damaged", "Remove the .training folder and start again"
        )
    return NoiseKey(secret)
