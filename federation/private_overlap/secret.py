"""The secret of one session, made by both parties, and items salted with it.

The asking party commits to its half before it sees the other, so that neither party chooses the secret: the
items of one session cannot be compared with those of another.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from medsanitize.federation.private_overlap.terms import What

_COMMITMENT: Final = b"medsanitize commitment 1\n"
_SECRET: Final = b"medsanitize session secret 1\n"


def commitment(session: str, nonce: str) -> str:
    """SHA-256 that commits the asking party to its half of the secret."""
    return hashlib.sha256(_COMMITMENT + bytes.fromhex(session) + bytes.fromhex(nonce)).hexdigest()


def session_secret(session: str, asked: str, answered: str) -> bytes:
    """Combine the session and both halves, 32 bytes."""
    parts = (bytes.fromhex(one) for one in (session, asked, answered))
    return hashlib.sha256(_SECRET + b"".join(parts)).digest()


def salted_items(secret: bytes, what: What, items: Iterable[bytes]) -> list[str]:
    """HMAC-SHA256 of each different item under the secret, in hexadecimal digits, in the items' order."""
    purpose = what.encode("ascii") + b"\n"
    return [hmac.digest(secret, purpose + item, "sha256").hex() for item in sorted(set(items))]
