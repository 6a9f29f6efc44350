"""Sub-keys per purpose, by HKDF-SHA256 (RFC 5869) from the one release key."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


@dataclass(frozen=True, slots=True, repr=False)
class SubKeys:
    """32-byte keys, one a purpose; ``repr`` shows none of them.

    ``state`` encrypts the holder's state; ``lookup`` names rows in it.
    """

    uid: bytes
    patient: bytes
    dates: bytes
    dummy: bytes
    lookup: bytes
    state: bytes

    def __repr__(self) -> str:
        return "SubKeys(...)"


def derive(material: bytes, *, scope: str) -> SubKeys:
    """Derive the sub-keys of one scope.

    Parameters
    ----------
    material : bytes
        The release key, at least 32 bytes.
    scope : str
        ``"project"``, or ``"release:NAME"``: releases of equal scope share pseudonyms.
    """

    def one(purpose: str) -> bytes:
        info = f"medsanitize/1/{scope}/{purpose}".encode()
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(material)

    return SubKeys(
        uid=one("uid"),
        patient=one("patient"),
        dates=one("dates"),
        dummy=one("dummy"),
        lookup=one("lookup"),
        state=one("state"),
    )


def mac(key: bytes, *parts: str) -> bytes:
    """HMAC-SHA256 over length-prefixed parts, so that no two lists of parts collide."""
    message = b"".join(
        len(raw).to_bytes(4, "big") + raw
        for raw in (part.encode("utf-8", "surrogateescape") for part in parts)
    )
    return hmac.digest(key, message, sha256)
