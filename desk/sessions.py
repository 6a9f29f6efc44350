"""Who may use the desk: a token that works once, a password, and sessions that end when idle."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Final

MOST_SESSIONS: Final = 16
_FAILURES_BEFORE_DELAY: Final = 5
_DELAY_SECONDS: Final = 30.0


@dataclass(slots=True)
class Session:
    """One browser: who uses it, and when it was used last."""

    reviewer: str
    used: float


@dataclass(slots=True)
class Sessions:
    """The sessions of one desk.

    Attributes
    ----------
    token : str or None
        The one-time token; None once it is used, and where a password is asked for.
    password : str or None
        The password of a desk beyond loopback.
    idle_seconds : float
        A session that is not used for so long ends.
    login : str
        Name under which the person with the token decides, until he enters another one.
    """

    token: str | None
    password: str | None
    idle_seconds: float
    login: str = ""
    clock: Callable[[], float] = time.monotonic
    _open: dict[bytes, Session] = field(default_factory=dict)
    _failures: int = 0
    _closed_until: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def __repr__(self) -> str:
        return "Sessions(...)"

    def enter_with_token(self, token: str) -> str | None:
        """Return the cookie of a new session; None for a wrong token, and for one that was used."""
        with self._lock:
            if self.token is None or not _equal(token, self.token):
                return None
            self.token = None
            return self._start(self.login)

    def enter_with_password(self, password: str, reviewer: str) -> str | None:
        """Return the cookie of a new session; None for a wrong password, and after several of them."""
        with self._lock:
            now = self.clock()
            if self.password is None or now < self._closed_until:
                return None
            if not _equal(password, self.password):
                self._failures += 1
                if self._failures >= _FAILURES_BEFORE_DELAY:
                    self._closed_until, self._failures = now + _DELAY_SECONDS, 0
                return None
            self._failures = 0
            return self._start(reviewer[:100])

    def _start(self, reviewer: str) -> str:
        cookie = secrets.token_urlsafe(32)
        self._remove_idle()
        while len(self._open) >= MOST_SESSIONS:
            del self._open[min(self._open, key=lambda name: self._open[name].used)]
        self._open[_name(cookie)] = Session(reviewer, self.clock())
        return cookie

    def find(self, cookie: str, *, touch: bool = True) -> Session | None:
        """Return the session of a cookie and count it as used; None without one.

        A page that asks by itself, such as the progress of a run, does not touch its session.
        """
        with self._lock:
            self._remove_idle()
            found = self._open.get(_name(cookie)) if cookie else None
            if found is not None and touch:
                found.used = self.clock()
            return found

    def leave(self, cookie: str) -> None:
        """End a session."""
        with self._lock:
            self._open.pop(_name(cookie), None)

    def is_over(self) -> bool:
        """Whether nobody is in, and nobody can come in."""
        with self._lock:
            self._remove_idle()
            return not self._open and self.token is None and self.password is None

    def _remove_idle(self) -> None:
        oldest = self.clock() - self.idle_seconds
        for name in [name for name, one in self._open.items() if one.used < oldest]:
            del self._open[name]


def _name(cookie: str) -> bytes:
    # A digest: comparing it takes no time that tells the cookie.
    return sha256(cookie.encode()).digest()


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(sha256(one.encode()).digest(), sha256(other.encode()).digest())
