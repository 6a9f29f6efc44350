"""The answering party: one sealed message in, one sealed message out.

A message that is not by a trusted partner raises `InvalidMessage` and gets no answer. Everything else is
answered, if only with a refusal. The answer to a message is kept until the session ends, so that the same
message gets the same bytes again; another message of that number is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.messages.refusals import Refusal, Refused
from medsanitize.federation.messages.sealed import (
    PROTOCOL,
    Hex64,
    Kind,
    Message,
    digest_of,
    open_sealed,
    seal,
)
from medsanitize.federation.messages.transcript import keep_transcript
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.parties.trust import trusted_partners
from medsanitize.federation.private_overlap.budget import Query, is_paid, pay, spent
from medsanitize.federation.private_overlap.items import Items, sizes_of
from medsanitize.federation.private_overlap.secret import commitment, salted_items, session_secret
from medsanitize.federation.private_overlap.session_files import (
    count_sessions,
    forget,
    forget_expired,
    read_private,
    session_file,
    session_lock,
    write_private,
)
from medsanitize.federation.private_overlap.terms import (
    Comparison,
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
from medsanitize.federation.psi.process import open_psi
from pydantic import BaseModel, ConfigDict, ValidationError

_ORDER: Final[Mapping[int, Kind]] = {1: "hello", 3: "request", 5: "receipt"}


class _Session(BaseModel):
    """An open session of the answering party, as it lies on disk."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    commitment: Hex64
    nonce: Hex64
    comparisons: list[Comparison]
    asking_sizes: Sizes
    answering_sizes: Sizes
    messages: list[Hex64]


@dataclass(frozen=True, slots=True, repr=False)
class Offer:
    """What the answering party offers to its partners.

    Attributes
    ----------
    terms
        The terms for each partner, by name; others are refused.
    items
        Reads the items of the release, for the comparisons of a partner.
    library
        Folder of the library.
    """

    terms: Mapping[str, PartnerTerms]
    items: Callable[[Sequence[What]], Items]
    library: Path


def answer(party: LocalParty, offer: Offer, sealed: bytes, *, carrier: Identity | None = None) -> bytes:
    """Answer one sealed message with one sealed message.

    Parameters
    ----------
    party : LocalParty
        The answering party.
    offer : Offer
        What it offers.
    sealed : bytes
        The message; its length must have been limited by the caller.
    carrier : Identity or None
        The partner whose connection has brought the message, if it came by a connection: messages of others
        are refused, so that no partner speaks for another.

    Raises
    ------
    InvalidMessage
        The message is malformed, for someone else, or not by a trusted partner or the carrier.
    IntegrityError, EnvironmentFailure
        The folder of the party is damaged or cannot be written; nothing was revealed.
    """
    trusted = trusted_partners(party)
    if carrier is not None:
        trusted = {name: one for name, one in trusted.items() if one == carrier}
    partner, message = open_sealed(party, trusted, sealed)
    name = f"answer-{partner.name}-{message.session}"
    # One lock for all sessions of a partner: a file for each session that it names would fill the disk.
    with session_lock(party.folder, f"answer-{partner.name}"):
        reply = session_file(party.folder, f"{name}-{message.number}-{digest_of(sealed)}.reply")
        kept = read_private(reply)
        if kept is not None:
            return kept
        try:
            answered = _answered(party, partner, offer, message, sealed, name)
        except Refusal as refused:
            facts = Refused(reason=refused.reason).model_dump()
            number = min(message.number + 1, 6)
            refusal = Message(message.session, number, "refusal", digest_of(sealed), facts)
            return seal(party, partner, refusal)
        # Kept before it is sent: a partner that lost the answer gets the same one.
        write_private(reply, answered)
        return answered


def _answered(
    party: LocalParty, partner: Identity, offer: Offer, message: Message, sealed: bytes, name: str
) -> bytes:
    if message.protocol != PROTOCOL:
        raise Refusal("other-version")
    terms = offer.terms.get(partner.name)
    if terms is None:
        raise Refusal("other-terms")
    if _ORDER.get(message.number) != message.kind:
        raise Refusal("out-of-order")
    file = session_file(party.folder, f"{name}.json")
    try:
        if message.kind == "hello":
            return _greet(party, partner, offer, terms, message, sealed, file)
        session = _open_session(file, message)
        if message.kind == "request":
            return _compute(party, partner, offer, terms, session, message, sealed, file)
        return _sign(party, partner, session, message, sealed, file)
    except ValidationError:
        raise Refusal("malformed") from None


def _greet(
    party: LocalParty,
    partner: Identity,
    offer: Offer,
    terms: PartnerTerms,
    message: Message,
    sealed: bytes,
    file: Path,
) -> bytes:
    """Agree on terms, and give this party's half of the secret."""
    hello = Hello.model_validate(message.payload)
    # The record of payments outlives the files of a session.
    is_known = file.exists() or is_paid(party.folder, message.session)
    if message.previous is not None or message.parts or is_known:
        raise Refusal("out-of-order")
    if tuple(hello.comparisons) != terms.comparisons:
        raise Refusal("other-terms")
    # Set sizes are told before a comparison is paid for; they are news whenever the release has changed.
    if spent(party.folder, partner.fingerprint, days=terms.days) >= terms.runs:
        raise Refusal("no-budget")
    own = sizes_of(_own_items(offer, terms))
    for sizes in (hello.sizes, own):
        if reason := terms.check_sizes(sizes):
            raise Refusal(reason)
    forget_expired(party.folder)
    if count_sessions(party.folder, f"answer-{partner.name}-") >= terms.most_sessions:
        raise Refusal("too-many-sessions")
    nonce = secrets.token_hex(32)
    facts = HelloReply(nonce=nonce, sizes=own).model_dump()
    reply = seal(party, partner, Message(message.session, 2, "hello-reply", digest_of(sealed), facts))
    opened = _Session(
        commitment=hello.commitment,
        nonce=nonce,
        comparisons=hello.comparisons,
        asking_sizes=hello.sizes,
        answering_sizes=own,
        messages=[digest_of(sealed), digest_of(reply)],
    )
    write_private(file, opened.model_dump_json().encode())
    return reply


def _compute(
    party: LocalParty,
    partner: Identity,
    offer: Offer,
    terms: PartnerTerms,
    session: _Session,
    message: Message,
    sealed: bytes,
    file: Path,
) -> bytes:
    """Blind both sets, after the comparison was paid for."""
    request = Request.model_validate(message.payload)
    if commitment(message.session, request.nonce) != session.commitment:
        raise Refusal("malformed")
    if len(session.messages) != 2:
        raise Refusal("out-of-order")
    if set(message.parts) != {one.what for one in session.comparisons}:
        raise Refusal("malformed")
    items = _own_items(offer, terms)
    # The policy or the release may have changed since the session was opened.
    if tuple(session.comparisons) != terms.comparisons or sizes_of(items) != session.answering_sizes:
        raise Refusal("no-session")
    query = Query(
        partner.fingerprint, message.session, "answered", session.answering_sizes, session.asking_sizes
    )
    if not pay(party.folder, query, runs=terms.runs, days=terms.days):
        raise Refusal("no-budget")
    secret, parts = session_secret(message.session, request.nonce, session.nonce), {}
    try:
        with open_psi(offer.library) as psi:
            for one in session.comparisons:
                salted = salted_items(secret, one.what, items[one.what])
                found = psi.answer(
                    salted,
                    message.parts[one.what],
                    asked=session.asking_sizes[one.what],
                    reveal=one.reveal == "items",
                )
                parts[f"{one.what}-setup"], parts[f"{one.what}-response"] = found.setup, found.response
    except LibraryFailed:
        raise Refusal("malformed") from None
    reply = seal(
        party,
        partner,
        Message(message.session, 4, "response", digest_of(sealed), Empty().model_dump(), parts),
    )
    known = [*session.messages, digest_of(sealed), digest_of(reply)]
    write_private(file, session.model_copy(update={"messages": known}).model_dump_json().encode())
    return reply


def _sign(
    party: LocalParty, partner: Identity, session: _Session, message: Message, sealed: bytes, file: Path
) -> bytes:
    """Sign the transcript that the asking party has signed, and end the session."""
    if len(session.messages) != 4 or message.parts:
        raise Refusal("out-of-order")
    sizes = session.asking_sizes, session.answering_sizes
    parties = partner, party.identity
    transcript = exact_transcript(message.session, parties, session.comparisons, sizes, session.messages)
    theirs = Receipt.model_validate(message.payload).signature
    if not transcript.is_signed(partner, theirs):
        raise Refusal("malformed")
    keep_transcript(party, partner, transcript, theirs)
    facts = Receipt(signature=transcript.sign(party)).model_dump()
    reply = seal(party, partner, Message(message.session, 6, "receipt-reply", digest_of(sealed), facts))
    # What lies in the kept answers is of no use any more; the session can never be opened again.
    forget(*(one for one in file.parent.glob(f"{file.stem}-*.reply")))
    write_private(file, session.model_copy(update={"messages": [*session.messages, digest_of(sealed)]})
                  .model_dump_json().encode())  # fmt: skip
    return reply


def _open_session(file: Path, message: Message) -> _Session:
    content = read_private(file)
    if content is None:
        raise Refusal("no-session")
    try:
        session = _Session.model_validate_json(content)
    except ValidationError:
        raise Refusal("no-session") from None
    # The message before, as this party sent it: nothing between was lost, changed or reordered.
    if not session.messages or message.previous != session.messages[-1]:
        raise Refusal("out-of-order")
    return session


def _own_items(offer: Offer, terms: PartnerTerms) -> Items:
    return offer.items([one.what for one in terms.comparisons])
