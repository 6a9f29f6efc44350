"""Sub-keys per purpose, by HKDF-SHA256 (RFC 5869) from the one release key, and the pseudonyms they give."""

from __future__ import annotations

import hmac
from base64 import b32encode
from dataclasses import dataclass
from hashlib import sha256

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from medsanitize.policies.model import Pseudonyms


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


def derive_sub_keys(material: bytes, *, scope: str) -> SubKeys:
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


def keyed_mac(key: bytes, *parts: str) -> bytes:
    """HMAC-SHA256 over length-prefixed parts, so that no two lists of parts collide."""
    message = b"".join(
        len(raw).to_bytes(4, "big") + raw
        for raw in (part.encode("utf-8", "surrogateescape") for part in parts)
    )
    return hmac.digest(key, message, sha256)


def remap_uid(keys: SubKeys, root: str | None, uid: str) -> str:
    """The new UID of ``uid``: ``2.25.`` and a UUID (PS3.5 B.2), or the archive's root and digits.

    Equal UIDs give equal results whatever stands around them; the result is at most 64 characters.
    """
    digest = keyed_mac(keys.uid, uid.strip(" \0"))
    if root is None:
        number = bytearray(digest[:16])
        number[6] = number[6] & 0x0F | 0x80
        number[8] = number[8] & 0x3F | 0x80
        return "2.25." + str(int.from_bytes(number, "big"))
    room = 64 - len(root) - 1
    digits = str(int.from_bytes(digest, "big"))
    return f"{root}.1{digits[: min(room - 1, 38)]}"


def patient_pseudonym(keys: SubKeys, pseudonyms: Pseudonyms, patient: str) -> str:
    """The pseudonymous PatientID: the policy's prefix and 16 base-32 characters (80 bits)."""
    return pseudonyms.prefix + pseudonym_token(keys.patient, 16, patient)


def pseudonym_token(key: bytes, length: int, *parts: str) -> str:
    """``length`` base-32 characters that only the key can make from ``parts``."""
    return b32encode(keyed_mac(key, *parts)).decode("ascii")[:length]
