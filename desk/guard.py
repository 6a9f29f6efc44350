"""What stands before every page: the checks of a request, and the headers of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from medsanitize import UsageError
from medsanitize.desk.sessions import Session, Sessions
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "desk"
MOST_BODY_BYTES: Final = 2 * 2**20
_OPEN: Final = ("/enter", "/assets/")
# Asked for by pages themselves: they must not keep an unattended session open.
_UNTOUCHED: Final = ("/events", "/progress")
# What a page may load: its own files; nothing inline, nothing from elsewhere.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: browsers would then send "Origin: null" with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), usb=()",
}


@dataclass(frozen=True, slots=True)
class Address:
    """The origin under which browsers reach the desk, such as ``http://127.0.0.1:8750``."""

    scheme: str
    hosts: tuple[str, ...]

    @property
    def origins(self) -> tuple[str, ...]:
        """The values of the header Origin that the desk's own pages send."""
        return tuple(f"{self.scheme}://{host}" for host in self.hosts)


class Guard:
    """ASGI middleware that refuses a request before any page sees it.

    Parameters
    ----------
    app : ASGIApp
        The pages.
    address : Address
        The hosts that a request may name: a name of another host that resolves to this machine (DNS
        rebinding) is refused.
    sessions : Sessions
        Who is in.
    """

    def __init__(self, app: ASGIApp, address: Address, sessions: Sessions) -> None:
        self._app, self._address, self._sessions = app, address, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if self._address.scheme == "https":
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), str(scope["path"])
        if headers.get("host", "") not in self._address.hosts:
            return PlainTextResponse("The desk has another address.", 421)
        if (reason := self._foreign(scope["method"], headers, path)) is not None:
            return PlainTextResponse(reason, 403)
        if int(headers.get("content-length") or 0) > MOST_BODY_BYTES:
            return PlainTextResponse("The request is too large.", 413)
        if path.startswith(_OPEN):
            return None
        session = self._sessions.find(
            Request(scope).cookies.get(COOKIE, ""), touch=not path.endswith(_UNTOUCHED)
        )
        if session is None:
            return RedirectResponse("/enter", 303) if scope["method"] == "GET" else _ended()
        scope["desk.session"] = session
        return None

    def _foreign(self, method: str, headers: Headers, path: str) -> str | None:
        """Return why a request is of another site, or None."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin not in self._address.origins:
            return "The request comes from another site."
        if method in ("GET", "HEAD"):
            # The address with the token is opened from a terminal, which may be a page itself.
            allowed = site in (None, "same-origin", "none") or path == "/enter"
            return None if allowed else "The request comes from another site."
        if method != "POST":
            return "Pages are read and forms are sent, nothing else."
        if origin is None or site not in (None, "same-origin"):
            return "A form has to come from a page of the desk."
        return None


def session_of(request: Request) -> Session:
    """Return the session of a request that passed the guard."""
    session: Session = request.scope["desk.session"]
    return session


async def body_of(request: Request) -> bytes:
    """Return the body of a request, which may not state its length.

    Raises
    ------
    UsageError
        It is too large.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise UsageError("The request is too large", "Send less at once")
    return bytes(body)


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a field that stands twice, the last value."""
    body = await body_of(request)
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200))


def _ended() -> Response:
    return PlainTextResponse("The session has ended. Open the desk again.", 401)
