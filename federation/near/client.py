"""The asking party's connection of a near comparison or a question about single images."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.federation.libraries.process import LibraryFailed
from medsanitize.federation.near.line import Line, LineEnded
from medsanitize.federation.near.session import NearLearned, NearSide, ask_near
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.transport.https_client import NEAR_HEARTBEAT, NEAR_PATH, host_and_port
from medsanitize.federation.transport.tls import client_context

if TYPE_CHECKING:
    from aiohttp import ClientSession

T = TypeVar("T")
_CONNECT_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 0.25
# A partner that goes on sending is not waited for.
_FAREWELL_SECONDS: Final = 10.0
# Shares of 1,000,000 patients have 8 MB.
_MOST_BYTES: Final = 1 << 24


def ask_near_over_https(side: NearSide, address: str) -> NearLearned:
    """Ask a partner's server; errors as of `over_https`."""
    return over_https(_ask(side, address))


def over_https(conversation: Coroutine[Any, Any, T]) -> T:
    """Hold a conversation to its end.

    Raises
    ------
    UsageError
        A party refuses, or the address is not of the form ``https://HOST:PORT``.
    IntegrityError
        An answer is malformed, out of order or not by the partner.
    EnvironmentFailure
        The partner cannot be reached, is someone else, or the computation does not finish.
    """
    try:
        return asyncio.run(conversation)
    except (LineEnded, LibraryFailed):
        raise EnvironmentFailure(
            "The near comparison with the partner did not finish; nothing was concluded",
            "Check both parties' machines (each needs up to 4 GB of memory), and run the same command again",
        ) from None


async def _ask(side: NearSide, address: str) -> NearLearned:
    return await converse(side.party, side.partner, address, partial(ask_near, side))


async def converse(
    party: LocalParty, partner: Identity, address: str, ask: Callable[[Line, str], Awaitable[T]]
) -> T:
    """Open a connection to a partner's server, and hold a conversation in a new session.

    Parameters
    ----------
    party, partner : LocalParty, Identity
        Both ends; a server with another certificate than the partner's is refused.
    address : str
        Address of the server.
    ask : callable
        The conversation, on a connection and in a session.
    """
    from aiohttp import ClientSession, ClientTimeout, TCPConnector, TraceConfig

    host, port = host_and_port(address)
    named = f"[{host}]" if ":" in host else host
    connector = TCPConnector(ssl=client_context(party, partner))
    timeout, traced = ClientTimeout(total=None, connect=_CONNECT_SECONDS), TraceConfig()
    # The partner's server must not make this machine call others.
    traced.on_request_redirect.append(_refuse_redirect)
    try:
        async with ClientSession(connector=connector, timeout=timeout, trace_configs=[traced]) as http:
            return await _converse(http, partner, f"https://{named}:{port}{NEAR_PATH}", ask)
    finally:
        # The client library does not wait until TLS has ended.
        await asyncio.sleep(_CLOSE_SECONDS)


async def _refuse_redirect(*_: object) -> None:
    raise ConnectionRefusedError


async def _converse(
    http: ClientSession, partner: Identity, address: str, ask: Callable[[Line, str], Awaitable[T]]
) -> T:
    from aiohttp import ClientError

    try:
        # The library limits the time of the connection, but not that of the answer.
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await http.ws_connect(
                address, heartbeat=NEAR_HEARTBEAT, max_msg_size=_MOST_BYTES, compress=0
            )
    except (ClientError, OSError, TimeoutError):
        raise EnvironmentFailure(
            "The partner's server cannot be reached, is busy, or makes no near comparisons",
            "Check the address, that the partner serves, and that its policy names near; then run the"
            " same command again",
        ) from None
    try:
        tls = connection.get_extra_info("ssl_object")
        if not isinstance(tls, ssl.SSLObject) or tls.getpeercert(True) != partner.certificate:
            raise EnvironmentFailure(
                "The partner's server has another certificate than the partner's", "Check the address"
            )
        line = Line(connection)
        reading = asyncio.create_task(line.read())
        try:
            return await ask(line, secrets.token_hex(16))
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await connection.close()
