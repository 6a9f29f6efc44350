"""A conversation with a partner on one connection, in which both parties' processes compute together."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import MedsanitizeError
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.messages.refusals import Refusal, Refused, refused_by_partner
from medsanitize.federation.messages.sealed import (
    PROTOCOL,
    InvalidMessage,
    Kind,
    Message,
    digest_of,
    open_sealed,
    seal,
)
from medsanitize.federation.near.line import Line, LineEnded
from medsanitize.federation.near.process import Spu, open_spu
from medsanitize.federation.parties.identity import Identity, LocalParty
from pydantic import ValidationError

# A partner that waits longer holds the server up, which makes one comparison at a time.
_HELLO_SECONDS: Final = 20.0
REPLY_SECONDS: Final = 120.0


@dataclass(slots=True, repr=False)
class Talk:
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
        """Send the next message."""
        previous = self.messages[-1] if self.messages else None
        number = len(self.messages) + 1
        message = Message(self.session, number, kind, previous, payload, parts or {})
        sealed = seal(self.party, self.partner, message)
        self.messages.append(digest_of(sealed))
        await self.line.send(sealed)

    async def hear(self, kind: Kind, seconds: float) -> Message:
        """Return the partner's next message.

        Raises
        ------
        UsageError, EnvironmentFailure
            It is a refusal.
        InvalidMessage
            It is another one than the next of this session.
        LineEnded
            There is none in time.
        """
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


Answering = Callable[[Talk, Message, asyncio.Lock], Awaitable[None]]
"""Answers the first message of a conversation; the lock is held while this party computes."""


async def answer_line(
    partner: Identity,
    party: LocalParty,
    line: Line,
    slot: asyncio.Lock,
    answering: Mapping[Kind, Answering],
) -> None:
    """Answer a partner at the other end of a connection; nothing is learned but what it states.

    Parameters
    ----------
    partner : Identity
        Who has opened the connection.
    party : LocalParty
        This party.
    line : Line
        The connection.
    slot : Lock
        Held by the one computation that this party makes: it takes a core and more than a gigabyte. A partner
        that has not paid does not hold it.
    answering : mapping
        What answers a first message, by its kind.
    """
    reading = asyncio.create_task(line.read())
    try:
        sealed = await line.receive(_HELLO_SECONDS)
        _, hello = open_sealed(party, {partner.name: partner}, sealed)
        talk = Talk(party, partner, line, hello.session, partner.fingerprint, party.identity.fingerprint)
        talk.messages.append(digest_of(sealed))
        try:
            if hello.protocol != PROTOCOL:
                raise Refusal("other-version")
            answered = answering.get(hello.kind)
            if answered is None or (hello.number, hello.previous) != (1, None) or hello.parts:
                raise Refusal("out-of-order")
            await answered(talk, hello, slot)
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


@asynccontextmanager
async def computed(
    library: Path,
    line: Line,
    rank: int,
    most_bytes: int,
    work: Callable[[Spu, tuple[Path, Path]], list[bytes]],
) -> AsyncIterator[tuple[Spu, list[bytes]]]:
    """Compute with the partner's process, unless the connection ends; yields the process and the shares.

    Parameters
    ----------
    library : Path
        Folder of the library.
    line : Line
        The connection.
    rank : int
        0 at the asking, 1 at the answering party.
    most_bytes : int
        Most bytes of the partner's process that are accepted.
    work : callable
        Computes in the process, on these sockets.
    """
    with tempfile.TemporaryDirectory(prefix="near-") as folder, open_spu(library) as spu:
        async with line.sockets(Path(folder), first=rank, most_bytes=most_bytes) as sockets:
            task = asyncio.create_task(asyncio.to_thread(work, spu, sockets))
            ended = asyncio.create_task(line.ended.wait())
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
