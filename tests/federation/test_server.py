"""The server of a party: whose messages it takes, over which connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
from medsanitize.errors import EnvironmentFailure
from medsanitize.federation.messages.sealed import InvalidMessage, Message, open_sealed, seal
from medsanitize.federation.parties.identity import Identity, LocalParty, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap.answer import Offer, answer
from medsanitize.federation.transport import https_client, https_server
from medsanitize.federation.transport.https_client import post_message
from medsanitize.federation.transport.tls import client_context, server_context

from tests.helpers.hospitals import NAMES, Hospital, serving, third_party, write_agreements

pytestmark = pytest.mark.party
MOST_BYTES = 1_000_000
POST = b"POST /message HTTP/1.1\r\nHost: south\r\n"


def test_a_partner_cannot_bring_messages_of_another_partner(
    hospitals: tuple[Hospital, Hospital], tmp_path: Path
) -> None:
    north, south = open_party(hospitals[0].party), hospitals[1]
    west = third_party(tmp_path / "west", south)
    write_agreements(south, [NAMES[0], "west-hospital"])
    own = open_party(south.party).identity
    # Genuine, by a trusted partner, for this server: only the connection is another's.
    sealed = seal(north, own, Message("a" * 32, 1, "hello", None, {}))
    with serving(south) as address:
        with pytest.raises(EnvironmentFailure, match="does not accept the message"):
            post_message(west, own, address, sealed, most_bytes=MOST_BYTES)
        reply = post_message(north, own, address, sealed, most_bytes=MOST_BYTES)
    # The empty hello gets a refusal, which only its sender can read.
    assert open_sealed(north, {own.name: own}, reply)[1].kind == "refusal"


def test_a_relayed_message_is_told_nothing(tmp_path: Path) -> None:
    for name in ("north", "south", "west"):
        create_party(tmp_path / name, name)
    north, south, west = (open_party(tmp_path / name) for name in ("north", "south", "west"))
    for other in (north, west):
        trust_partner(south, other.folder / "identity.json", other.identity.fingerprint)
    sealed = seal(north, south.identity, Message("a" * 32, 1, "hello", None, {}))
    with pytest.raises(InvalidMessage):
        answer(south, Offer({}, lambda _: {}, tmp_path), sealed, carrier=west.identity)


def test_a_message_over_its_sender_s_connection_is_answered(tmp_path: Path) -> None:
    for name in ("north", "south"):
        create_party(tmp_path / name, name)
    north, south = open_party(tmp_path / "north"), open_party(tmp_path / "south")
    trust_partner(south, north.folder / "identity.json", north.identity.fingerprint)
    sealed = seal(north, south.identity, Message("a" * 32, 1, "hello", None, {}))
    reply = answer(south, Offer({}, lambda _: {}, tmp_path), sealed, carrier=north.identity)
    told = open_sealed(north, {"south": south.identity}, reply)[1].payload
    assert told == {"reason": "other-terms"}


@contextmanager
def server_of(party: LocalParty, partner: LocalParty, seconds: float = 0.0) -> Iterator[int]:
    """The server in a thread of this process, which repeats a message after some time; yields its port."""

    def repeated(sealed: bytes, _: Identity) -> bytes:
        time.sleep(seconds)
        return sealed

    ports, loops = Queue[int](), Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()

    async def served() -> None:
        stop = asyncio.Event()
        loops.put((asyncio.get_running_loop(), stop))
        await https_server.serve(
            party,
            {"north": partner.identity},
            ("127.0.0.1", 0),
            repeated,
            most_bytes=MOST_BYTES,
            started=ports.put,
            stop=stop,
        )

    thread = Thread(target=lambda: asyncio.run(served()))
    thread.start()
    try:
        yield ports.get(timeout=20)
    finally:
        loop, stop = loops.get()
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@pytest.fixture
def parties(tmp_path: Path) -> tuple[LocalParty, LocalParty]:
    for name in ("north", "south"):
        create_party(tmp_path / name, name)
    return open_party(tmp_path / "north"), open_party(tmp_path / "south")


@contextmanager
def connection(north: LocalParty, south: LocalParty, port: int) -> Iterator[ssl.SSLSocket]:
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    with client_context(north, south.identity).wrap_socket(plain) as opened:
        yield opened


@pytest.mark.parametrize(
    "sent",
    [b"", POST, POST + b"Content-Length: 9\r\n\r\nhalf"],
    ids=["nothing", "half a header", "half a body"],
)
def test_a_connection_whose_message_does_not_arrive_is_ended(
    parties: tuple[LocalParty, LocalParty], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(https_server, "_READ_SECONDS", 0.5)
    north, south = parties
    with server_of(south, north) as port, connection(north, south, port) as opened:
        opened.sendall(sent)
        assert ended(opened)


def test_a_message_that_takes_long_to_answer_keeps_its_connection(
    parties: tuple[LocalParty, LocalParty], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https_server, "_READ_SECONDS", 2.0)
    north, south = parties
    with server_of(south, north, seconds=3.0) as port:
        address = f"https://127.0.0.1:{port}"
        told = post_message(north, south.identity, address, b"said", most_bytes=MOST_BYTES)
    assert told == b"said"


def test_more_connections_than_the_limit_are_ended(
    parties: tuple[LocalParty, LocalParty], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https_server, "_CONNECTIONS", 1)
    north, south = parties
    with (
        server_of(south, north) as port,
        connection(north, south, port),
        connection(north, south, port) as second,
    ):
        assert ended(second)


def test_a_malformed_request_is_not_logged(
    parties: tuple[LocalParty, LocalParty], caplog: pytest.LogCaptureFixture
) -> None:
    north, south = parties
    with server_of(south, north) as port, connection(north, south, port) as opened:
        opened.sendall(b"\0 /message HTTP/1.1\r\n\r\n")
        told = opened.recv(12)
    assert (told, caplog.records) == (b"HTTP/1.0 400", [])


@pytest.mark.parametrize("has_certificate", [False, True], ids=["nobody", "a stranger"])
def test_who_is_no_partner_sees_the_certificate_and_gets_no_answer(
    parties: tuple[LocalParty, LocalParty], tmp_path: Path, has_certificate: bool
) -> None:
    north, south = parties
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if has_certificate:
        create_party(tmp_path / "west", "west")
        context = client_context(open_party(tmp_path / "west"), south.identity)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    told = b""
    with server_of(south, north) as port:
        plain = socket.create_connection(("127.0.0.1", port), timeout=60)
        with context.wrap_socket(plain) as opened:
            assert opened.getpeercert(binary_form=True) == south.identity.certificate
            with suppress(OSError):
                opened.sendall(POST + b"Content-Length: 0\r\n\r\n")
                told = opened.recv(1)
    assert told == b""


def ended(opened: ssl.SSLSocket) -> bool:
    """Whether the server ends the connection without an answer."""
    try:
        return opened.recv(1) == b""
    except ConnectionError:
        return True


def dripping(party: LocalParty, partner: LocalParty, ports: Queue[int]) -> None:
    """A partner's server that answers one byte at a time, without end."""
    context = server_context(party, [partner.identity])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports.put(listener.getsockname()[1])
        with context.wrap_socket(listener.accept()[0], server_side=True) as opened, suppress(OSError):
            opened.recv(1000)
            opened.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                opened.sendall(b"x")
                time.sleep(0.05)


def test_an_answer_that_never_ends_is_given_up(
    parties: tuple[LocalParty, LocalParty], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https_client, "_SECONDS", 1.0)
    north, south = parties
    ports = Queue[int]()
    thread = Thread(target=dripping, args=(south, north, ports))
    thread.start()
    address = f"https://127.0.0.1:{ports.get(timeout=60)}"
    with pytest.raises(EnvironmentFailure, match="ended the connection"):
        post_message(north, south.identity, address, b"said", most_bytes=MOST_BYTES)
    thread.join(60)
    assert not thread.is_alive()
