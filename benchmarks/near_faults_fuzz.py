"""Fuzzed messages of near comparisons, by partners that the other side trusts.

Most go to the server of the answering party: before the stream (anything but a first message, or a wrong
one), during it (a wrong second message, garbage on the connections of the library) and to the end of it
(pieces of an honest comparison changed, lost, repeated or in another order). The rest are answers of a
hostile server to an honest asking party.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from aiohttp import ClientError, ClientSession, ClientWebSocketResponse, WSMsgType, web
from medsanitize.errors import MedsanitizeError
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.messages.sealed import Kind, Message, digest_of, open_sealed, seal
from medsanitize.federation.near import client
from medsanitize.federation.near.client import ask_near_over_https
from medsanitize.federation.near.line import Line, LineEnded
from medsanitize.federation.near.session import NearSide
from medsanitize.federation.near.terms import NearHello, NearReply, NearStart
from medsanitize.federation.parties.identity import IDENTITY, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.transport.https_client import NEAR_PATH
from medsanitize.federation.transport.https_server import serve
from medsanitize.federation.transport.tls import client_context
from near_faults_party import SIZES, sides
from near_partners import SHARED
from partner_faults_fuzz import MESSAGES_OF_ONE, session_of, value

# The server waits for a first message for 20 s; whoever is not ended some time after that hangs.
HUNG = 60.0
# Of 100 messages: those that make both parties compute, which takes seconds, and those to the asking party.
WHOLE, ASKING = 3, 7
STREAM = b"\x01\x02\x03"


@dataclass
class Hostile:
    """A partner that the server trusts, and another one whose messages it also has."""

    side: NearSide
    other: NearSide
    port: int
    draw: random.Random

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ClientWebSocketResponse]:
        """Open the connection of a near comparison."""
        context = client_context(self.side.party, self.side.partner)
        async with ClientSession() as http, asyncio.timeout(HUNG):
            address = f"https://127.0.0.1:{self.port}{NEAR_PATH}"
            async with http.ws_connect(address, ssl=context, max_msg_size=1 << 26) as connection:
                yield connection

    def hello(self, session: str) -> Message:
        """A first message as an honest party sends it."""
        facts = NearHello(terms=self.side.terms, patients=SIZES[0], distance=self.side.calibration.distance)
        return Message(session, 1, "near-hello", None, facts.model_dump())

    def sealed(self, message: Message) -> bytes:
        """Sign and seal a message for the server."""
        return seal(self.side.party, self.side.partner, message)

    async def told(self, connection: ClientWebSocketResponse) -> str:
        """Wait for the end of the connection, and name what came before it."""
        found = []
        with suppress(LineEnded):
            while True:
                found.append((await self.heard(connection)).kind)
                if found[-1] == "near-reply":
                    # The server waits for two minutes for what an honest party sends next.
                    break
        if "near-share" in found:
            return "BAD: a share"
        return " ".join(found) or "ended"

    async def heard(self, connection: ClientWebSocketResponse) -> Message:
        """The next sealed message, or the end."""
        sealed = await self.received(connection)
        return open_sealed(self.side.party, {self.side.partner.name: self.side.partner}, sealed)[1]

    async def received(self, connection: ClientWebSocketResponse) -> bytes:
        """The next sealed message as it is."""
        while (received := await connection.receive()).type == WSMsgType.BINARY:
            if received.data[:1] == b"\0":
                return bytes(received.data[1:])
        raise LineEnded


Fuzz = Callable[[Hostile], Awaitable[str]]

# -- before the stream ------------------------------------------------------------------------


async def arbitrary(hostile: Hostile) -> str:
    """Frames of random bytes, text, or frames of a connection that was not agreed on."""
    draw = hostile.draw
    async with hostile.connected() as connection:
        for _ in range(draw.randint(1, 4)):
            if draw.random() < 0.2:
                await connection.send_str("hello")
            else:
                first = draw.choice([b"", b"\0", b"\x01\0\0\0\0", b"\x02\0\0\0\0", b"\x03\0\0\0\0", b"\xff"])
                await connection.send_bytes(first + draw.randbytes(draw.choice([0, 1, 30, 3000, 200_000])))
        return await hostile.told(connection)


async def huge(hostile: Hostile) -> str:
    """A frame that is larger than any honest one."""
    async with hostile.connected() as connection:
        with suppress(OSError, ClientError):
            await connection.send_bytes(b"\0" + bytes(hostile.draw.choice([1 << 19, 1 << 22, 1 << 25])))
        return await hostile.told(connection)


async def damaged(hostile: Hostile) -> str:
    """A first message with a changed bit, shortened, longer, or by another partner."""
    draw = hostile.draw
    sealed = bytearray(hostile.sealed(hostile.hello(session_of(draw))))
    place = draw.randrange(len(sealed))
    match draw.randrange(4):
        case 0:
            sealed[place] ^= 1 << draw.randrange(8)
        case 1:
            del sealed[place:]
        case 2:
            sealed[place:place] = draw.randbytes(20)
        case _:
            other = replace(hostile, side=hostile.other)
            sealed = bytearray(other.sealed(other.hello(session_of(draw))))
    async with hostile.connected() as connection:
        await connection.send_bytes(b"\0" + sealed)
        return await hostile.told(connection)


async def nonsense(hostile: Hostile) -> str:
    """A message of any content, signed and sealed."""
    async with hostile.connected() as connection:
        await connection.send_bytes(b"\0" + hostile.sealed(_nonsense(hostile.draw, session_of(hostile.draw))))
        return await hostile.told(connection)


async def wrong_hello(hostile: Hostile) -> str:
    """A first message with one fact of another kind or size, of another version, or of another place."""
    draw = hostile.draw
    message = hostile.hello(session_of(draw))
    facts: dict[str, Any] = dict(message.payload)
    name = draw.choice([*facts, *facts["terms"]])
    changed = draw.choice([value(draw), -1, 0, 1, 11, 10**6 + 1, 10**30, float("1e308"), 2.5, "count", []])
    if name in facts:
        facts[name] = changed
    else:
        facts["terms"] = {**facts["terms"], name: changed}
    other = replace(message, payload=facts)
    if draw.random() < 0.2:
        other = replace(message, protocol=draw.choice([0, 2, 10**9]))
    elif draw.random() < 0.2:
        other = replace(message, number=draw.randint(2, 6), parts={"more": b""})
    async with hostile.connected() as connection:
        await connection.send_bytes(b"\0" + hostile.sealed(other))
        return await hostile.told(connection)


async def replayed(hostile: Hostile) -> str:
    """A first message again, on another connection, after it was answered."""
    sealed = hostile.sealed(hostile.hello(session_of(hostile.draw)))
    async with hostile.connected() as connection:
        await connection.send_bytes(b"\0" + sealed)
        first = await hostile.heard(connection)
    async with hostile.connected() as connection:
        await connection.send_bytes(b"\0" + sealed)
        again = await hostile.heard(connection)
    if first.payload.get("reason") == "busy":
        # Another comparison was still running: nothing was answered yet.
        return "refusal"
    if (first.kind, again.kind) != ("near-reply", "refusal"):
        return f"BAD: {first.kind} {first.payload.get('reason')}, again {again.kind}"
    return "near-reply, again refusal"


async def no_websocket(hostile: Hostile) -> str:
    """Bytes that are no request for the connection, or no frames of it."""
    draw, context = hostile.draw, client_context(hostile.side.party, hostile.side.partner)
    start = b"GET /near HTTP/1.1\r\nHost: a\r\n"
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    whole = start + upgrade + key + b"\r\n"
    sent = draw.choice(
        [
            start + b"\r\n",
            start + upgrade + b"\r\n",
            start + upgrade + b"Sec-WebSocket-Key: short\r\n\r\n",
            start + upgrade.replace(b"13", b"99") + key + b"\r\n",
            b"POST" + whole[3:],
            whole + b"\x82\xff" + b"\xff" * 8 + b"mask" + draw.randbytes(50),
            whole + b"\x82\x05plain",
            whole + b"\xf2\x80mask",
            whole + b"\x02\x81mask" + b"x" + b"\x82\x81mask" + b"x",
            whole + b"\x89\xfe\x01\x00mask" + bytes(256),
            whole + b"\x88\x81maskx",
            whole + draw.randbytes(draw.randint(1, 400)),
            whole + b"\x82\xfe\x40\x00mask" + draw.randbytes(100),
        ]
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", hostile.port, ssl=context)
    try:
        async with asyncio.timeout(HUNG):
            writer.write(sent)
            await writer.drain()
            if draw.random() < 0.5:
                writer.write_eof() if writer.can_write_eof() else writer.transport.abort()
            told = await reader.read(64)
            while await reader.read(4096):
                pass
    except (OSError, ssl.SSLError):
        told = b""
    finally:
        writer.transport.abort()
    return told[9:12].decode("ascii", "replace") or "ended"


# -- during the stream ------------------------------------------------------------------------


async def wrong_start(hostile: Hostile) -> str:
    """An honest first message, then a wrong second one."""
    draw, session = hostile.draw, session_of(hostile.draw)
    async with hostile.connected() as connection:
        hello = hostile.sealed(hostile.hello(session))
        await connection.send_bytes(b"\0" + hello)
        reply = await hostile.received(connection)
        start = Message(session, 3, "near-start", digest_of(reply), _start(hostile))
        other = draw.choice(
            [
                draw.randbytes(200),
                hello,
                reply,
                hostile.sealed(replace(start, session=session_of(draw))),
                hostile.sealed(replace(start, previous=None)),
                hostile.sealed(replace(start, number=5)),
                hostile.sealed(replace(start, kind="near-receipt")),
                hostile.sealed(replace(start, protocol=2)),
                hostile.sealed(replace(start, payload={"bound": value(draw)})),
                hostile.sealed(_nonsense(draw, session)),
            ]
        )
        for _ in range(draw.choice([1, 1, 5, 40])):
            await connection.send_bytes(b"\0" + other)
        return "near-reply, then " + await hostile.told(connection)


async def garbage(hostile: Hostile) -> str:
    """An honest start, then garbage for the library, and away."""
    draw, session = hostile.draw, session_of(hostile.draw)
    async with hostile.connected() as connection:
        await connection.send_bytes(b"\0" + hostile.sealed(hostile.hello(session)))
        if (reply := await hostile.received(connection)) is not None:
            start = Message(session, 3, "near-start", digest_of(reply), _start(hostile))
            await connection.send_bytes(b"\0" + hostile.sealed(start))
        for frame in _garbage(draw):
            with suppress(OSError, ClientError):
                await connection.send_bytes(frame)
        await asyncio.sleep(draw.random() * 4)
        if draw.random() < 0.5:
            connection._response.close()
    return "near-reply, garbage"


def _garbage(draw: random.Random) -> Iterator[bytes]:
    """Frames of connections of the library: opened, never opened, closed, and what no library sends."""
    for _ in range(draw.choice([1, 3, 20])):
        number = draw.choice([0, 0, 0, 2, 1, 2**32 - 1]).to_bytes(4, "big")
        kind = draw.choice([b"\x01", b"\x02", b"\x02", b"\x02", b"\x03"])
        if draw.random() < 0.5:
            yield b"\x01" + number
        content = draw.choice(
            [
                b"PRPC" + draw.randbytes(8) + draw.randbytes(300),
                b"PRPC" + (100).to_bytes(4, "big") + (50).to_bytes(4, "big") + draw.randbytes(100),
                b"PRPC" + b"\x7f\xff\xff\xff" * 2 + draw.randbytes(100),
                b"POST /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
                draw.randbytes(draw.choice([0, 1, 100, 100_000])),
            ]
        )
        yield (
            draw.choice([kind + number, kind + number[:2]]) + content
            if draw.random() < 0.1
            else (kind + number + content)
        )


# -- an honest comparison with changed pieces ---------------------------------------------------


class Changing(Line):
    """A line that changes, loses, repeats or exchanges some of what it sends."""

    draw = random.Random(0)  # noqa: S311  repeatable
    once = True

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        # One piece in the whole comparison, or one in twenty.
        self._after = self.draw.choice([*range(12), 20, 40, 80])
        self._often = self.draw.random() < 0.3
        self._held: bytes | None = None

    async def _send(self, frame: bytes) -> None:
        self._after -= 1
        if self._after == 0 or (self._after < 0 and self._often and self.draw.random() < 0.05):
            for one in self._changed(frame):
                await super()._send(one)
            return
        await super()._send(frame)
        if self._held is not None:
            held, self._held = self._held, None
            await super()._send(held)

    def _changed(self, frame: bytes) -> list[bytes]:
        place = self.draw.randrange(len(frame))
        match self.draw.randrange(6):
            case 0:
                return []
            case 1:
                return [frame, frame]
            case 2:
                self._held = frame
                return []
            case 3:
                return [frame[:place]]
            case 4:
                return [frame[:place] + self.draw.randbytes(40) + frame[place + 40 :]]
            case _:
                bit = frame[place] ^ 1 << self.draw.randrange(8)
                return [frame[:place] + bytes([bit]) + frame[place + 1 :]]


async def changed(hostile: Hostile) -> str:
    """An honest comparison with some pieces changed; the server ends it or not, this side leaves in time."""
    Changing.draw = hostile.draw
    client.Line = Changing  # type: ignore[misc]
    work = asyncio.to_thread(ask_near_over_https, hostile.side, f"https://127.0.0.1:{hostile.port}")
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=hostile.draw.choice([5, 10, 20]))
    if not done:
        # A changed piece can leave both libraries waiting: go away.
        _kill_children()
    try:
        found = await task
    except (MedsanitizeError, LibraryFailed):
        return "comparison with changed pieces, ended"
    finally:
        client.Line = Line  # type: ignore[misc]
    return f"comparison with changed pieces, {'the' if found.opened.number == SHARED else 'another'} count"


def _kill_children() -> None:
    import os
    import signal

    from near_faults import children

    for one in children(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


# -- a hostile server ---------------------------------------------------------------------------


async def hostile_server(hostile: Hostile) -> str:
    """An honest asking party at a server that answers anything; it must end with one clear error."""
    draw, own = hostile.draw, hostile.side
    # The same keys the other way round: the stranger's server, asked by the answering party of the kills.
    south = replace(own, party=open_party(own.party.folder.parents[1] / "south"), partner=own.party.identity)
    behave = draw.choice(SERVERS)
    began = time.monotonic()
    with _serving(own, south, behave, draw) as address:
        try:
            await asyncio.to_thread(ask_near_over_https, south, address)
        except MedsanitizeError as error:
            told = type(error).__name__
        except Exception as error:  # noqa: BLE001  this is what is looked for
            return f"BAD: the asking party raised {type(error).__name__} at {behave.__name__}"
        else:
            return f"BAD: a verdict of {behave.__name__}"
    if time.monotonic() - began > HUNG:
        return f"BAD: the asking party waited for {behave.__name__}"
    return f"asking party: {told}"


async def said_garbage(connection: web.WebSocketResponse, _: NearSide, draw: random.Random) -> None:
    """Random frames, and the end."""
    for _ in range(draw.randint(0, 5)):
        await connection.send_bytes(draw.choice([b"", b"\0", b"\x01", b"\x02"]) + draw.randbytes(300))


async def said_nonsense(connection: web.WebSocketResponse, own: NearSide, draw: random.Random) -> None:
    """A signed message of any content, in the session or another."""
    hello = await _heard(connection, own)
    session = draw.choice([hello.session, session_of(draw)])
    await connection.send_bytes(b"\0" + seal(own.party, own.partner, _nonsense(draw, session)))
    await asyncio.sleep(draw.random())


async def said_wrong_reply(connection: web.WebSocketResponse, own: NearSide, draw: random.Random) -> None:
    """A reply with one wrong fact."""
    received = await connection.receive_bytes()
    _, hello = open_sealed(own.party, {own.partner.name: own.partner}, received[1:])
    distance = own.calibration.distance
    facts = NearReply(patients=SIZES[1], distance=distance, bound=own.calibration.bound(distance, 0))
    payload = facts.model_dump()
    payload[draw.choice(list(payload))] = draw.choice([value(draw), -1, 0, 10**6 + 1, 2.1, {}])
    message = Message(hello.session, 2, "near-reply", digest_of(received[1:]), payload)
    if draw.random() < 0.3:
        message = replace(message, payload=facts.model_dump(), previous=None)
    await connection.send_bytes(b"\0" + seal(own.party, own.partner, message))
    await asyncio.sleep(draw.random())


async def never_stopped(connection: web.WebSocketResponse, _: NearSide, draw: random.Random) -> None:
    """Frames without end, through the farewell of the other side."""
    message = draw.choice([b"", b"\0" + bytes(99), b"\x02\0\0\0\0" + bytes(9999)])
    began = time.monotonic()
    while time.monotonic() - began < HUNG:
        await connection.send_bytes(message)
        await asyncio.sleep(0.001)


async def started_and_garbled(connection: web.WebSocketResponse, own: NearSide, draw: random.Random) -> None:
    """An honest reply, then garbage for the library or as the share, and the end."""
    received = await connection.receive_bytes()
    _, hello = open_sealed(own.party, {own.partner.name: own.partner}, received[1:])
    distance = own.calibration.distance
    facts = NearReply(patients=SIZES[1], distance=distance, bound=own.calibration.bound(distance, 0))
    message = Message(hello.session, 2, "near-reply", digest_of(received[1:]), facts.model_dump())
    await connection.send_bytes(b"\0" + seal(own.party, own.partner, message))
    start = await connection.receive_bytes()
    parts = {
        f"share-{number}": draw.randbytes(draw.choice([0, 9, 300])) for number in range(draw.randrange(4))
    }
    share = Message(hello.session, 4, "near-share", digest_of(start[1:]), {}, parts)
    if draw.random() < 0.5:
        await connection.send_bytes(b"\0" + seal(own.party, own.partner, share))
    for frame in _garbage(draw):
        await connection.send_bytes(frame)
    await asyncio.sleep(draw.random() * 3)


SERVERS = (
    said_garbage,
    said_nonsense,
    said_nonsense,
    said_wrong_reply,
    said_wrong_reply,
    started_and_garbled,
)
SERVERS += (never_stopped,)


async def _heard(connection: web.WebSocketResponse, own: NearSide) -> Message:
    received = await connection.receive_bytes()
    return open_sealed(own.party, {own.partner.name: own.partner}, received[1:])[1]


@contextmanager
def _serving(own: NearSide, asking: NearSide, behave: Any, draw: random.Random) -> Iterator[str]:
    """Serve what a function does, in a thread; yields the address."""
    ready, ends, ports = threading.Event(), list[Any](), list[int]()

    async def near(connection: web.WebSocketResponse, _: object) -> None:
        with suppress(Exception):
            await behave(connection, own, draw)

    def started(port: int) -> None:
        ports.append(port)
        ready.set()

    async def served() -> None:
        stop = asyncio.Event()
        ends.extend([asyncio.get_running_loop(), stop])
        partners = {asking.party.identity.name: asking.party.identity}
        answered = lambda _, __: b""  # noqa: E731
        listen = ("127.0.0.1", 0)
        await serve(
            own.party, partners, listen, answered, most_bytes=1, started=started, stop=stop, near=near
        )

    thread = threading.Thread(target=lambda: asyncio.run(served()))
    thread.start()
    try:
        ready.wait(HUNG)
        yield f"https://127.0.0.1:{ports[0]}"
    finally:
        ends[0].call_soon_threadsafe(ends[1].set)
        thread.join()


# -- all of them --------------------------------------------------------------------------------

BEFORE: tuple[Fuzz, ...] = (
    arbitrary,
    huge,
    damaged,
    nonsense,
    wrong_hello,
    wrong_hello,
    replayed,
    no_websocket,
)
DURING: tuple[Fuzz, ...] = (wrong_start, wrong_start, garbage)


def fuzz(folder: Path, messages: int) -> Callable[[int, random.Random], Counter[str]]:
    """Make hostile partners while the server is not running; returns what sends, by port and randomness."""
    own, _ = sides(folder)
    south, parties = open_party(folder / "south"), []
    for number in range(-(-messages // MESSAGES_OF_ONE) + 1):
        name = f"stranger-{number}"
        create_party(folder / "s" / name, name)
        parties.append(open_party(folder / "s" / name))
        trust_partner(south, parties[-1].folder / IDENTITY, parties[-1].identity.fingerprint)
        trust_partner(parties[-1], south.folder / IDENTITY, south.identity.fingerprint)

    def sent(port: int, draw: random.Random) -> Counter[str]:
        strangers = [replace(own, party=one) for one in parties]
        return asyncio.run(_sent(strangers, messages, port, draw))

    return sent


async def _sent(strangers: list[NearSide], messages: int, port: int, draw: random.Random) -> Counter[str]:
    told: Counter[str] = Counter()
    for number in range(messages):
        side = strangers[number // MESSAGES_OF_ONE]
        hostile = Hostile(side, strangers[-1], port, draw)
        kind = _kind(draw)
        try:
            found = await kind(hostile)
        except TimeoutError:
            found = f"BAD: {kind.__name__} hung"
        except (OSError, ClientError, LineEnded) as error:
            found = f"{kind.__name__}: {type(error).__name__}"
        told[found] += 1
    return told


def _kind(draw: random.Random) -> Fuzz:
    place = draw.randrange(100)
    if place < WHOLE:
        return changed
    if place < WHOLE + ASKING:
        return hostile_server
    return draw.choice(DURING if place < 30 else BEFORE)


def _start(hostile: Hostile) -> dict[str, Any]:
    calibration = hostile.side.calibration
    return NearStart(bound=calibration.bound(calibration.distance, 0)).model_dump()


def _nonsense(draw: random.Random, session: str) -> Message:
    facts = value(draw)
    payload = facts if isinstance(facts, dict) else {"said": facts}
    parts = {f"part{number}": draw.randbytes(draw.randrange(50)) for number in range(draw.randrange(3))}
    return Message(
        session,
        draw.randint(1, 6),
        draw.choice(get_args(Kind)),
        draw.choice([None, "ab" * 32]),
        payload,
        parts,
    )
