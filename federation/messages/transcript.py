"""The transcript of a session: who compared what, of which sizes, by which messages; signed by both.

It contains digests of sealed messages only, so that it can be kept as evidence and shown to a third person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.release.atomic_io import write_atomic
from medsanitize.release.canonical_json import canonical_json, document_json

TRANSCRIPTS: Final = "transcripts"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What both parties sign.

    Attributes
    ----------
    signed_for
        Kind of the transcript and its version: a signature of one kind is never one of another.
    session
        Session of 32 hexadecimal digits.
    asking, answering
        Fingerprints of the parties.
    terms
        What was compared and revealed, of which sizes, as JSON.
    messages
        SHA-256 of the sealed messages, in order.
    """

    signed_for: bytes
    session: str
    asking: str
    answering: str
    terms: Mapping[str, Any]
    messages: Sequence[str]

    def facts(self) -> dict[str, Any]:
        """Return the transcript as JSON."""
        return {
            "format": 1,
            "session": self.session,
            "asking": self.asking,
            "answering": self.answering,
            **self.terms,
            "messages": list(self.messages),
        }

    def signed_bytes(self) -> bytes:
        """Return what both signatures cover."""
        return self.signed_for + b"\n" + canonical_json(self.facts()).encode("ascii")

    def sign(self, party: LocalParty) -> str:
        """Sign the transcript, in hexadecimal digits."""
        return party.signing_key.sign(self.signed_bytes()).hex()

    def is_signed(self, partner: Identity, signature: str) -> bool:
        """Whether a signature is a partner's, of this transcript."""
        return partner.verify(bytes.fromhex(signature), self.signed_bytes())


def keep_transcript(party: LocalParty, partner: Identity, transcript: Transcript, theirs: str) -> None:
    """Write a transcript with both signatures into the folder of the party.

    Parameters
    ----------
    party, partner : LocalParty, Identity
        Both ends.
    transcript : Transcript
        What both have signed.
    theirs : str
        The partner's signature, which was checked.
    """
    own = transcript.sign(party)
    signatures = {party.identity.fingerprint: own, partner.fingerprint: theirs}
    facts = {**transcript.facts(), "signatures": signatures}
    write_atomic(party.folder / TRANSCRIPTS / f"{transcript.session}.json", document_json(facts), sync=True)
