"""The connection of a near comparison ends in time, whatever the partner does."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from medsanitize.errors import EnvironmentFailure, MedsanitizeError
from medsanitize.federation.near import client, line
from medsanitize.federation.near.client import ask_near_over_https
from medsanitize.federation.near.line import Line, LineEnded
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party
from medsanitize.federation.transport.tls import server_context

pytestmark = pytest.mark.party
UPGRADED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: %b\r\n\r\n"
)


class Silent:
    """A connection whose other end reads nothing."""

    async def send_bytes(self, frame: bytes, compress: int) -> None:
        del frame, compress
        await asyncio.Event().wait()


def test_a_partner_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "_SEND_SECONDS", 0.1)

    async def sent() -> bool:
        own = Line(Silent())  # type: ignore[arg-type]
        with pytest.raises(LineEnded):
            await own.send(b"said")
        return own.ended.is_set()

    assert asyncio.run(asyncio.wait_for(sent(), 10))


def test_what_the_library_does_not_read_any_more_holds_nobody_up(tmp_path: Path) -> None:
    async def left() -> bool:
        own, connected = Line(Silent()), asyncio.Event()  # type: ignore[arg-type]
        ends = list[asyncio.StreamWriter]()

        async def unread(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            ends.append(writer)
            connected.set()

        async with own.sockets(tmp_path, first=0, most_bytes=1 << 30) as (own_path, _):
            listening = await asyncio.start_unix_server(unread, own_path)
            await own._streamed(b"\x01\0\0\0\1")
            await connected.wait()
            task = asyncio.create_task(own._streamed(b"\x02\0\0\0\1" + bytes(1 << 24)))
            await asyncio.sleep(0.2)
            assert not task.done()
        await asyncio.gather(task, return_exceptions=True)
        listening.close()
        ends[0].transport.abort()
        await asyncio.sleep(0)
        return task.done()

    assert asyncio.run(asyncio.wait_for(left(), 20))


@pytest.fixture
def parties(tmp_path: Path) -> tuple[LocalParty, LocalParty]:
    for name in ("north", "south"):
        create_party(tmp_path / name, name)
    return open_party(tmp_path / "north"), open_party(tmp_path / "south")


@contextmanager
def answering(
    north: LocalParty, south: LocalParty, answer: Callable[[ssl.SSLSocket, bytes], None]
) -> Iterator[str]:
    """A server of the partner that does what it likes with one connection; yields its address."""
    context = server_context(south, [north.identity])
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def served() -> None:
            with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as opened:
                answer(opened, opened.recv(4000))

        thread = threading.Thread(target=served)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(30)
        assert not thread.is_alive()


def asked(north: LocalParty, south: LocalParty, address: str) -> None:
    """Ask with a set that is not looked at before the partner has answered."""
    side: Any = SimpleNamespace(
        party=north,
        partner=south.identity,
        own=SimpleNamespace(vectors=[0] * 9),
        distance=1.0,
        limits=SimpleNamespace(check=lambda *_: ""),
        terms={"kind": "radiograph", "model": "", "reveal": "bit", "contract": ""},
    )
    ask_near_over_https(side, address)


def upgraded(request: bytes) -> bytes:
    headers = [row.partition(b": ") for row in request.split(b"\r\n")]
    key = next(value for name, _, value in headers if name.lower() == b"sec-websocket-key")
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())  # noqa: S324
    return UPGRADED % accept


def test_a_server_that_never_answers_is_given_up(
    parties: tuple[LocalParty, LocalParty], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_CONNECT_SECONDS", 1.0)
    with (
        answering(*parties, lambda opened, _: (opened.recv(1), None)[1]) as address,
        pytest.raises(EnvironmentFailure, match="cannot be reached"),
    ):
        asked(*parties, address)


def test_a_server_that_sends_the_asking_party_elsewhere_is_not_followed(
    parties: tuple[LocalParty, LocalParty],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.5)
        to = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"

        def redirected(opened: ssl.SSLSocket, _: bytes) -> None:
            opened.sendall(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())

        with (
            answering(*parties, redirected) as address,
            pytest.raises(EnvironmentFailure, match="cannot be reached"),
        ):
            asked(*parties, address)
        with pytest.raises(TimeoutError):
            elsewhere.accept()


def test_a_server_that_never_stops_sending_is_left(
    parties: tuple[LocalParty, LocalParty], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_FAREWELL_SECONDS", 1.0)

    def endless(opened: ssl.SSLSocket, request: bytes) -> None:
        opened.sendall(upgraded(request))
        # Frames of one byte: no message of either kind.
        while True:
            opened.sendall(b"\x82\x01\xff" * 100)

    with answering(*parties, endless) as address, pytest.raises(MedsanitizeError):
        asked(*parties, address)
