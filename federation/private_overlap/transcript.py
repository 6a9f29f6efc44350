"""The transcript of a session: who compared what, of which sizes, by which messages; signed by both.

It contains digests of sealed messages only, so that it can be kept as evidence and shown to a third person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.private_overlap.terms import Comparison, What
from medsanitize.release.atomic_io import write_atomic
from medsanitize.release.canonical_json import canonical_json, document_json

TRANSCRIPTS: Final = "transcripts"
_SIGNED_FOR: Final = b"medsanitize transcript 1\n"


@dataclass(frozen=True, slots=True)
class Transcript:
    """The facts of a session that both parties sign.

    Attributes
    ----------
    session
        Session of 32 hexadecimal digits.
    asking, answering
        Fingerprints of the parties.
    comparisons
        What was compared and revealed.
    asking_sizes, answering_sizes
        Numbers of items.
    messages
        SHA-256 of the sealed messages, in order.
    """

    session: str
    asking: str
    answering: str
    comparisons: Sequence[Comparison]
    asking_sizes: Mapping[What, int]
    answering_sizes: Mapping[What, int]
    messages: Sequence[str]

    def facts(self) -> dict[str, Any]:
        """Return the transcript as JSON."""
        return {
            "format": 1,
            "session": self.session,
            "asking": self.asking,
            "answering": self.answering,
            "comparisons": [one.model_dump() for one in self.comparisons],
            "asking_sizes": dict(self.asking_sizes),
            "answering_sizes": dict(self.answering_sizes),
            "messages": list(self.messages),
        }

    def signed_bytes(self) -> bytes:
        """Return what both signatures cover."""
        return _SIGNED_FOR + canonical_json(self.facts()).encode("ascii")

    def sign(self, party: LocalParty) -> str:
        """Sign the transcript, in hexadecimal digits."""
        return party.signing_key.sign(self.signed_bytes()).hex()

    def is_signed(self, partner: Identity, signature: str) -> bool:
        """Whether a signature is a partner's, of this transcript."""
        return partner.verify(bytes.fromhex(signature), self.signed_bytes())


def keep_transcript(party: LocalParty, transcript: Transcript, signatures: Mapping[str, str]) -> None:
    """Write a transcript with the signatures by fingerprint into the folder of the party."""
    facts = {**transcript.facts(), "signatures": dict(signatures)}
    write_atomic(party.folder / TRANSCRIPTS / f"{transcript.session}.json", document_json(facts), sync=True)
