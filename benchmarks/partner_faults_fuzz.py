"""Fuzzed messages for the server of a party, by partners that it trusts."""

from __future__ import annotations

import http.client
import os
import random
import socket
import ssl
import string
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from medsanitize.federation.messages.sealed import (
    InvalidMessage,
    Kind,
    Message,
    digest_of,
    open_sealed,
    seal,
)
from medsanitize.federation.parties.identity import (
    IDENTITY,
    Identity,
    LocalParty,
    create_party,
    open_party,
)
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap.secret import commitment
from medsanitize.federation.transport.https_client import CONTENT_TYPE, PATH
from medsanitize.federation.transport.tls import client_context
from medsanitize.pipeline.demo.two_hospitals import TwoHospitals

# The server takes 30 messages of a partner a minute, and some of the fuzzed ones are two or three.
MESSAGES_OF_ONE = 21
# A connection that is open after this time has hung: the server ends them after 120 s.
HUNG = 180.0
# Messages that never end are sent beside the others.
ENDLESS = 12
COMPARISONS = [{"what": "pixels", "reveal": "count", "contract": ""}]
SIZE = 80
NONCE = "ab" * 32


@dataclass
class Stranger:
    """A trusted partner that is hostile."""

    party: LocalParty
    server: Identity
    port: int
    context: ssl.SSLContext

    def connect(self) -> ssl.SSLSocket:
        """Open a connection with this partner's certificate."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=HUNG)
        return self.context.wrap_socket(plain)

    def post(self, body: bytes) -> tuple[str, bytes]:
        """Send a message; what came back, and its content."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=HUNG, context=self.context)
        try:
            connection.request("POST", PATH, body=body, headers={"Content-Type": CONTENT_TYPE})
            response = connection.getresponse()
            return str(response.status), response.read()
        except TimeoutError:
            return "hung", b""
        except (OSError, http.client.HTTPException):
            return "connection ended", b""
        finally:
            connection.close()

    def sealed(self, message: Message) -> bytes:
        """Sign and seal a message for the server."""
        return seal(self.party, self.server, message)

    def told(self, body: bytes) -> str:
        """Send a message, and name the answer."""
        status, content = self.post(body)
        if status != "200":
            return status
        try:
            _, message = open_sealed(self.party, {self.server.name: self.server}, content)
        except InvalidMessage:
            return "200, unreadable"
        return f"200, {message.kind}"


def prepare(hospitals: TwoHospitals, folder: Path, messages: int) -> list[Stranger]:
    """Make partners that the answering hospital trusts and agrees with, while its server is not running."""
    own = open_party(hospitals.answering.folder / "party")
    port, found, lines = int(hospitals.address.rpartition(":")[2]), [], []
    # One more, for messages that never end.
    for number in range(-(-messages // MESSAGES_OF_ONE) + 1):
        name = f"stranger-{number}"
        create_party(folder / name, name)
        party = open_party(folder / name)
        trust_partner(own, folder / name / IDENTITY, party.identity.fingerprint)
        lines.append(f"    - {{partner: {name}, compare: [pixels], reveal: count, runs: 1000}}\n")
        found.append(Stranger(party, own.identity, port, client_context(party, own.identity)))
    with hospitals.answering.policy.open("a") as file:
        file.writelines(lines)
    return found


def run(strangers: list[Stranger], messages: int, draw: random.Random) -> Counter[str]:
    """Send messages, and count what came back."""
    told: Counter[str] = Counter()
    slow = [threading.Thread(target=endless, args=(strangers[-1], told, number)) for number in range(ENDLESS)]
    for one in slow:
        one.start()
    kinds = list(FUZZ)
    for number in range(messages):
        stranger = strangers[number // MESSAGES_OF_ONE]
        told[FUZZ[draw.choice(kinds)](stranger, draw)] += 1
    for one in slow:
        one.join()
    return told


# -- messages ---------------------------------------------------------------------------------


def hello(session: str) -> Message:
    """A first message as an honest party sends it."""
    facts = {
        "commitment": commitment(session, NONCE),
        "comparisons": COMPARISONS,
        "sizes": {"pixels": SIZE},
    }
    return Message(session, 1, "hello", None, facts)


def session_of(draw: random.Random) -> str:
    """A new session."""
    return draw.randbytes(16).hex()


def value(draw: random.Random, depth: int = 0) -> Any:
    """Any JSON."""
    if depth < 3 and draw.random() < 0.3:
        return {
            "".join(draw.choices(string.printable, k=5)): value(draw, depth + 1)
            for _ in range(draw.randrange(4))
        }
    if depth < 3 and draw.random() < 0.2:
        return [value(draw, depth + 1) for _ in range(draw.randrange(5))]
    return draw.choice(
        [None, True, -1, 0, 2**63, 2**200, 1e308, "", "pixels", "a" * 64, "\0", "\ud7ff", NONCE]
    )


def arbitrary(stranger: Stranger, draw: random.Random) -> str:
    """Random bytes."""
    return stranger.told(draw.randbytes(draw.choice([0, 1, 30, 300, 3000, 100_000])))


def damaged(stranger: Stranger, draw: random.Random) -> str:
    """A sealed message with a changed bit, or shortened, or longer."""
    sealed = bytearray(stranger.sealed(hello(session_of(draw))))
    place = draw.randrange(len(sealed))
    if draw.random() < 0.5:
        sealed[place] ^= 1 << draw.randrange(8)
    elif draw.random() < 0.5:
        del sealed[place:]
    else:
        sealed[place:place] = draw.randbytes(20)
    return stranger.told(bytes(sealed))


def nonsense(stranger: Stranger, draw: random.Random) -> str:
    """A message of any content, signed and sealed."""
    facts = value(draw)
    payload = facts if isinstance(facts, dict) else {"said": facts}
    kind: Kind = draw.choice(get_args(Kind))
    parts = {f"part{number}": draw.randbytes(draw.randrange(50)) for number in range(draw.randrange(3))}
    previous = draw.choice([None, NONCE])
    return stranger.told(
        stranger.sealed(Message(session_of(draw), draw.randint(1, 6), kind, previous, payload, parts))
    )


def wrong_hello(stranger: Stranger, draw: random.Random) -> str:
    """A first message with one fact of another kind or size."""
    message = hello(session_of(draw))
    name = draw.choice(list(message.payload))
    changed = draw.choice([value(draw), {"pixels": draw.choice([-1, 0, 1, 10**6, 10**30])}, []])
    other = replace(message, payload={**message.payload, name: changed})
    if draw.random() < 0.2:
        other = replace(other, protocol=draw.choice([0, 2, 10**9]))
    return stranger.told(stranger.sealed(other))


def wrong_request(stranger: Stranger, draw: random.Random) -> str:
    """An honest first message, then a request whose blinded items are none; counts as one message."""
    session = session_of(draw)
    sealed = stranger.sealed(hello(session))
    status, reply = stranger.post(sealed)
    if status != "200":
        return status
    content = draw.choice(
        [b"", os.urandom(100), b"\x0a\x21\x02" + draw.randbytes(32), (b"\x0a\x21\x02" + b"\xff" * 32) * SIZE,
         b"".join(b"\x0a\x21\x02" + draw.randbytes(32) for _ in range(SIZE)) + b"\x10\x00"]
    )  # fmt: skip
    parts = draw.choice([{"pixels": content}, {}, {"patients": content}, {"pixels": content, "more": b""}])
    previous = draw.choice([digest_of(reply)] * 4 + [NONCE])
    nonce = draw.choice([NONCE] * 4 + ["cd" * 32])
    return stranger.told(stranger.sealed(Message(session, 3, "request", previous, {"nonce": nonce}, parts)))


def replayed(stranger: Stranger, draw: random.Random) -> str:
    """An honest first message twice, or two of one session."""
    session = session_of(draw)
    sealed = stranger.sealed(hello(session))
    first, reply = stranger.post(sealed)
    again, same = stranger.post(sealed)
    if (first, again) == ("200", "200") and reply != same:
        return "200, another answer to the same message"
    return stranger.told(stranger.sealed(hello(session))) if draw.random() < 0.5 else again


def no_http(stranger: Stranger, draw: random.Random) -> str:
    """Bytes that are no request of HTTP, or one for something else."""
    sent = draw.choice(
        [
            draw.randbytes(200) + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST /../../etc/passwd HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            b"POST /message HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
            b"POST /message HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n"
            + b"x" * 99,
            b"POST /message HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"POST /message HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
            b"POST /message HTTP/9.9\r\nHost: a\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ]
    )
    with suppress(OSError), stranger.connect() as connection:
        connection.sendall(sent)
        if b"99999999999" in sent:
            # The client goes away; whoever stays is counted by `endless`.
            return "client went away"
        began = time.monotonic()
        got = connection.recv(64)
        if time.monotonic() - began > HUNG - 1:
            return "hung"
        return got[9:12].decode("ascii", "replace") or "connection ended"
    return "connection ended"


def endless(stranger: Stranger, told: Counter[str], number: int) -> None:
    """A message that never ends: nothing, half a header, a body byte by byte, or more than the limit."""
    began = time.monotonic()
    sent = [b"", b"POST /message HTTP/1.1\r\nHost: a\r\n", b"POST /message HTTP/1.1\r\nHost: a\r\n"
            b"Content-Length: 1000\r\n\r\n", b"POST /message HTTP/1.1\r\nHost: a\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"][number % 4]  # fmt: skip
    with suppress(OSError), stranger.connect() as connection:
        connection.sendall(sent)
        connection.settimeout(1.0)
        while time.monotonic() - began < HUNG:
            with suppress(TimeoutError):
                if not connection.recv(64):
                    break
            if number % 4 == 3:
                connection.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            elif number % 4 == 2:
                connection.sendall(b"x")
    told["endless, ended by the server" if time.monotonic() - began < HUNG else "hung"] += 1


FUZZ: dict[str, Callable[[Stranger, random.Random], str]] = {
    one.__name__: one for one in (arbitrary, damaged, nonsense, wrong_hello, wrong_request, replayed, no_http)
}
