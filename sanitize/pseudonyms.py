"""Sub-keys of the release key (HKDF-SHA256, RFC 5869) and the pseudonyms and UIDs derived from them."""

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
    """32-byte keys, one per purpose; ``repr`` shows none of them.

    ``state`` encrypts the state; ``lookup`` derives the names of its rows.
    """

    uid: bytes
    patient: bytes
    dates: bytes
    dummy: bytes
    lookup: bytes
    state: bytes

    # Keys must not reach logs and tracebacks.
    def __repr__(self) -> str:
        return "SubKeys(...)"


def derive_sub_keys(material: bytes, *, scope: str) -> SubKeys:
    """Derive the sub-keys of one scope.

    Parameters
    ----------
    material : bytes
        The release key, at least 32 bytes.
    scope : str
        ``"project"``, or ``"release:NAME"``. Releases with equal scope share pseudonyms.

    Returns
    -------
    SubKeys
    """

    def one(purpose: str) -> bytes:
        # 1 is the version of the derivation: a change of any text here changes all pseudonyms.
        info = f"medsanitize/1/{scope}/{purpose}".encode()
        # No salt: equal keys must give equal pseudonyms, without a second value to keep.
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
    """Compute HMAC-SHA256 of a list of texts."""
    # The length prefixes make the encoding injective: ("ab", "c") and ("a", "bc") differ.
    message = b"".join(
        len(raw).to_bytes(4, "big") + raw
        for raw in (part.encode("utf-8", "surrogateescape") for part in parts)
    )
    return hmac.digest(key, message, sha256)


def remap_uid(keys: SubKeys, root: str | None, uid: str) -> str:
    """Derive the replacement of a UID (PS3.15 Table E.1-1a, action U).

    Parameters
    ----------
    keys : SubKeys
    root : str or None
        UID root of the data controller; None for UUID-derived UIDs below ``2.25`` (PS3.5 B.2).
    uid : str
        May be padded with NUL or spaces.

    Returns
    -------
    str
        At most 64 characters; equal for equal UIDs.
    """
    # UIDs are padded with NUL to even length (PS3.5 6.2), and by some writers with a space.
    digest = keyed_mac(keys.uid, uid.strip(" \0"))
    if root is None:
        number = bytearray(digest[:16])
        # Version 8 (custom) and the variant of RFC 9562, so that the number is a valid UUID.
        number[6] = number[6] & 0x0F | 0x80
        number[8] = number[8] & 0x3F | 0x80
        return "2.25." + str(int.from_bytes(number, "big"))
    # A UID has at most 64 characters (PS3.5 9.1); 39 digits are as many as a UUID has.
    available = 64 - len(root) - 1
    digits = str(int.from_bytes(digest, "big"))
    return f"{root}.1{digits[: min(available - 1, 38)]}"


def patient_pseudonym(keys: SubKeys, pseudonyms: Pseudonyms, patient: str) -> str:
    """Derive the pseudonymous PatientID: the policy's prefix and 16 base-32 characters (80 bits)."""
    return pseudonyms.prefix + pseudonym_token(keys.patient, 16, patient)


def pseudonym_token(key: bytes, length: int, *parts: str) -> str:
    """Derive ``length`` base-32 characters from ``parts`` with a key."""
    return b32encode(keyed_mac(key, *parts)).decode("ascii")[:length]
