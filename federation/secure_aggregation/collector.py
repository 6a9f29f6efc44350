"""The collector of an aggregation: adds masked vectors, and removes what does not cancel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from medsanitize.errors import IntegrityError
from medsanitize.federation.secure_aggregation.aggregation import Aggregation
from medsanitize.federation.secure_aggregation.masks import add_mask
from medsanitize.federation.secure_aggregation.member import KEY_BYTES, SHARE_BYTES, pair_key
from medsanitize.federation.secure_aggregation.secret_sharing import combined_secret

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def added(vectors: Iterable[bytes], length: int) -> NDArray[np.uint64]:
    """Add vectors modulo 2 ** 64.

    Raises
    ------
    IntegrityError
        If one has another length.
    """
    import numpy as np

    total = np.zeros(length, np.uint64)
    for vector in vectors:
        if len(vector) != 8 * length:
            raise _damaged()
        total += np.frombuffer(vector, "<u8")
    return total


def remove_masks(
    total: NDArray[np.uint64],
    aggregation: Aggregation,
    roster: Mapping[str, bytes],
    shared: Iterable[str],
    shares: Mapping[str, Mapping[str, bytes]],
    taken: Iterable[str],
) -> None:
    """Remove from the sum of masked vectors, in place, the masks that do not cancel.

    Parameters
    ----------
    total : array of uint64
        Sum of the masked vectors.
    aggregation : Aggregation
        What all agree on.
    roster : mapping of str to bytes
        The public keys by member.
    shared : iterable of str
        Members that sent shares, with all of whom the others have masked.
    shares : mapping of str to mapping of str to bytes
        The shares by who sent them and whose they are.
    taken : iterable of str
        Members whose vectors were added.

    Raises
    ------
    IntegrityError
        If shares are missing or do not belong to the keys.
    """
    inside = set(taken)
    for name in sorted(shared):
        secret = _secret(aggregation, name, shares)
        if name in inside:
            add_mask(total, secret, subtract=True)
            continue
        # Each of the others masked with this member, who is gone with the other half.
        public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        if public != roster[name][:KEY_BYTES]:
            raise _damaged()
        for other in sorted(inside):
            key = pair_key(aggregation, secret, roster[other][:KEY_BYTES], name, other)
            add_mask(total, key, subtract=aggregation.is_added(other, name))


def _secret(aggregation: Aggregation, name: str, shares: Mapping[str, Mapping[str, bytes]]) -> bytes:
    found = {
        aggregation.members.index(sender): theirs[name] for sender, theirs in shares.items() if name in theirs
    }
    right = all(len(share) == SHARE_BYTES for share in found.values())
    if not right or len(found) < aggregation.threshold:
        raise _damaged()
    # Any threshold of them gives the same secret, if nobody has lied.
    return combined_secret(dict(sorted(found.items())[: aggregation.threshold]))


def _damaged() -> IntegrityError:
    return IntegrityError(
        "A site sent shares or a vector that do not belong to this round", "Start a new job without it"
    )
