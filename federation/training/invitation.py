"""The invitation to a job: what is trained, by whom and with which program, signed by the server's party."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.parties.trust import trusted_partner
from medsanitize.federation.secure_aggregation.aggregation import (
    PLAIN,
    SECURE,
    Aggregation,
    Stage,
    threshold_for,
)
from medsanitize.federation.training.calibrated_models import check_calibration, digests_of
from medsanitize.federation.training.card_terms import check_card
from medsanitize.federation.training.code_digest import code_digest
from medsanitize.federation.training.kinds import modality_of
from medsanitize.policies.federation import Job
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import canonical_json, document_json

FILE: Final = "invitation.json"
_SIGNED_FOR: Final = b"medsanitize federation invitation 1\n"
_MOST_BYTES: Final = 1 << 20
_TERMS: Final = tuple(
    "name model recipe kind classes models strength card privacy attacks least aggregation seed"
    " most_images".split()
)


@dataclass(frozen=True, slots=True)
class Invitation:
    """A job as all parties know it.

    Attributes
    ----------
    terms
        Of the job: all but its folders, address and patience; its models by digest.
    sites
        Fingerprint of each site by name, in the job's order.
    server
        Fingerprint of the server's party.
    code
        Digest of the program.
    salt
        Random: no two jobs share a key or a signature.
    signature
        By the server's party.
    """

    terms: Mapping[str, Any]
    sites: Mapping[str, str]
    server: str
    code: str
    salt: str
    signature: str

    @property
    def digest(self) -> str:
        """SHA-256 by which messages name the job."""
        return hashlib.sha256(self.signed_bytes()).hexdigest()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of a round."""
        return SECURE if self.terms["aggregation"] == "secure" else PLAIN

    def signed_bytes(self) -> bytes:
        """Return what the signature covers."""
        order = list(self.sites)
        facts = {"terms": dict(self.terms), "sites": dict(self.sites), "order": order}
        facts |= {"server": self.server, "code": self.code, "salt": self.salt}
        return _SIGNED_FOR + canonical_json(facts).encode("ascii")

    def aggregation(self, number: int) -> Aggregation:
        """Return the aggregation of a round."""
        purpose = hashlib.sha256(f"{self.digest}/{number}".encode("ascii")).digest()
        names = tuple(self.sites)
        return Aggregation(purpose, names, threshold_for(len(names), int(self.terms["least"])))


def invite(job: Job, party: LocalParty) -> Invitation:
    """Write the invitation of a new job into its state folder.

    Raises
    ------
    UsageError
        A site is not trusted, or the job was provisioned already.
    """
    if (job.state / FILE).exists():
        raise UsageError("The job was provisioned already", "Name a new state folder, or go on with this job")
    if len(set(job.sites)) != len(job.sites) or job.least > len(job.sites):
        raise UsageError("The job names a site twice, or fewer sites than it needs", "Correct its sites")
    sites = {name: trusted_partner(party, name).fingerprint for name in job.sites}
    check_calibration(job)
    check_card(job)
    if job.model != "calibration" and (job.model == "classification") != (job.classes is not None):
        raise UsageError(
            "A job for a classifier names its classes, and no other training does",
            "Correct its section classes",
        )
    if job.privacy is not None and (job.model != "classification" or job.aggregation != "secure"):
        raise UsageError(
            "Differential privacy is for classifiers under secure aggregation: the noise of one site is not"
            " enough",
            "Leave out privacy, or name model: classification and aggregation: secure",
        )
    _check_attacks(job)
    terms = terms_of(job)
    unsigned = Invitation(terms, sites, party.identity.fingerprint, code_digest(), secrets.token_hex(16), "")
    signature = party.signing_key.sign(unsigned.signed_bytes()).hex()
    found = Invitation(terms, sites, unsigned.server, unsigned.code, unsigned.salt, signature)
    with storage_errors():
        job.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(job.state / FILE, document_json(_facts(found)), sync=True)
    return found


def _check_attacks(job: Job) -> None:
    if job.attacks is None:
        return
    if job.model in ("calibration", "card"):
        raise UsageError("The job trains no model that could be attacked", "Leave out attacks")
    if job.privacy is not None:
        raise UsageError(
            "The counts of an attack are exact, and no epsilon covers them",
            "Leave out attacks or privacy: the bound of epsilon holds against every attack",
        )
    if job.attacks.gradients is not None and job.model != "classification":
        raise UsageError(
            "The recipe has no gradients to attack", "Leave out attacks.gradients, or train a classifier"
        )


def terms_of(job: Job) -> dict[str, Any]:
    """Return what a job and its invitation have in common, as JSON types."""
    facts: dict[str, Any] = job.model_dump(mode="json", include=set(_TERMS))
    if job.model == "calibration":
        facts["models"] = digests_of(job.models, modality_of(facts), facts["classes"])
    return facts


def read_invitation(path: Path, server: Identity) -> Invitation:
    """Read an invitation, and check that the server's party has signed it.

    Raises
    ------
    UsageError
        There is no such file.
    IntegrityError
        It is damaged, or signed by someone else.
    """
    if not path.is_file():
        raise UsageError(
            "There is no invitation at this path", "Create one: medsanitize federation provision job.yaml"
        )
    with storage_errors(), path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    try:
        facts = json.loads(content)
        sites = {name: str(facts["sites"][name]) for name in facts["order"]}
        found = Invitation(
            {name: facts["terms"][name] for name in _TERMS},
            sites,
            *(str(facts[name]) for name in ("server", "code", "salt", "signature")),
        )
        signed = bytes.fromhex(found.signature)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _damaged() from None
    if found.server != server.fingerprint or not server.verify(signed, found.signed_bytes()):
        raise _damaged()
    return found


def check_same(job: Job, invitation: Invitation) -> None:
    """Raise UsageError where a job was changed after the sites were invited."""
    terms = terms_of(job)
    if terms != dict(invitation.terms) or tuple(invitation.sites) != job.sites:
        raise UsageError(
            "The job differs from its invitation",
            "Undo the change, or provision a new job in a new state folder",
        )
    if invitation.code != code_digest():
        raise UsageError(
            "The program is another than that of the invitation",
            "Install the version with which the job was provisioned, or provision a new job",
        )


def _facts(invitation: Invitation) -> dict[str, Any]:
    return {
        "terms": dict(invitation.terms),
        "sites": dict(invitation.sites),
        "order": list(invitation.sites),
        "server": invitation.server,
        "code": invitation.code,
        "salt": invitation.salt,
        "signature": invitation.signature,
    }


def _damaged() -> IntegrityError:
    return IntegrityError(
        "The invitation is damaged, or not by the server's party", "Ask the keeper of the server for it again"
    )
