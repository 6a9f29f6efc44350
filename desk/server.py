"""Starting the desk: the address, the token, and the server."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
import ssl
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import uvicorn
from medsanitize import EnvironmentFailure, UsageError
from medsanitize.desk.app import desk_app
from medsanitize.desk.guard import Address, Guard
from medsanitize.desk.roots import Roots
from medsanitize.desk.sessions import Sessions

_LEAST_PASSWORD: Final = 12
_IDLE_CHECK_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, repr=False)
class DeskOptions:
    """How a desk is started.

    Attributes
    ----------
    roots : sequence of Path
        Folders in which policies and exports are.
    host, port : str, int
        The address to listen on; port 0 chooses a free one.
    public : str or None
        The address under which browsers reach the desk through a proxy, such as ``https://desk.example.org``.
    certificate, private_key : Path or None
        PEM files for TLS.
    password : str or None
        Required beyond loopback and behind a proxy; without it, a token that works once.
    idle_minutes : float
        A session that is not used for so long ends.
    open_browser : bool
        Open the browser of this machine.
    login : str
        Name under which the person with the token decides.
    """

    roots: Sequence[Path]
    host: str = "127.0.0.1"
    port: int = 0
    public: str | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    password: str | None = None
    idle_minutes: float = 30.0
    open_browser: bool = False
    login: str = ""


def serve(options: DeskOptions, show: Callable[[str], object]) -> None:
    """Serve the desk until it is stopped, or until nobody is in and nobody can come in.

    Parameters
    ----------
    options : DeskOptions
        See there.
    show : callable
        Receives the address, as one line.

    Raises
    ------
    UsageError
        The address is not safe to listen on, or the folders do not exist.
    EnvironmentFailure
        The port is taken.
    """
    roots = Roots(options.roots)
    check_exposure(options)
    with _listen(options.host, options.port) as opened:
        port = int(opened.getsockname()[1])
        address = address_of(options, port)
        token = secrets.token_urlsafe(32) if options.password is None else None
        sessions = Sessions(token, options.password, options.idle_minutes * 60, options.login)
        application = desk_app(roots, sessions)
        server = _server(Guard(application, address, sessions), options)
        link = f"{address.origins[0]}/enter" + (f"?token={token}" if token else "")
        show(link)
        if options.open_browser:
            webbrowser.open(link)
        asyncio.run(_serve(server, opened, sessions))


def check_exposure(options: DeskOptions) -> None:
    """Require TLS and a password beyond loopback, and a password behind a proxy.

    Raises
    ------
    UsageError
        One of them is missing.
    """
    encrypted = options.certificate is not None and options.private_key is not None
    if not _is_loopback(options.host) and not (encrypted and options.password):
        raise UsageError(
            "The desk listens beyond this machine only with TLS and a password",
            "Give --certificate, --private-key and --password-file, or leave --listen out",
        )
    if options.public is not None and not options.password:
        raise UsageError("Behind a proxy the desk needs a password", "Give --password-file")
    if options.public is not None and urlsplit(options.public).scheme != "https":
        raise UsageError("The public address is not encrypted", "Give --public https://HOST")
    if options.password is not None and len(options.password) < _LEAST_PASSWORD:
        raise UsageError(
            f"The password has fewer than {_LEAST_PASSWORD} characters", "Write a longer one into the file"
        )


def address_of(options: DeskOptions, port: int) -> Address:
    """Return the origins under which browsers may reach the desk."""
    if options.public is not None:
        parts = urlsplit(options.public)
        return Address(parts.scheme, (parts.netloc,))
    scheme = "https" if options.certificate is not None else "http"
    if _is_loopback(options.host):
        return Address(scheme, tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")))
    host = f"[{options.host}]" if ":" in options.host else options.host
    names = (host, f"{socket.getfqdn()}") if _is_wildcard(options.host) else (host,)
    bare = names if port in (80, 443) else ()
    return Address(scheme, (*(f"{name}:{port}" for name in names), *bare))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::")  # noqa: S104  compared, not listened on


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        # Before the address is shown: a browser may be quicker than the server.
        opened.listen(128)
    except OSError:
        raise EnvironmentFailure("The desk cannot listen on this address", "Name another port") from None
    return opened


def _server(guarded: Guard, options: DeskOptions) -> uvicorn.Server:
    # No access log: addresses are opaque, but who looked at what and when is nobody's business.
    config = uvicorn.Config(
        guarded,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        lifespan="on",
        h11_max_incomplete_event_size=64 * 1024,
        limit_concurrency=200,
    )
    if options.certificate is not None and options.private_key is not None:
        config.ssl_certfile, config.ssl_keyfile = str(options.certificate), str(options.private_key)
        try:
            config.load()
        except (OSError, ssl.SSLError):
            raise UsageError("The certificate or its key cannot be read", "Name PEM files") from None
    return uvicorn.Server(config)


async def _serve(server: uvicorn.Server, opened: socket.socket, sessions: Sessions) -> None:
    async def end_when_idle() -> None:
        while not sessions.is_over():
            await asyncio.sleep(_IDLE_CHECK_SECONDS)
        server.should_exit = True

    idle = asyncio.create_task(end_when_idle())
    try:
        await server.serve(sockets=[opened])
    finally:
        idle.cancel()
