"""The asking party: what it sends first, and what it does with each answer.

The session lies in a file between messages, so that they can travel as files over days. An answer is used
only if it names the message before, comes from the partner that was asked, and fits the sizes that were
agreed; everything else ends in an error and never in a verdict.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.messages.refusals import REASONS, refused_by_partner, unusable_answer
from medsanitize.federation.messages.sealed import (
    PROTOCOL,
    Hex32,
    Hex64,
    InvalidMessage,
    Kind,
    Message,
    digest_of,
    open_sealed,
    seal,
)
from medsanitize.federation.messages.transcript import Transcript, keep_transcript
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.private_overlap.budget import Query, pay
from medsanitize.federation.private_overlap.items import Items, sizes_of
from medsanitize.federation.private_overlap.secret import commitment, salted_items, session_secret
from medsanitize.federation.private_overlap.terms import (
    Empty,
    Hello,
    HelloReply,
    PartnerTerms,
    Receipt,
    Request,
    Sizes,
    What,
    exact_transcript,
)
from medsanitize.federation.psi.process import Answer, open_psi
from pydantic import BaseModel, ConfigDict, ValidationError

_EXPECTED: Final[Mapping[int, Kind]] = {2: "hello-reply", 4: "response", 6: "receipt-reply"}


class Asked(BaseModel):
    """An open session of the asking party, as it lies on disk; contains secrets.

    Attributes
    ----------
    session, nonce
        The session, and this party's half of its secret.
    items
        SHA-256 of the items: they must not change during the session.
    sizes, answering_sizes
        Numbers of items of both parties.
    keys
        Key of the library by comparison, in hexadecimal digits.
    messages
        SHA-256 of the sealed messages so far.
    counts, places
        What was learned: common items by comparison, and which of this party's they are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    session: Hex32
    nonce: Hex64
    items: Hex64
    sizes: Sizes
    answering_sizes: Sizes
    keys: dict[What, str]
    messages: list[Hex64]
    counts: dict[What, int] = {}
    places: dict[What, list[int]] = {}


@dataclass(frozen=True, slots=True, repr=False)
class Learned:
    """What the asking party learned.

    Attributes
    ----------
    counts
        Number of common items by comparison.
    items
        The common items themselves, where both parties agreed to reveal them.
    sizes, answering_sizes
        Numbers of different items of both parties.
    session
        The session, by which the transcript is filed.
    """

    counts: Mapping[What, int]
    sizes: Mapping[What, int]
    answering_sizes: Mapping[What, int]
    session: str
    items: Mapping[What, Sequence[bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class Asking:
    """The asking party with everything that does not change during a session."""

    party: LocalParty
    partner: Identity
    terms: PartnerTerms
    items: Items
    library: Path

    @property
    def sizes(self) -> dict[What, int]:
        """Numbers of different items."""
        return sizes_of(self.items)


def start(asking: Asking) -> tuple[Asked, bytes]:
    """Open a session: return it and the first sealed message.

    Raises
    ------
    UsageError
        The own set is too small or too large.
    """
    if reason := asking.terms.check_sizes(asking.sizes):
        raise UsageError(*REASONS[reason])
    session, nonce = secrets.token_hex(16), secrets.token_hex(32)
    facts = Hello(
        commitment=commitment(session, nonce),
        comparisons=list(asking.terms.comparisons),
        sizes=asking.sizes,
    ).model_dump()
    sealed = seal(asking.party, asking.partner, Message(session, 1, "hello", None, facts))
    opened = Asked(
        session=session,
        nonce=nonce,
        items=_digest(asking.items),
        sizes=asking.sizes,
        answering_sizes={},
        keys={},
        messages=[digest_of(sealed)],
    )
    return opened, sealed


def proceed(asking: Asking, asked: Asked, sealed: bytes) -> tuple[Asked, bytes | None]:
    """Use an answer: return the session and the next sealed message, None when the session is over.

    Raises
    ------
    UsageError
        The partner refuses, or the budget of this party is used up; the message says why.
    IntegrityError
        The answer is not by the partner, malformed or out of order, or the own items have changed.
    EnvironmentFailure
        The disk is full or fails.
    """
    message = _opened(asking, asked, sealed)
    if _digest(asking.items) != asked.items:
        raise IntegrityError("The release has changed since the session began", "Start a new session")
    known = asked.model_copy(update={"messages": [*asked.messages, digest_of(sealed)]})
    try:
        if message.kind == "hello-reply":
            return _request(asking, known, message)
        if message.kind == "response":
            return _compare(asking, known, message)
        return _finish(asking, known, message), None
    except (ValidationError, LibraryFailed):
        raise unusable_answer() from None


def learned(asking: Asking, asked: Asked) -> Learned:
    """Return what a session that got as far as the response has found.

    Raises
    ------
    EnvironmentFailure
        The session did not get so far.
    """
    if set(asked.counts) != set(asking.items):
        raise EnvironmentFailure("The comparison with the partner is not finished", "Run the command again")
    found: dict[What, Sequence[bytes]] = {}
    for what, places in asked.places.items():
        ordered = sorted(set(asking.items[what]))
        found[what] = [ordered[place] for place in places]
    return Learned(asked.counts, asked.sizes, asked.answering_sizes, asked.session, found)


def transcript_of(asking: Asking, asked: Asked) -> Transcript:
    """Return the transcript of the first four messages."""
    parties = asking.party.identity, asking.partner
    sizes = asked.sizes, asked.answering_sizes
    return exact_transcript(asked.session, parties, asking.terms.comparisons, sizes, asked.messages[:4])


def _opened(asking: Asking, asked: Asked, sealed: bytes) -> Message:
    try:
        sender, message = open_sealed(asking.party, {asking.partner.name: asking.partner}, sealed)
    except InvalidMessage:
        raise unusable_answer() from None
    if message.kind == "refusal" and message.session == asked.session:
        raise refused_by_partner(message)
    fits = (
        message.protocol == PROTOCOL
        and sender == asking.partner
        and message.session == asked.session
        and message.number == len(asked.messages) + 1
        and message.kind == _EXPECTED.get(message.number)
        and message.previous == asked.messages[-1]
    )
    if not fits:
        raise unusable_answer()
    return message


def _request(asking: Asking, asked: Asked, message: Message) -> tuple[Asked, bytes]:
    """Open the commitment, and send blinded items, after the comparison was paid for."""
    reply = HelloReply.model_validate(message.payload)
    if reason := asking.terms.check_sizes(reply.sizes):
        raise UsageError(*REASONS[reason])
    query = Query(asking.partner.fingerprint, asked.session, "asked", asked.sizes, reply.sizes)
    if not pay(asking.party.folder, query, runs=asking.terms.runs, days=asking.terms.days):
        raise UsageError(*REASONS["no-budget"])
    secret = session_secret(asked.session, asked.nonce, reply.nonce)
    parts: dict[str, bytes] = {}
    keys: dict[What, str] = {}
    with open_psi(asking.library) as psi:
        for one in asking.terms.comparisons:
            salted = salted_items(secret, one.what, asking.items[one.what])
            blinded = psi.blind(salted, reveal=one.reveal == "items")
            parts[one.what], keys[one.what] = blinded.request, blinded.key.hex()
    facts = Request(nonce=asked.nonce).model_dump()
    sealed = seal(
        asking.party,
        asking.partner,
        Message(asked.session, 3, "request", asked.messages[-1], facts, parts),
    )
    update = {
        "answering_sizes": reply.sizes,
        "keys": keys,
        "messages": [*asked.messages, digest_of(sealed)],
    }
    return asked.model_copy(update=update), sealed


def _compare(asking: Asking, asked: Asked, message: Message) -> tuple[Asked, bytes]:
    """Find the common items, and sign the transcript."""
    Empty.model_validate(message.payload)
    expected = {f"{one.what}-{name}" for one in asking.terms.comparisons for name in ("setup", "response")}
    if set(message.parts) != expected:
        raise unusable_answer()
    counts: dict[What, int] = {}
    places: dict[What, list[int]] = {}
    with open_psi(asking.library) as psi:
        for one in asking.terms.comparisons:
            count, found = psi.compare(
                bytes.fromhex(asked.keys[one.what]),
                Answer(message.parts[f"{one.what}-setup"], message.parts[f"{one.what}-response"]),
                asked=asked.sizes[one.what],
                answered=asked.answering_sizes[one.what],
                reveal=one.reveal == "items",
            )
            counts[one.what] = count
            if one.reveal == "items":
                places[one.what] = list(found)
    # The keys have done their work; without them nobody can unblind what was exchanged.
    update = {"counts": counts, "places": places, "keys": {}}
    compared = asked.model_copy(update=update)
    facts = Receipt(signature=transcript_of(asking, compared).sign(asking.party)).model_dump()
    sealed = seal(
        asking.party,
        asking.partner,
        Message(asked.session, 5, "receipt", asked.messages[-1], facts),
    )
    messages = [*compared.messages, digest_of(sealed)]
    return compared.model_copy(update={"messages": messages}), sealed


def _finish(asking: Asking, asked: Asked, message: Message) -> Asked:
    """Keep the transcript with both signatures."""
    theirs, transcript = Receipt.model_validate(message.payload).signature, transcript_of(asking, asked)
    if not transcript.is_signed(asking.partner, theirs):
        raise unusable_answer()
    keep_transcript(asking.party, asking.partner, transcript, theirs)
    return asked


def _digest(items: Items) -> str:
    digest = hashlib.sha256()
    for what in sorted(items):
        digest.update(what.encode("ascii") + b"\n")
        for item in sorted(set(items[what])):
            digest.update(hashlib.sha256(item).digest())
    return digest.hexdigest()
