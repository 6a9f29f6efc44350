"""Both ends of a near comparison; each is one conversation on one connection.

A session that ends early gives no verdict and is paid for all the same, by the answering party from its first
answer on: whoever ends sessions halfway uses the budget up. Nothing is kept for later but the transcript.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from medsanitize.errors import MedsanitizeError, UsageError
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.messages.refusals import (
    REASONS,
    Refusal,
    Refused,
    refused_by_partner,
    unusable_answer,
)
from medsanitize.federation.messages.sealed import (
    PROTOCOL,
    InvalidMessage,
    Kind,
    Message,
    digest_of,
    open_sealed,
    seal,
)
from medsanitize.federation.messages.transcript import Transcript, keep_transcript
from medsanitize.federation.near.bounds import NearBound, OwnCalibration
from medsanitize.federation.near.embeddings import NearSet
from medsanitize.federation.near.line import Line, LineEnded
from medsanitize.federation.near.process import NearPlan, Opened, Spu, open_spu
from medsanitize.federation.near.terms import (
    NearHello,
    NearLimits,
    NearReply,
    NearStart,
    NearTerms,
    agreed_distance,
    plan_of,
)
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.private_overlap.budget import Query, Role, pay
from medsanitize.federation.private_overlap.terms import Empty, Receipt
from pydantic import ValidationError

# A partner that waits longer holds the server up, which makes one comparison at a time.
_HELLO_SECONDS: Final = 20.0
_REPLY_SECONDS: Final = 120.0
_SIGNED_FOR: Final = b"medsanitize near transcript 1"


@dataclass(frozen=True, slots=True, repr=False)
class NearSide:
    """One party with everything that does not change during a session.

    Attributes
    ----------
    party, partner
        Both ends.
    terms, limits
        What this party's policy agrees to.
    own
        Embeddings.
    calibration
        Calibration of this party's images.
    library
        Folder of the library.
    """

    party: LocalParty
    partner: Identity
    terms: NearTerms
    limits: NearLimits
    own: NearSet
    calibration: OwnCalibration
    library: Path


@dataclass(frozen=True, slots=True, repr=False)
class NearLearned:
    """What the asking party learned.

    Attributes
    ----------
    opened
        What was opened.
    sizes
        Patients of the asking and of the answering party.
    distance
        Largest distance of a match.
    bounds
        Statements of both parties.
    session
        The session, by which the transcript is filed.
    carried
        Bytes on the connection, in both directions.
    """

    opened: Opened
    sizes: tuple[int, int]
    distance: float
    bounds: tuple[NearBound, NearBound]
    session: str
    carried: int


async def ask_near(side: NearSide, line: Line, session: str) -> NearLearned:
    """Ask a partner at the other end of a connection.

    Raises
    ------
    UsageError
        The partner refuses, or this party's policy does.
    IntegrityError
        An answer is malformed, out of order or not by the partner.
    LineEnded, LibraryFailed
        The connection or a process ended.
    """
    prints = side.party.identity.fingerprint, side.partner.fingerprint
    talk = _Talk(side.party, side.partner, line, session, *prints)
    distance, count = side.calibration.distance, len(side.own.vectors)
    if reason := side.limits.check(count):
        raise UsageError(*REASONS[reason])
    await talk.say("near-hello", NearHello(terms=side.terms, patients=count, distance=distance).model_dump())
    try:
        reply = NearReply.model_validate((await talk.hear("near-reply", _REPLY_SECONDS)).payload)
        if reason := side.limits.check(reply.patients):
            raise UsageError(*REASONS[reason])
        agreed = agreed_distance(distance, reply.distance)
        bounds = side.calibration.bound(agreed, side.own.left_out), reply.bound
        if not _is_paid(side, session, "asked", count, reply.patients):
            raise UsageError(*REASONS["no-budget"])
        await talk.say("near-start", NearStart(bound=bounds[0]).model_dump())
        plan = plan_of(session, side.terms, (count, reply.patients), side.own.dimension, agreed)
        opened = await _opened(side, talk, plan)
        transcript = _transcript(talk, side.terms, plan, agreed, bounds)
        await talk.say("near-receipt", Receipt(signature=transcript.sign(side.party)).model_dump())
        receipt = Receipt.model_validate((await talk.hear("near-receipt-reply", _REPLY_SECONDS)).payload)
    except (ValidationError, InvalidMessage):
        raise unusable_answer() from None
    if not transcript.is_signed(side.partner, receipt.signature):
        raise unusable_answer()
    keep_transcript(side.party, side.partner, transcript, receipt.signature)
    return NearLearned(opened, plan.sizes, agreed, bounds, session, line.carried)


async def _opened(side: NearSide, talk: _Talk, plan: NearPlan) -> Opened:
    try:
        async with _computed(side, talk.line, plan, 0) as (spu, own):
            message = await talk.hear("near-share", plan.seconds)
            Empty.model_validate(message.payload)
            theirs = [message.parts[name] for name in sorted(message.parts)]
            return await asyncio.to_thread(spu.open, plan, own, theirs)
    except LibraryFailed:
        # A partner that refuses now says why.
        await talk.hear("near-share", 1.0)
        raise


async def answer_near(
    sides: Mapping[str, NearSide], partner: Identity, party: LocalParty, line: Line, slot: asyncio.Lock
) -> None:
    """Answer a partner at the other end of a connection; nothing is learned but what it states.

    Parameters
    ----------
    sides : mapping of str to NearSide
        By name of the partner; others are refused.
    partner : Identity
        Who has opened the connection.
    party : LocalParty
        This party.
    line : Line
        The connection.
    slot : Lock
        Held by the one comparison that this party makes: it takes a core and more than a gigabyte. A partner
        that has not paid does not hold it.
    """
    reading = asyncio.create_task(line.read())
    try:
        sealed = await line.receive(_HELLO_SECONDS)
        _, hello = open_sealed(party, {partner.name: partner}, sealed)
        prints = partner.fingerprint, party.identity.fingerprint
        talk = _Talk(party, partner, line, hello.session, *prints)
        talk.messages.append(digest_of(sealed))
        try:
            await _answered(talk, sides.get(partner.name), hello, slot)
        except ValidationError:
            await talk.say("refusal", Refused(reason="malformed").model_dump())
        except Refusal as refused:
            await talk.say("refusal", Refused(reason=refused.reason).model_dump())
    except (InvalidMessage, LineEnded, LibraryFailed, MedsanitizeError):
        # The partner sees the end of the connection; nothing was revealed beyond what was sent.
        pass
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def _answered(talk: _Talk, side: NearSide | None, message: Message, slot: asyncio.Lock) -> None:
    if message.protocol != PROTOCOL:
        raise Refusal("other-version")
    if (message.kind, message.number, message.previous) != ("near-hello", 1, None) or message.parts:
        raise Refusal("out-of-order")
    hello = NearHello.model_validate(message.payload)
    if side is None or hello.terms != side.terms:
        raise Refusal("other-terms")
    if reason := side.limits.check(hello.patients, len(side.own.vectors)):
        raise Refusal(reason)
    if slot.locked():
        raise Refusal("busy")
    async with slot:
        await _compared(talk, side, hello)


async def _compared(talk: _Talk, side: NearSide, hello: NearHello) -> None:
    count = len(side.own.vectors)
    distance = side.calibration.distance
    agreed = agreed_distance(hello.distance, distance)
    bound = side.calibration.bound(agreed, side.own.left_out)
    # Before the reply, which states a point of this party's calibration: another would follow unpaid.
    if not _is_paid(side, talk.session, "answered", count, hello.patients):
        raise Refusal("no-budget")
    await talk.say("near-reply", NearReply(patients=count, distance=distance, bound=bound).model_dump())
    start = NearStart.model_validate((await talk.hear("near-start", _REPLY_SECONDS)).payload)
    plan = plan_of(talk.session, side.terms, (hello.patients, count), side.own.dimension, agreed)
    async with _computed(side, talk.line, plan, 1) as (_, shares):
        parts = {f"share-{number:06d}": share for number, share in enumerate(shares)}
        await talk.say("near-share", Empty().model_dump(), parts)
        transcript = _transcript(talk, side.terms, plan, agreed, (start.bound, bound))
        # The partner's process may still need this one.
        receipt = Receipt.model_validate((await talk.hear("near-receipt", plan.seconds)).payload)
    if not transcript.is_signed(talk.partner, receipt.signature):
        raise Refusal("malformed")
    keep_transcript(side.party, side.partner, transcript, receipt.signature)
    await talk.say("near-receipt-reply", Receipt(signature=transcript.sign(side.party)).model_dump())


@dataclass(slots=True, repr=False)
class _Talk:
    """A conversation: every message names the one before."""

    party: LocalParty
    partner: Identity
    line: Line
    session: str
    asking: str
    answering: str
    messages: list[str] = field(default_factory=list)

    async def say(
        self, kind: Kind, payload: Mapping[str, Any], parts: Mapping[str, bytes] | None = None
    ) -> None:
        previous = self.messages[-1] if self.messages else None
        number = len(self.messages) + 1
        message = Message(self.session, number, kind, previous, payload, parts or {})
        sealed = seal(self.party, self.partner, message)
        self.messages.append(digest_of(sealed))
        await self.line.send(sealed)

    async def hear(self, kind: Kind, seconds: float) -> Message:
        sealed = await self.line.receive(seconds)
        _, message = open_sealed(self.party, {self.partner.name: self.partner}, sealed)
        if message.session != self.session or message.protocol != PROTOCOL:
            raise InvalidMessage
        if message.kind == "refusal":
            raise refused_by_partner(message)
        fits = message.number == len(self.messages) + 1 and message.previous == self.messages[-1]
        if message.kind != kind or not fits:
            raise InvalidMessage
        self.messages.append(digest_of(sealed))
        return message


def _is_paid(side: NearSide, session: str, role: Role, own: int, other: int) -> bool:
    """Record the comparison in the budget, in which near and exact ones count alike."""
    query = Query(side.partner.fingerprint, session, role, {"near": own}, {"near": other})
    return pay(side.party.folder, query, runs=side.limits.runs, days=side.limits.days, once=True)


@asynccontextmanager
async def _computed(
    side: NearSide, line: Line, plan: NearPlan, rank: Literal[0, 1]
) -> AsyncIterator[tuple[Spu, list[bytes]]]:
    """Compute with the partner's process, unless the connection ends; yields the process and the shares."""
    with tempfile.TemporaryDirectory(prefix="near-") as folder, open_spu(side.library) as spu:
        async with line.sockets(Path(folder), first=rank, most_bytes=plan.most_bytes) as sockets:
            work = asyncio.to_thread(spu.compare, plan, side.own.vectors, rank=rank, sockets=sockets)
            task, ended = asyncio.create_task(work), asyncio.create_task(line.ended.wait())
            try:
                await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                if not task.done():
                    # The library waits for minutes for a partner that is gone.
                    spu.process.child.process.kill()
                    await asyncio.wait({task})
                    # Known, also where nobody asks for the shares any more.
                    task.exception()
            yield spu, await task


def _transcript(
    talk: _Talk, terms: NearTerms, plan: NearPlan, distance: float, bounds: tuple[NearBound, NearBound]
) -> Transcript:
    """The facts of the first four messages; the first size and bounds are the asking party's."""
    facts = {
        "terms": terms.model_dump(),
        "sizes": list(plan.sizes),
        "distance": distance,
        "bounds": [one.model_dump() for one in bounds],
    }
    return Transcript(_SIGNED_FOR, talk.session, talk.asking, talk.answering, facts, talk.messages[:4])
