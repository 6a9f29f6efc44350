"""The transcript of a near comparison, signed by both parties; without embedding, score or result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from medsanitize.federation.near.bounds import NearBound
from medsanitize.federation.near.terms import NearTerms
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.private_overlap.transcript import TRANSCRIPTS
from medsanitize.release.atomic_io import write_atomic
from medsanitize.release.canonical_json import canonical_json, document_json

_SIGNED_FOR: Final = b"medsanitize near transcript 1\n"


@dataclass(frozen=True, slots=True)
class NearTranscript:
    """The facts that both parties sign.

    Attributes
    ----------
    session
        Session of 32 hexadecimal digits.
    asking, answering
        Fingerprints of the parties.
    terms
        What was compared and revealed.
    sizes
        Patients of the asking and of the answering party.
    distance
        Largest distance of a match.
    bounds
        Error bounds that each party states.
    messages
        SHA-256 of the sealed messages, in order.
    """

    session: str
    asking: str
    answering: str
    terms: NearTerms
    sizes: tuple[int, int]
    distance: float
    bounds: tuple[NearBound, NearBound]
    messages: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """Return the transcript as JSON."""
        return {
            "format": 1,
            "session": self.session,
            "asking": self.asking,
            "answering": self.answering,
            "terms": self.terms.model_dump(),
            "sizes": list(self.sizes),
            "distance": self.distance,
            "bounds": [one.model_dump() for one in self.bounds],
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


def keep_near_transcript(
    party: LocalParty, transcript: NearTranscript, signatures: Mapping[str, str]
) -> None:
    """Write a transcript with the signatures by fingerprint into the folder of the party."""
    facts = {**transcript.facts(), "signatures": dict(signatures)}
    write_atomic(party.folder / TRANSCRIPTS / f"{transcript.session}.json", document_json(facts), sync=True)
