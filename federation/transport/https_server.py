"""The server of a party: takes sealed messages of trusted partners over HTTPS, and answers them.

Only a partner's certificate opens a connection. Messages are limited in size, time and rate before a byte of
them is decrypted, connections in number and in the time until their message is there. The server logs no
address and no content.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from medsanitize.errors import EnvironmentFailure, MedsanitizeError
from medsanitize.federation.messages.sealed import InvalidMessage
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.transport.https_client import (
    CONTENT_TYPE,
    NEAR_HEARTBEAT,
    NEAR_MOST_BYTES,
    NEAR_PATH,
    PATH,
)
from medsanitize.federation.transport.tls import server_context

if TYPE_CHECKING:
    from aiohttp import web

# A session has three messages; a partner that sends more than this is broken or hostile.
_MESSAGES_A_MINUTE: Final = 30
_MINUTE: Final = 60.0
# From the start of a connection until its message is there: headers and body.
_READ_SECONDS: Final = 120.0
# Each answer holds a process of the library and two sets in memory.
_AT_ONCE: Final = 2
_CONNECTIONS: Final = 64
Answer = Callable[[bytes, Identity], bytes]
Near = Callable[["web.WebSocketResponse", Identity], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Of messages: how many a partner may send in a minute, and in how many seconds one must arrive."""

    a_minute: int = _MESSAGES_A_MINUTE
    read_seconds: float = _READ_SECONDS


@dataclass(slots=True, repr=False)
class _Serving:
    """State of the server: who may connect, what is in work, and when messages arrived."""

    partners: Mapping[bytes, Identity]
    answer: Answer
    most_bytes: int
    limits: Limits = field(default_factory=lambda: Limits(_MESSAGES_A_MINUTE, _READ_SECONDS))
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    arrived: dict[str, deque[float]] = field(default_factory=dict)
    reading: dict[asyncio.BaseTransport, asyncio.TimerHandle] = field(default_factory=dict)
    connections: int = 0


class _Connection(asyncio.Protocol):
    """A connection of a partner, which ends if its message does not arrive in time."""

    def __init__(self, serving: _Serving, requests: asyncio.Protocol) -> None:
        self._serving, self._requests = serving, requests
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._serving.connections += 1
        if isinstance(transport, asyncio.Transport):
            # The library limits neither the time of headers nor the number of connections.
            wait = self._serving.limits.read_seconds if self._serving.connections <= _CONNECTIONS else 0.0
            timer = asyncio.get_running_loop().call_later(wait, transport.abort)
            self._serving.reading[transport] = timer
        self._requests.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._requests.data_received(data)

    def eof_received(self) -> bool | None:
        return self._requests.eof_received()

    def pause_writing(self) -> None:
        self._requests.pause_writing()

    def resume_writing(self) -> None:
        self._requests.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._serving.connections -= 1
        if self._transport is not None:
            _has_arrived(self._serving, self._transport)
        self._requests.connection_lost(error)


async def serve(
    party: LocalParty,
    partners: Mapping[str, Identity],
    listen: tuple[str, int],
    answer: Answer,
    *,
    most_bytes: int,
    started: Callable[[int], None],
    stop: asyncio.Event,
    near: Near | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve until an event is set.

    Parameters
    ----------
    party : LocalParty
        The party whose certificate is presented.
    partners : mapping of str to Identity
        Who may connect.
    listen : (str, int)
        Address and port; port 0 takes a free one.
    answer : callable
        Returns the sealed answer to a sealed message and the partner whose certificate opened the connection;
        called in a thread.
    most_bytes : int
        Largest accepted message.
    started : callable
        Called with the port when connections are accepted.
    stop : Event
        Ends the server.
    near : callable, optional
        Holds a near comparison with a partner on a connection.
    limits : Limits, optional
        Of the messages of each partner.

    Raises
    ------
    EnvironmentFailure
        The address cannot be used.
    """
    known = {one.certificate: one for one in partners.values()}
    serving = _Serving(known, answer, most_bytes)
    if limits is not None:
        serving.limits = limits
    runner = _runner_of(serving, near)
    await runner.setup()
    try:
        server = await _listen(serving, runner, listen, server_context(party, partners.values()))
        try:
            started(server.sockets[0].getsockname()[1])
            await stop.wait()
        finally:
            server.close()
    finally:
        await runner.cleanup()


def _runner_of(serving: _Serving, near: Near | None) -> web.AppRunner:
    from aiohttp import web

    application = web.Application(client_max_size=serving.most_bytes)
    application.router.add_post(PATH, partial(_handle, serving))
    if near is not None:
        application.router.add_get(NEAR_PATH, partial(_compare, serving, near))
    # The library logs malformed requests with the address of their sender.
    silent = logging.Logger("medsanitize.party")
    silent.addHandler(logging.NullHandler())
    return web.AppRunner(
        application,
        access_log=None,
        handle_signals=False,
        keepalive_timeout=5,
        lingering_time=0,
        logger=silent,
    )


async def _listen(
    serving: _Serving, runner: web.AppRunner, listen: tuple[str, int], context: ssl.SSLContext
) -> asyncio.Server:
    requests = runner.server
    if requests is None:
        raise RuntimeError("a runner without a server")
    try:
        return await asyncio.get_running_loop().create_server(
            lambda: _Connection(serving, requests()), *listen, ssl=context, backlog=_CONNECTIONS
        )
    except OSError:
        raise EnvironmentFailure(
            "The address to listen on cannot be used", "Choose another address or port"
        ) from None


async def _handle(serving: _Serving, request: web.Request) -> web.Response:
    from aiohttp import web

    partner = _partner_of(serving, request)
    if partner is None:
        return web.Response(status=403)
    if not _is_within_rate(serving, partner.fingerprint):
        return web.Response(status=429)
    try:
        sealed = await request.read()
    except web.HTTPException:
        return web.Response(status=413)
    if request.transport is not None:
        _has_arrived(serving, request.transport)
    async with serving.slots:
        try:
            answered = await asyncio.to_thread(serving.answer, sealed, partner)
        except InvalidMessage:
            return web.Response(status=400)
        except MedsanitizeError:
            # Nothing about this party's disk or release leaves it.
            return web.Response(status=503)
    return web.Response(body=answered, content_type=CONTENT_TYPE)


async def _compare(serving: _Serving, near: Near, request: web.Request) -> web.StreamResponse:
    """Give the connection of a near comparison to who holds it."""
    from aiohttp import web

    partner = _partner_of(serving, request)
    if partner is None:
        return web.Response(status=403)
    if not _is_within_rate(serving, partner.fingerprint):
        return web.Response(status=429)
    connection = web.WebSocketResponse(heartbeat=NEAR_HEARTBEAT, max_msg_size=NEAR_MOST_BYTES, compress=False)
    await connection.prepare(request)
    if request.transport is not None:
        _has_arrived(serving, request.transport)
    await near(connection, partner)
    return connection


def _has_arrived(serving: _Serving, transport: asyncio.BaseTransport) -> None:
    timer = serving.reading.pop(transport, None)
    if timer is not None:
        timer.cancel()


def _partner_of(serving: _Serving, request: web.Request) -> Identity | None:
    tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    if not isinstance(tls, ssl.SSLObject):
        return None
    with suppress(ValueError):
        return serving.partners.get(tls.getpeercert(binary_form=True) or b"")
    return None


def _is_within_rate(serving: _Serving, fingerprint: str) -> bool:
    times, now = serving.arrived.setdefault(fingerprint, deque()), time.monotonic()
    while times and times[0] < now - _MINUTE:
        times.popleft()
    if len(times) >= serving.limits.a_minute:
        return False
    times.append(now)
    return True
