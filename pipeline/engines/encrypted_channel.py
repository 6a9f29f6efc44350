"""What goes through somebody else's cluster goes sealed: its store, its logs and its network see no value.

A run has a session key of its own. Every worker makes an X25519 pair (RFC 7748) when it starts and gives
out the public half; the session key travels to it under what the two agree on (HKDF-SHA256, AES-256-GCM), so
that whoever only listens, or reads what the cluster spilled to disk, has nothing.
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
    """Seals things under one session key. Nonces are random: a run sends far fewer than 2**32 things."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = AESGCM(key)

    @classmethod
    def new(cls) -> EncryptedChannel:
        """A channel with a key that nobody else has."""
        return cls(os.urandom(_KEY))

    def __repr__(self) -> str:
        return "Channel(...)"

    def close(self, thing: object) -> bytes:
        """Pickle and encrypt a thing."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, pickle.dumps(thing, pickle.HIGHEST_PROTOCOL), None)

    def open(self, sealed: bytes) -> Any:
        """Decrypt and unpickle: only what was sealed under the session key is ever unpickled."""
        return pickle.loads(self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None))  # noqa: S301

    def key_for(self, theirs: bytes) -> bytes:
        """The session key as only the holder of the private half of ``theirs`` can read it."""
        mine = X25519PrivateKey.generate()
        public = mine.public_key().public_bytes_raw()
        nonce = os.urandom(_NONCE)
        cipher = _agreed(mine, theirs, public + theirs)
        return public + nonce + cipher.encrypt(nonce, self._key, None)


class WorkerKeyPair:
    """A worker's own pair of keys, until it is given the session key."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def channel(self, wrapped: bytes) -> EncryptedChannel:
        """Take what ``EncryptedChannel.key_for`` made of the public half."""
        theirs, nonce, sealed = wrapped[:32], wrapped[32 : 32 + _NONCE], wrapped[32 + _NONCE :]
        return EncryptedChannel(
            _agreed(self._private, theirs, theirs + self.public).decrypt(nonce, sealed, None)
        )


def _agreed(private: X25519PrivateKey, theirs: bytes, both: bytes) -> AESGCM:
    shared = private.exchange(X25519PublicKey.from_public_bytes(theirs))
    info = b"medsanitize: session key to worker" + both
    return AESGCM(HKDF(SHA256(), _KEY, salt=None, info=info).derive(shared))
