"""What two parties compare, and what the asking party learns; both policies must say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from medsanitize.errors import UsageError
from medsanitize.federation.messages.sealed import Hex64
from medsanitize.federation.messages.transcript import Transcript
from medsanitize.federation.parties.identity import Identity
from medsanitize.policies.partners import Agreement
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

What = Literal["pixels", "files", "patients"]
Reveal = Literal["count", "items"]

# Messages of a session with 100,000 items have about 7 MB.
_BYTES_PER_ITEM: Final = 100
_OVERHEAD: Final = 200_000
_SESSION_DAYS: Final = 14
_MOST_UNFINISHED: Final = 100
_SIGNED_FOR: Final = b"medsanitize transcript 1"


class _Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Comparison(_Payload):
    """One comparison: of what, what is revealed, and the contract that allows guessable inputs."""

    what: What
    reveal: Reveal
    contract: Annotated[str, StringConstraints(max_length=200)]


Sizes = dict[What, Annotated[int, Field(ge=0)]]


class Hello(_Payload):
    """The asking party's first message: terms, sizes, and the commitment to its half of the secret."""

    commitment: Hex64
    comparisons: list[Comparison]
    sizes: Sizes


class HelloReply(_Payload):
    """The answering party's half of the secret, and its sizes."""

    nonce: Hex64
    sizes: Sizes


class Request(_Payload):
    """The asking party's half of the secret; the parts are blinded items."""

    nonce: Hex64


class Empty(_Payload):
    """No facts besides the parts."""


class Receipt(_Payload):
    """A signature of the transcript."""

    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]


@dataclass(frozen=True, slots=True)
class PartnerTerms:
    """What this party's policy agrees to with one partner.

    Attributes
    ----------
    comparisons
        In the order of the policy, each once.
    smallest, largest
        Limits of either side's number of items.
    runs, days
        Comparisons with this partner per period, in both directions together.
    """

    comparisons: tuple[Comparison, ...]
    smallest: int = 20
    largest: int = 200_000
    runs: int = 5
    days: int = 30

    def __post_init__(self) -> None:
        if any(one.what == "patients" and not one.contract for one in self.comparisons):
            raise UsageError(
                "Patient identifiers can be guessed, so they are compared only under a contract",
                "Name the contract in both policies, or leave patients out",
            )

    @property
    def most_bytes(self) -> int:
        """Largest accepted sealed message."""
        return _OVERHEAD + _BYTES_PER_ITEM * self.largest * max(1, len(self.comparisons))

    @property
    def most_sessions(self) -> int:
        """Most sessions that are kept for two weeks: those that are paid for, and some unfinished ones."""
        return _MOST_UNFINISHED + self.runs * -(-_SESSION_DAYS // self.days)

    def check_sizes(self, sizes: Mapping[What, int]) -> str:
        """Return the reason to refuse sets of these sizes, or nothing.

        A tiny set would single out a patient: its count is the answer to a question about one image.
        """
        if set(sizes) != {one.what for one in self.comparisons}:
            return "other-terms"
        if any(size < self.smallest for size in sizes.values()):
            return "too-few-items"
        return "too-many-items" if any(size > self.largest for size in sizes.values()) else ""


def exact_transcript(
    session: str,
    parties: tuple[Identity, Identity],
    comparisons: Sequence[Comparison],
    sizes: tuple[Mapping[What, int], Mapping[What, int]],
    messages: Sequence[str],
) -> Transcript:
    """Return the transcript of a session; of parties and sizes, the asking party's come first."""
    terms = {
        "comparisons": [one.model_dump() for one in comparisons],
        "asking_sizes": dict(sizes[0]),
        "answering_sizes": dict(sizes[1]),
    }
    asking, answering = (one.fingerprint for one in parties)
    return Transcript(_SIGNED_FOR, session, asking, answering, terms, messages)


def terms_of(agreement: Agreement) -> PartnerTerms:
    """Return the terms of an agreement, in an order that both parties share."""
    comparisons = tuple(
        Comparison(what=what, reveal=agreement.reveal, contract=agreement.contract)
        for what in sorted(set(agreement.compare))
    )
    return PartnerTerms(comparisons, agreement.smallest, agreement.largest, agreement.runs, agreement.days)
