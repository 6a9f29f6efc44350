"""Both ends of a classification; each is one conversation on one connection, as a near comparison is.

The answering party pays before its first answer, and the asking party before it computes; whoever ends
sessions halfway uses the budget up. Nothing is kept for later but the transcript, which contains no result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.federation.ask.head import SecretHead
from medsanitize.federation.ask.process import ClassPlan, give_features, give_head, open_classes
from medsanitize.federation.ask.terms import AskHello, AskLimits, AskReply, ClassTerms
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.messages.refusals import REASONS, Refusal, unusable_answer
from medsanitize.federation.messages.sealed import InvalidMessage, Message
from medsanitize.federation.messages.transcript import Transcript, keep_transcript
from medsanitize.federation.near.line import Line
from medsanitize.federation.near.talk import REPLY_SECONDS, Answering, Talk, computed
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.private_overlap.budget import Query, Role, pay
from medsanitize.federation.private_overlap.terms import Empty, Receipt
from pydantic import ValidationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIGNED_FOR: Final = b"medsanitize ask transcript 1"


@dataclass(frozen=True, slots=True, repr=False)
class ClassSide:
    """What both parties of a classification have: ends, terms, limits and the folder of the library."""

    party: LocalParty
    partner: Identity
    terms: ClassTerms
    limits: AskLimits
    library: Path


@dataclass(frozen=True, slots=True, repr=False)
class ClassLearned:
    """What the asking party learned.

    Attributes
    ----------
    classes
        Names of the classes.
    answers
        The class of each image by its place in ``classes``; None where it is unsure.
    model
        Digest of the classifier.
    session
        The session, by which the transcript is filed.
    carried
        Bytes on the connection, in both directions.
    """

    classes: tuple[str, ...]
    answers: tuple[int | None, ...]
    model: str
    session: str
    carried: int


async def ask_classes(
    side: ClassSide, vectors: NDArray[np.float32], line: Line, session: str
) -> ClassLearned:
    """Ask a partner at the other end of a connection for the classes of features.

    Parameters
    ----------
    side : ClassSide
        The asking party.
    vectors : array of float32, shape (images, features)
        Features by the packaged model.
    line : Line
        The connection.
    session : str
        A new session.

    Raises
    ------
    UsageError
        The partner refuses, or this party's budget is used up.
    IntegrityError
        An answer is malformed, out of order or not by the partner.
    LineEnded, LibraryFailed
        The connection or a process ended.
    """
    prints = side.party.identity.fingerprint, side.partner.fingerprint
    talk, images = Talk(side.party, side.partner, line, session, *prints), len(vectors)
    try:
        await talk.say("ask-hello", AskHello(terms=side.terms, images=images).model_dump())
        reply = AskReply.model_validate((await talk.hear("ask-reply", REPLY_SECONDS)).payload)
        if not _is_paid(side, session, "asked", images):
            raise UsageError(*REASONS["no-answers"])
        await talk.say("ask-start", Empty().model_dump())
        plan = _plan(session, side.terms, vectors.shape, reply)
        answers = await _opened(side, talk, plan, vectors)
        transcript = _transcript(talk, side.terms, images, reply)
        await talk.say("ask-receipt", Receipt(signature=transcript.sign(side.party)).model_dump())
        receipt = Receipt.model_validate((await talk.hear("ask-receipt-reply", REPLY_SECONDS)).payload)
    except (ValidationError, InvalidMessage):
        raise unusable_answer() from None
    if not transcript.is_signed(side.partner, receipt.signature):
        raise unusable_answer()
    keep_transcript(side.party, side.partner, transcript, receipt.signature)
    return ClassLearned(tuple(reply.classes), answers, reply.model, session, line.carried)


async def _opened(
    side: ClassSide, talk: Talk, plan: ClassPlan, vectors: NDArray[np.float32]
) -> tuple[int | None, ...]:
    work = partial(give_features, plan, vectors)
    try:
        async with computed(side.library, talk.line, 0, plan.most_bytes, work) as (spu, own):
            message = await talk.hear("ask-share", plan.seconds)
            Empty.model_validate(message.payload)
            theirs = [message.parts[name] for name in sorted(message.parts)]
            return await asyncio.to_thread(open_classes, plan, spu, own, theirs)
    except LibraryFailed:
        # A partner that refuses now says why.
        await talk.hear("ask-share", 1.0)
        raise


def class_answering(sides: Mapping[str, tuple[ClassSide, SecretHead]]) -> Answering:
    """Return what answers the first message of a classification.

    Parameters
    ----------
    sides : mapping
        The answering party with its classifiers, by their names in the agreement with this partner.
    """

    async def answered(talk: Talk, message: Message, slot: asyncio.Lock) -> None:
        hello = AskHello.model_validate(message.payload)
        found = sides.get(hello.terms.model)
        if found is None or found[0].terms != hello.terms:
            raise Refusal("other-terms")
        if slot.locked():
            raise Refusal("busy")
        async with slot:
            await _classified(talk, *found, hello.images)

    return answered


async def _classified(talk: Talk, side: ClassSide, head: SecretHead, images: int) -> None:
    # Before anything is told, and before anything is computed.
    if not _is_paid(side, talk.session, "answered", images):
        raise Refusal("no-answers")
    reply = AskReply(classes=list(head.classes), model=head.digest, width=head.width)
    await talk.say("ask-reply", reply.model_dump())
    Empty.model_validate((await talk.hear("ask-start", REPLY_SECONDS)).payload)
    plan = _plan(talk.session, side.terms, (images, len(head.map)), reply)
    work = partial(give_head, plan, head)
    async with computed(side.library, talk.line, 1, plan.most_bytes, work) as (_, shares):
        parts = {f"share-{number:06d}": share for number, share in enumerate(shares)}
        await talk.say("ask-share", Empty().model_dump(), parts)
        transcript = _transcript(talk, side.terms, images, reply)
        # The partner's process may still need this one.
        receipt = Receipt.model_validate((await talk.hear("ask-receipt", plan.seconds)).payload)
    if not transcript.is_signed(talk.partner, receipt.signature):
        raise Refusal("malformed")
    keep_transcript(side.party, side.partner, transcript, receipt.signature)
    await talk.say("ask-receipt-reply", Receipt(signature=transcript.sign(side.party)).model_dump())


def _plan(session: str, terms: ClassTerms, shape: tuple[int, ...], reply: AskReply) -> ClassPlan:
    return ClassPlan(session, shape[0], shape[1], reply.width, len(reply.classes), terms.confidence)


def _is_paid(side: ClassSide, session: str, role: Role, images: int) -> bool:
    own, other = (images, 0) if role == "asked" else (0, images)
    query = Query(side.partner.fingerprint, session, role, {"class": own}, {"class": other}, images)
    return pay(side.party.folder, query, runs=side.limits.answers, days=side.limits.days, once=True)


def _transcript(talk: Talk, terms: ClassTerms, images: int, reply: AskReply) -> Transcript:
    """The facts of the first four messages."""
    facts = {"terms": terms.model_dump(), "images": images, "classifier": reply.model_dump()}
    return Transcript(_SIGNED_FOR, talk.session, talk.asking, talk.answering, facts, talk.messages[:4])
