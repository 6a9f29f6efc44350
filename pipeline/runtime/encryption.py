"""Encryption of values in the state (AES-256-GCM), and keyed names of its rows."""

from __future__ import annotations

import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from medsanitize.errors import KeyMaterialError
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac

_NONCE = 12
NAME_BYTES = 16


class Seal:
    """Encrypts values under ``subkeys.state`` and names rows under ``subkeys.lookup``.

    Nonces are random (96 bits); NIST SP 800-38D allows 2**32 of them under one key.
    """

    def __init__(self, subkeys: SubKeys) -> None:
        self._cipher = AESGCM(subkeys.state)
        self._lookup = subkeys.lookup
        self._marks = keyed_mac(subkeys.lookup, "marks")

    def __repr__(self) -> str:
        return "Seal(...)"

    def close(self, value: bytes, purpose: bytes) -> bytes:
        """Encrypt a value; ``purpose`` is authenticated with it, so it cannot be moved to another column."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, value, purpose)

    def open(self, sealed: bytes, purpose: bytes) -> bytes:
        """Decrypt a value.

        Raises
        ------
        KeyMaterialError
            The value was encrypted under another key, or was changed.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], purpose)
        except InvalidTag:
            raise KeyMaterialError(
                "The state was written under another key, or was changed",
                "Use the key of that run, or remove the state folder to start again",
            ) from None

    def mark(self, text: str) -> bytes:
        """Compute a keyed digest (16 bytes) of one text, distinct from every name."""
        # One call for one text, under a key of its own: this runs for every source file.
        return hmac.digest(self._marks, text.encode(), "sha256")[:NAME_BYTES]

    def name(self, *parts: str) -> bytes:
        """Compute the keyed name (16 bytes) of a row."""
        return keyed_mac(self._lookup, *parts)[:NAME_BYTES]
