"""Both ends of a near comparison; each is one conversation on one connection.

A session that ends early gives no verdict and is paid for all the same, by the answering party from its first
answer on: whoever ends sessions halfway uses the budget up. Nothing is kept for later but the transcript.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from medsanitize.errors import UsageError
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.messages.refusals import REASONS, Refusal, unusable_answer
from medsanitize.federation.messages.sealed import InvalidMessage, Message
from medsanitize.federation.messages.transcript import Transcript, keep_transcript
from medsanitize.federation.near.bounds import NearBound, OwnCalibration
from medsanitize.federation.near.embeddings import NearSet
from medsanitize.federation.near.line import Line
from medsanitize.federation.near.process import NearPlan, Opened, Spu
from medsanitize.federation.near.talk import REPLY_SECONDS, Answering, Talk, answer_line, computed
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

_NOTHING_KNOWN: Final = NearBound(
    miss=1.0, patients=0, source="compared_images", strangers=0, matches=0, left_out=0
)
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
        Calibration of this party's images; None where it asks about single images, so that the answering
        party's distance counts alone.
    library
        Folder of the library.
    """

    party: LocalParty
    partner: Identity
    terms: NearTerms
    limits: NearLimits
    own: NearSet
    calibration: OwnCalibration | None
    library: Path

    @property
    def distance(self) -> float:
        """Largest distance of a match that this party proposes."""
        return 0.0 if self.calibration is None else self.calibration.distance

    def bound(self, distance: float) -> NearBound:
        """Return this party's bounds at a distance."""
        if self.calibration is None:
            return _NOTHING_KNOWN
        return self.calibration.bound(distance, self.own.left_out)


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
    talk = Talk(side.party, side.partner, line, session, *prints)
    distance, count = side.distance, len(side.own.vectors)
    if reason := side.limits.check(count):
        raise UsageError(*REASONS[reason])
    await talk.say("near-hello", NearHello(terms=side.terms, patients=count, distance=distance).model_dump())
    try:
        reply = NearReply.model_validate((await talk.hear("near-reply", REPLY_SECONDS)).payload)
        if reason := side.limits.check(count, reply.patients):
            raise UsageError(*REASONS[reason])
        agreed = agreed_distance(distance, reply.distance)
        bounds = side.bound(agreed), reply.bound
        if not _is_paid(side, session, "asked", count, reply.patients):
            raise UsageError(*REASONS[_unpaid(side)])
        await talk.say("near-start", NearStart(bound=bounds[0]).model_dump())
        plan = plan_of(session, side.terms, (count, reply.patients), side.own.dimension, agreed)
        opened = await _opened(side, talk, plan)
        transcript = _transcript(talk, side.terms, plan, agreed, bounds)
        await talk.say("near-receipt", Receipt(signature=transcript.sign(side.party)).model_dump())
        receipt = Receipt.model_validate((await talk.hear("near-receipt-reply", REPLY_SECONDS)).payload)
    except (ValidationError, InvalidMessage):
        raise unusable_answer() from None
    if not transcript.is_signed(side.partner, receipt.signature):
        raise unusable_answer()
    keep_transcript(side.party, side.partner, transcript, receipt.signature)
    return NearLearned(opened, plan.sizes, agreed, bounds, session, line.carried)


async def _opened(side: NearSide, talk: Talk, plan: NearPlan) -> Opened:
    try:
        work = partial(_work, side, plan, 0)
        async with computed(side.library, talk.line, 0, plan.most_bytes, work) as (spu, own):
            message = await talk.hear("near-share", plan.seconds)
            Empty.model_validate(message.payload)
            theirs = [message.parts[name] for name in sorted(message.parts)]
            return await asyncio.to_thread(spu.open, plan, own, theirs)
    except LibraryFailed:
        # A partner that refuses now says why.
        await talk.hear("near-share", 1.0)
        raise


async def answer_near(
    sides: Mapping[str, NearSide],
    partner: Identity,
    party: LocalParty,
    line: Line,
    slot: asyncio.Lock,
) -> None:
    """Answer a partner that asks for near comparisons only; see `answer_line`.

    Parameters
    ----------
    sides : mapping of str to NearSide
        By name of the partner; others are refused.
    partner, party, line, slot : Identity, LocalParty, Line, Lock
        As of `answer_line`.
    """
    await answer_line(partner, party, line, slot, {"near-hello": near_answering(sides.get(partner.name))})


def near_answering(*sides: NearSide | None) -> Answering:
    """Return what answers the first message of a near comparison; the side with its terms, or a refusal."""

    async def answered(talk: Talk, message: Message, slot: asyncio.Lock) -> None:
        hello = NearHello.model_validate(message.payload)
        side = next((one for one in sides if one is not None and one.terms == hello.terms), None)
        if side is None:
            raise Refusal("other-terms")
        if reason := side.limits.check(hello.patients, len(side.own.vectors)):
            raise Refusal(reason)
        if slot.locked():
            raise Refusal("busy")
        async with slot:
            await _compared(talk, side, hello)

    return answered


async def _compared(talk: Talk, side: NearSide, hello: NearHello) -> None:
    count, distance = len(side.own.vectors), side.distance
    # Whoever chose the distance of a search would learn how near an image is, question by question.
    if side.limits.images and hello.distance:
        raise Refusal("malformed")
    agreed = agreed_distance(hello.distance, distance)
    bound = side.bound(agreed)
    # Before the reply, which states a point of this party's calibration: another would follow unpaid.
    if not _is_paid(side, talk.session, "answered", count, hello.patients):
        raise Refusal(_unpaid(side))
    await talk.say("near-reply", NearReply(patients=count, distance=distance, bound=bound).model_dump())
    start = NearStart.model_validate((await talk.hear("near-start", REPLY_SECONDS)).payload)
    plan = plan_of(talk.session, side.terms, (hello.patients, count), side.own.dimension, agreed)
    work = partial(_work, side, plan, 1)
    async with computed(side.library, talk.line, 1, plan.most_bytes, work) as (_, shares):
        parts = {f"share-{number:06d}": share for number, share in enumerate(shares)}
        await talk.say("near-share", Empty().model_dump(), parts)
        transcript = _transcript(talk, side.terms, plan, agreed, (start.bound, bound))
        # The partner's process may still need this one.
        receipt = Receipt.model_validate((await talk.hear("near-receipt", plan.seconds)).payload)
    if not transcript.is_signed(talk.partner, receipt.signature):
        raise Refusal("malformed")
    keep_transcript(side.party, side.partner, transcript, receipt.signature)
    await talk.say("near-receipt-reply", Receipt(signature=transcript.sign(side.party)).model_dump())


def _is_paid(side: NearSide, session: str, role: Role, own: int, other: int) -> bool:
    """Record the comparison in the budget, with exact ones; of a search, its images."""
    what = "search" if side.limits.images else "near"
    answers = (own if role == "asked" else other) if side.limits.images else 0
    query = Query(side.partner.fingerprint, session, role, {what: own}, {what: other}, answers)
    return pay(side.party.folder, query, runs=side.limits.runs, days=side.limits.days, once=True)


def _unpaid(side: NearSide) -> str:
    return "no-answers" if side.limits.images else "no-budget"


def _work(
    side: NearSide, plan: NearPlan, rank: Literal[0, 1], spu: Spu, sockets: tuple[Path, Path]
) -> list[bytes]:
    return spu.compare(plan, side.own.vectors, rank=rank, sockets=sockets)


def _transcript(
    talk: Talk, terms: NearTerms, plan: NearPlan, distance: float, bounds: tuple[NearBound, NearBound]
) -> Transcript:
    """The facts of the first four messages; the first size and bounds are the asking party's."""
    facts = {
        "terms": terms.model_dump(),
        "sizes": list(plan.sizes),
        "distance": distance,
        "bounds": [one.model_dump() for one in bounds],
    }
    return Transcript(_SIGNED_FOR, talk.session, talk.asking, talk.answering, facts, talk.messages[:4])
