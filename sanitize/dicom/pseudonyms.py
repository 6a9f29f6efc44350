"""Keyed identifiers: UIDs, PatientIDs and dummies, by HMAC-SHA256 under a sub-key each."""

from __future__ import annotations

from base64 import b32encode

from medsanitize.policies.model import Pseudonyms
from medsanitize.sanitize.keys import SubKeys, mac


def remap_uid(keys: SubKeys, root: str | None, uid: str) -> str:
    """The new UID of ``uid``: ``2.25.`` and a UUID (PS3.5 B.2), or the archive's root and digits.

    Equal UIDs give equal results whatever stands around them; the result is at most 64 characters.
    """
    digest = mac(keys.uid, uid.strip(" \0"))
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
    return pseudonyms.prefix + token(keys.patient, 16, patient)


def token(key: bytes, length: int, *parts: str) -> str:
    """``length`` base-32 characters that only the key can make from ``parts``."""
    return b32encode(mac(key, *parts)).decode("ascii")[:length]
