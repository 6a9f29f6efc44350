"""Shamir's secret sharing (1979) of keys of 32 bytes, by pycryptodome in GF(2 ** 128)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_HALF: Final = 16


def split_secret(secret: bytes, threshold: int, members: int) -> list[bytes]:
    """Split a secret of 32 bytes; fewer than ``threshold`` of the shares tell nothing about it."""
    from Cryptodome.Protocol.SecretSharing import Shamir

    halves = [
        Shamir.split(threshold, members, secret[place : place + _HALF], ssss=False) for place in (0, _HALF)
    ]
    return [low + high for (_, low), (_, high) in zip(*halves, strict=True)]


def combined_secret(shares: Mapping[int, bytes]) -> bytes:
    """Combine shares by the position of their member, counted from 0; the threshold must be reached."""
    from Cryptodome.Protocol.SecretSharing import Shamir

    parts = [
        [(position + 1, share[place : place + _HALF]) for position, share in sorted(shares.items())]
        for place in (0, _HALF)
    ]
    return b"".join(Shamir.combine(part, ssss=False) for part in parts)
