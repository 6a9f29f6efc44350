"""What members and collector of an aggregation agree on.

The protocol is secure aggregation as Bonawitz et al. (CCS 2017) published it, in the variant with signed
keys and a consistency check; SecAgg+ (Bell et al., CCS 2020) restricts the pairs to a sparse graph, which for
a few dozen hospitals is the complete one. Stages:

1. ``keys``: each member sends two public keys, signed by its identity.
2. ``shares``: each member splits its private mask key and its own seed among all, encrypted for each.
3. ``masked``: each member sends its vector plus its own mask and one for each pair, which cancel in the
   sum.
4. ``agree``: each member signs whose vectors arrived; it signs one list only.
5. ``unmask``: given enough equal signatures, each member sends its shares: of the seed of who took part, of
   the mask key of who did not; never both of one member.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.parties.identity import Identity

Stage = Literal["keys", "shares", "masked", "agree", "unmask"]
SECURE: Final[tuple[Stage, ...]] = get_args(Stage)
PLAIN: Final[tuple[Stage, ...]] = ("masked",)
# With fewer, whoever knows the sum and one vector knows the other one.
LEAST_MEMBERS: Final = 3
_KEYS: Final = b"medsanitize secure aggregation keys 1\n"
_TAKEN: Final = b"medsanitize secure aggregation members 1\n"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One sum.

    Attributes
    ----------
    purpose
        Digest of job and round; keys and signatures are good for it only.
    members
        Names of all that may take part, in order.
    threshold
        Fewest members whose vectors are added, and whose shares unmask them.
    """

    purpose: bytes
    members: tuple[str, ...]
    threshold: int

    def __post_init__(self) -> None:
        if not LEAST_MEMBERS <= self.threshold <= len(self.members):
            raise UsageError(
                f"A sum of fewer than {LEAST_MEMBERS} sites would show what a site gave", "Add sites"
            )

    def signed_keys(self, name: str, keys: bytes) -> bytes:
        """Return what a member signs for its public keys."""
        return _KEYS + self.purpose + name.encode("ascii") + b"\n" + keys

    def signed_members(self, names: Sequence[str]) -> bytes:
        """Return what a member signs for the members whose vectors arrived."""
        listed = "\n".join(sorted(names)).encode("ascii")
        return _TAKEN + self.purpose + hashlib.sha256(listed).digest()

    def pair(self, kind: bytes, one: str, other: str) -> bytes:
        """Return the purpose of a key of two members, in this order."""
        return b"\n".join([kind, self.purpose, one.encode("ascii"), other.encode("ascii")])

    def is_added(self, one: str, other: str) -> bool:
        """Whether ``one`` adds the mask of a pair; the other member subtracts it."""
        return self.members.index(one) < self.members.index(other)


def threshold_for(members: int, least: int) -> int:
    """Return the threshold of Bonawitz et al. against a server that deviates: more than two thirds."""
    return max(least, 2 * members // 3 + 1)


def check_enough(aggregation: Aggregation, names: Sequence[str]) -> None:
    """Raise IntegrityError where names are too few, repeated or unknown."""
    known = len(set(names)) == len(names) and set(names) <= set(aggregation.members)
    if not known or len(names) < aggregation.threshold:
        raise refused("too few members, or others than the job's")


def check_signature(identities: Mapping[str, Identity], name: str, signature: bytes, signed: bytes) -> None:
    """Raise IntegrityError where a signature is not by the member of a name."""
    if name not in identities or not identities[name].verify(signature, signed):
        raise refused("a signature is not by the site that it names")


def refused(why: str) -> IntegrityError:
    """Return the error of a member that gives nothing away."""
    return IntegrityError(
        f"The server asked this site for what could show a single site's data: {why}; nothing was sent",
        "Ask the keeper of the server, and start a new job",
    )
