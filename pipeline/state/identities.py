"""Which PatientIDs are one patient: the policy's table, and the decisions that the ledger keeps.

An identity is a PatientID together with its issuer. Without a table and decisions every identity is a patient
of its own, also where two issuers gave the same PatientID.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Final

from medsanitize.errors import KeyMaterialError, UsageError
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.release.atomic_io import storage_errors, write_atomic

Identity = tuple[str, str]
"""Issuer of Patient ID (empty if none is stated) and PatientID."""

VERDICTS: Final = ("same", "different")
_PURPOSE: Final = b"identities"


@dataclass(frozen=True, slots=True, repr=False)
class IdentityDecision:
    """A person's decision on two identities: ``same`` or ``different``, and why."""

    first: Identity
    second: Identity
    verdict: str
    reason: str

    def __repr__(self) -> str:
        return "IdentityDecision(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Identities:
    """Identities that are one patient.

    Attributes
    ----------
    patient : mapping of Identity to Identity
        Each identity that was decided on -> the identity whose pseudonym and shift its patient has.
    members : mapping of Identity to frozenset of Identity
        Such a patient -> all its identities.
    listed : frozenset of Identity
        Patients of the policy's table, which are all different.
    apart : frozenset of frozenset of Identity
        Pairs of patients that were decided to be different.
    """

    patient: Mapping[Identity, Identity] = field(default_factory=dict)
    members: Mapping[Identity, frozenset[Identity]] = field(default_factory=dict)
    listed: frozenset[Identity] = frozenset()
    apart: frozenset[frozenset[Identity]] = frozenset()

    def __repr__(self) -> str:
        return "Identities(...)"

    def of(self, identity: Identity) -> Identity:
        """Return the identity whose pseudonym the patient with this identity has."""
        return self.patient.get(identity, identity)

    def group(self, identity: Identity) -> frozenset[Identity]:
        """Return all identities of a patient."""
        return self.members.get(self.of(identity), frozenset([identity]))

    def is_decided(self, first: Identity, second: Identity) -> bool:
        """Return whether two identities were decided to be one patient or two."""
        pair = frozenset((self.of(first), self.of(second)))
        return len(pair) == 1 or pair <= self.listed or pair in self.apart


def join_identities(
    table: Iterable[tuple[Identity, str]], decisions: Iterable[IdentityDecision] = ()
) -> Identities:
    """Join the identities of each person.

    Parameters
    ----------
    table : iterable of (Identity, str)
        Identity and person, in the order of the table: a person's first identity gives the pseudonym.
    decisions : iterable of IdentityDecision
        In the order in which they were made; of several on one pair the last counts. The first identity of
        the earliest decision gives the pseudonym of a person who is not in the table.

    Raises
    ------
    UsageError
        Table and decisions contradict each other.
    """
    patient: dict[Identity, Identity] = {}
    firsts: dict[str, Identity] = {}
    for identity, person in table:
        patient[identity] = firsts.setdefault(person, identity)
    listed, apart = frozenset(firsts.values()), []
    for decision in {frozenset((one.first, one.second)): one for one in decisions}.values():
        for identity in (decision.first, decision.second):
            patient.setdefault(identity, identity)
        if decision.verdict == "different":
            apart.append((decision.first, decision.second))
            continue
        kept, joined, order = patient[decision.first], patient[decision.second], list(patient)
        if kept != joined and {kept, joined} <= listed:
            raise _contradiction()
        # The one that was decided on first, which the table comes before: its pseudonym may be released.
        if order.index(joined) < order.index(kept):
            kept, joined = joined, kept
        patient = {one: kept if chosen == joined else chosen for one, chosen in patient.items()}
    pairs = frozenset(frozenset((patient[one], patient[other])) for one, other in apart)
    if any(len(pair) == 1 for pair in pairs):
        raise _contradiction()
    members: dict[Identity, set[Identity]] = {}
    for identity, chosen in patient.items():
        members.setdefault(chosen, set()).add(identity)
    groups = {chosen: frozenset(group) for chosen, group in members.items()}
    return Identities(patient, groups, listed, pairs)


def _contradiction() -> UsageError:
    return UsageError(
        "identities: two patient IDs are decided to be one patient, and to be two",
        "Correct the table, or decide again: medsanitize identities POLICY --decisions FILE",
    )


def read_ledger(path: Path | None, seal: Seal) -> tuple[IdentityDecision, ...]:
    """Read the decisions that the ledger keeps; none without a file.

    Raises
    ------
    KeyMaterialError
        The file was written under another key, or was changed.
    """
    if path is None or not path.exists():
        return ()
    with storage_errors():
        sealed = path.read_bytes()
    try:
        rows = json.loads(seal.open(sealed, _PURPOSE))
    except KeyMaterialError:
        raise KeyMaterialError(
            "The decisions on patient IDs in the state folder were made under another key",
            "Use that key; or export them with it, remove the file and decide again",
        ) from None
    return tuple(
        IdentityDecision((first[0], first[1]), (second[0], second[1]), verdict, reason)
        for first, second, verdict, reason in rows
    )


def write_ledger(path: Path, seal: Seal, decisions: Sequence[IdentityDecision]) -> None:
    """Replace the decisions that the ledger keeps, encrypted, in a file of mode 0600."""
    rows = json.dumps([astuple(one) for one in decisions]).encode()
    write_atomic(path, seal.close(rows, _PURPOSE))
    with storage_errors():
        os.chmod(path, 0o600)
