"""Encryption of everything sent through a cluster: its object store, logs and network contain no values.

Each run has a session key. Every worker generates an X25519 key pair (RFC 7748) at its start and publishes
the public key; the session key is sent to it encrypted under the agreed secret (HKDF-SHA256, AES-256-GCM).
Reading the network or the cluster's spilled files is therefore not enough to decrypt anything.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12
_KEY = 32


class EncryptedChannel:
    """Encrypts objects under one session key."""

    def __init__(self, key: bytes) -> None:
        # Random nonces are safe here: a run sends far fewer than 2**32 messages under its key.
        self._key = key
        self._cipher = AESGCM(key)

    @classmethod
    def new(cls) -> EncryptedChannel:
        """Create a channel with a new random key."""
        return cls(os.urandom(_KEY))

    def __repr__(self) -> str:
        return "EncryptedChannel(...)"

    def close(self, thing: object) -> bytes:
        """Pickle and encrypt an object."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, pickle.dumps(thing, pickle.HIGHEST_PROTOCOL), None)

    def open(self, sealed: bytes) -> Any:
        """Decrypt and unpickle."""
        # Safe to unpickle: decryption fails for anything not encrypted under the session key.
        return pickle.loads(self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None))  # noqa: S301

    def key_for(self, theirs: bytes) -> bytes:
        """Encrypt the session key for the owner of a public key."""
        # A new key pair per worker: each wrapped key can be opened by one worker only.
        mine = X25519PrivateKey.generate()
        public = mine.public_key().public_bytes_raw()
        nonce = os.urandom(_NONCE)
        cipher = _agreed(mine, theirs, public + theirs)
        return public + nonce + cipher.encrypt(nonce, self._key, None)


class WorkerKeyPair:
    """A worker's key pair, used until it receives the session key."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def channel(self, wrapped: bytes) -> EncryptedChannel:
        """Decrypt the result of ``EncryptedChannel.key_for``."""
        theirs, nonce, sealed = wrapped[:32], wrapped[32 : 32 + _NONCE], wrapped[32 + _NONCE :]
        return EncryptedChannel(
            _agreed(self._private, theirs, theirs + self.public).decrypt(nonce, sealed, None)
        )


def _agreed(private: X25519PrivateKey, theirs: bytes, both: bytes) -> AESGCM:
    shared = private.exchange(X25519PublicKey.from_public_bytes(theirs))
    # Both public keys are bound into the derived key, so neither can be exchanged for another.
    info = b"medsanitize: session key to worker" + both
    return AESGCM(HKDF(SHA256(), _KEY, salt=None, info=info).derive(shared))
