"""A member of an aggregation: what it sends at each stage.

Whatever a member sends is first written to its folder, and after a restart the same is sent again: a mask
never hides two vectors, and no member signs two lists.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from medsanitize.federation.messages.frame import packed, unpacked
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.secure_aggregation.aggregation import (
    Aggregation,
    check_enough,
    check_signature,
    refused,
)
from medsanitize.federation.secure_aggregation.masks import add_mask, agreed_key
from medsanitize.federation.secure_aggregation.secret_sharing import split_secret
from medsanitize.release.atomic_io import storage_errors, write_atomic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEY_BYTES: Final = 32
SHARE_BYTES: Final = 32
_NONCE_BYTES: Final = 12
MASK, CHANNEL = b"mask", b"channel"
Parts = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, repr=False)
class Member:
    """One party in one aggregation.

    Attributes
    ----------
    folder
        Its own folder of this aggregation; contains secrets.
    aggregation
        What all agree on.
    party
        This party, whose name is among the members.
    identities
        The trusted identities of all members by name.
    """

    folder: Path
    aggregation: Aggregation
    party: LocalParty
    identities: Mapping[str, Identity]

    @property
    def name(self) -> str:
        """Name of this member."""
        return self.party.identity.name

    def keys(self) -> Parts:
        """Return the public keys, and the signature that binds them to this party and aggregation."""
        mask, channel, _ = self._secrets()
        keys = _public(mask) + _public(channel)
        signature = self.party.signing_key.sign(self.aggregation.signed_keys(self.name, keys))
        return {"keys": keys, "signature": signature}

    def shares(self, roster: Parts) -> Parts:
        """Split the secrets among the members of a roster of signed keys, encrypted for each of them.

        Raises
        ------
        IntegrityError
            The roster is too small, has a key that its member did not sign, or another own key.
        """
        return self._once("shares", lambda: self._new_shares(roster))

    def masked(self, incoming: Parts, vector: Callable[[], NDArray[np.uint64]]) -> bytes:
        """Return the vector, masked against everyone but the sum of all members in ``incoming``.

        Parameters
        ----------
        incoming : mapping of str to bytes
            The encrypted shares for this member, by sender.
        vector : callable
            Computes the vector; not called again after a restart.

        Raises
        ------
        IntegrityError
            There are too few members.
        """
        path = self.folder / "masked"
        if not path.exists():
            check_enough(self.aggregation, [*incoming, self.name])
            self._keep("incoming", packed({}, incoming))
            write_atomic(path, self._new_masked(incoming, vector()), sync=True, private=True)
        with storage_errors():
            return path.read_bytes()

    def agree(self, taken: Sequence[str]) -> bytes:
        """Sign the list of the members whose vectors arrived; the first list only.

        Raises
        ------
        IntegrityError
            The list is too short, or has members without shares.
        """
        names = sorted(taken)
        kept = self._once("agreed", lambda: {"names": json.dumps(self._checked(names)).encode("ascii")})
        if json.loads(kept["names"]) != names:
            raise refused("two different lists of members")
        return self.party.signing_key.sign(self.aggregation.signed_members(names))

    def unmask(self, signatures: Parts) -> Parts:
        """Return the shares that unmask the sum of the members that this member has agreed to.

        Raises
        ------
        IntegrityError
            Too few members have signed the same list.
        """
        taken: list[str] = json.loads(self._kept("agreed")["names"])
        check_enough(self.aggregation, list(signatures))
        for name, signature in signatures.items():
            check_signature(self.identities, name, signature, self.aggregation.signed_members(taken))
        return {name: self._share_of(name, seed=name in taken) for name in (*self._senders(), self.name)}

    def _new_shares(self, roster: Parts) -> Parts:
        check_enough(self.aggregation, list(roster))
        for name, signed in roster.items():
            keys, signature = signed[: 2 * KEY_BYTES], signed[2 * KEY_BYTES :]
            check_signature(self.identities, name, signature, self.aggregation.signed_keys(name, keys))
        mask, channel, seed = self._secrets()
        if roster.get(self.name, b"")[: 2 * KEY_BYTES] != _public(mask) + _public(channel):
            raise refused("another key under this site's name")
        self._keep("roster", packed({}, roster))
        count = len(self.aggregation.members)
        split = [split_secret(one, self.aggregation.threshold, count) for one in (seed, mask)]
        # Positions of all members of the job, so that a share names its place by itself.
        own = {name: low + high for name, low, high in zip(self.aggregation.members, *split, strict=True)}
        self._keep("own-shares", packed({}, {self.name: own[self.name]}))
        return {
            name: _sealed(self._channel(name, self.name, name), own[name])
            for name in roster
            if name != self.name
        }

    def _new_masked(self, incoming: Parts, vector: NDArray[np.uint64]) -> bytes:
        mask, _, seed = self._secrets()
        total = vector.copy()
        add_mask(total, seed)
        roster = self._kept("roster")
        for name in incoming:
            key = pair_key(self.aggregation, mask, roster[name][:KEY_BYTES], self.name, name)
            add_mask(total, key, subtract=not self.aggregation.is_added(self.name, name))
        return total.astype("<u8", copy=False).tobytes()

    def _checked(self, names: list[str]) -> list[str]:
        check_enough(self.aggregation, names)
        if not set(names) <= {*self._senders(), self.name}:
            raise refused("a member without shares")
        return names

    def _share_of(self, name: str, *, seed: bool) -> bytes:
        if name == self.name:
            both = self._kept("own-shares")[name]
        else:
            both = _opened(self._channel(name, name, self.name), self._kept("incoming")[name])
        return both[:SHARE_BYTES] if seed else both[SHARE_BYTES:]

    def _channel(self, other: str, sender: str, recipient: str) -> bytes:
        _, channel, _ = self._secrets()
        key = self._kept("roster")[other][KEY_BYTES : 2 * KEY_BYTES]
        return agreed_key(channel, key, self.aggregation.pair(CHANNEL, sender, recipient))

    def _senders(self) -> tuple[str, ...]:
        return tuple(self._kept("incoming"))

    def _secrets(self) -> tuple[bytes, bytes, bytes]:
        """Return the private keys of masks and channels, and the seed of the own mask."""
        kept = self._once(
            "secrets",
            lambda: {
                "mask": _new_key(),
                "channel": _new_key(),
                "seed": secrets.token_bytes(KEY_BYTES),
            },
        )
        return kept["mask"], kept["channel"], kept["seed"]

    def _once(self, name: str, make: Callable[[], Parts]) -> Parts:
        if not (self.folder / name).exists():
            self._keep(name, packed({}, make()))
        return self._kept(name)

    def _keep(self, name: str, content: bytes) -> None:
        with storage_errors():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chmod(self.folder, 0o700)
        write_atomic(self.folder / name, content, sync=True, private=True)

    def _kept(self, name: str) -> Parts:
        with storage_errors():
            if not (self.folder / name).exists():
                raise refused("a stage before its turn")
            return unpacked((self.folder / name).read_bytes())[1]


def pair_key(aggregation: Aggregation, own: bytes, other: bytes, one: str, two: str) -> bytes:
    """Return the mask key of two members from the private key of one and the public key of the other."""
    return agreed_key(own, other, aggregation.pair(MASK, *sorted((one, two))))


def _new_key() -> bytes:
    return X25519PrivateKey.generate().private_bytes_raw()


def _public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _sealed(key: bytes, shares: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, shares, None)


def _opened(key: bytes, sealed: bytes) -> bytes:
    try:
        shares = ChaCha20Poly1305(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
    except InvalidTag:
        raise refused("shares that their sender did not write") from None
    if len(shares) != 2 * SHARE_BYTES:
        raise refused("shares of another length")
    return shares
