"""Sends sealed messages to a partner's server over HTTPS."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.transport.tls import client_context

PATH: Final = "/message"
NEAR_PATH: Final = "/near"
# Seconds between signs of life on the connection of a near comparison.
NEAR_HEARTBEAT: Final = 60.0
# Longest message to the answering party of a near comparison: pieces of 128 KiB, and sealed ones of less.
NEAR_MOST_BYTES: Final = 1 << 18
CONTENT_TYPE: Final = "application/octet-stream"
_PORT: Final = 8443
# The partner blinds both sets before it answers; see `psi.process`. From connection to the last byte.
_SECONDS: Final = 1200.0


def host_and_port(address: str) -> tuple[str, int]:
    """Return host and port of an address such as ``https://north.example:8443``.

    Raises
    ------
    UsageError
        The address is not of this form.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    more = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme != "https" or not host or more:
        raise UsageError(
            "The address of the partner is not of the form https://HOST:PORT",
            "Write for example https://north.example:8443",
        )
    return host, port or _PORT


def post_message(
    party: LocalParty, partner: Identity, address: str, sealed: bytes, *, most_bytes: int
) -> bytes:
    """Send a sealed message, and return the sealed answer.

    Parameters
    ----------
    party, partner : LocalParty, Identity
        Both ends; a server with another certificate than the partner's is refused.
    address : str
        Address of the partner's server.
    sealed : bytes
        The message.
    most_bytes : int
        Largest accepted answer.

    Raises
    ------
    EnvironmentFailure
        The partner cannot be reached, is someone else, does not answer, or answers with an error.
    UsageError
        The address is not of the form ``https://HOST:PORT``.
    """
    host, port = host_and_port(address)
    connection = http.client.HTTPSConnection(
        host, port, timeout=_SECONDS, context=client_context(party, partner)
    )
    with _deadline(connection):
        return _exchanged(connection, partner, sealed, most_bytes)


def _exchanged(
    connection: http.client.HTTPSConnection, partner: Identity, sealed: bytes, most_bytes: int
) -> bytes:
    try:
        connection.connect()
        if connection.sock.getpeercert(binary_form=True) != partner.certificate:
            raise _unreachable("has another certificate than the partner's")
        connection.request("POST", PATH, body=sealed, headers={"Content-Type": CONTENT_TYPE})
        response = connection.getresponse()
        content = response.read(most_bytes + 1)
        # The library returns what there is of an answer that was cut short.
        if response.length and len(content) <= most_bytes:
            raise http.client.IncompleteRead(b"", response.length)
    except ssl.SSLError:
        raise _unreachable("and this party do not accept each other's certificates") from None
    except (OSError, http.client.HTTPException):
        raise _unreachable("cannot be reached, or ended the connection") from None
    finally:
        connection.close()
    if response.status != http.client.OK or len(content) > most_bytes:
        raise _unreachable("does not accept the message")
    return content


@contextmanager
def _deadline(connection: http.client.HTTPSConnection) -> Iterator[None]:
    """End a connection after a time: the timeout of a socket begins again with every byte."""

    def end() -> None:
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _unreachable(what: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"The partner's server {what}",
        "Check the address, that the partner serves, and that each party trusts the other's identity file;"
        " then run the same command again",
    )
