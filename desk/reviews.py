"""Open reviews: each in one thread, because a state belongs to the thread that opened it.

A review locks its release against runs, so it is closed when nobody uses it, and before a run is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any, Final, TypeVar

from medsanitize import open_review

T = TypeVar("T")
_IDLE_SECONDS: Final = 45.0


@dataclass(slots=True, repr=False)
class _Open:
    session: Any
    changed: int
    used: float


@dataclass(slots=True, repr=False)
class Reviews:
    """The reviews that are open, by policy."""

    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "review"))
    _open: dict[Path, _Open] = field(default_factory=dict)

    def use(self, policy: Path, reviewer: str, work: Callable[[Any], T]) -> T:
        """Call a function with the review of a policy, as one person sees it, and return its result.

        Raises
        ------
        UsageError
            There is nothing to review.
        EnvironmentFailure
            A run is at work.
        """
        return self._thread.submit(self._use, policy, reviewer, work).result()

    def _use(self, policy: Path, reviewer: str, work: Callable[[Any], T]) -> T:
        changed = policy.stat().st_mtime_ns
        found = self._open.get(policy)
        # Another policy may have made another release, or none; another person has another sample.
        if found is not None and (found.changed, found.session.reviewer) != (changed, reviewer):
            self._close(policy)
            found = None
        if found is None:
            found = self._open[policy] = _Open(
                open_review(policy, reviewer=reviewer), changed, time.monotonic()
            )
            self._close_later(policy)
        try:
            return work(found.session)
        finally:
            found.used = time.monotonic()

    def _close_later(self, policy: Path, seconds: float = _IDLE_SECONDS) -> None:
        timer = Timer(seconds, self._close_if_idle, (policy,))
        timer.daemon = True
        timer.start()

    def _close_if_idle(self, policy: Path) -> None:
        def look() -> None:
            found = self._open.get(policy)
            if found is None:
                return
            idle = time.monotonic() - found.used
            if idle >= _IDLE_SECONDS:
                self._close(policy)
            else:
                self._close_later(policy, _IDLE_SECONDS - idle)

        try:
            self._thread.submit(look)
        except RuntimeError:
            return  # the desk has ended

    def close(self, policy: Path) -> None:
        """Close the review of a policy, so that a run can start."""
        self._thread.submit(self._close, policy).result()

    def _close(self, policy: Path) -> None:
        found = self._open.pop(policy, None)
        if found is not None:
            found.session.close()

    def close_all(self) -> None:
        """Close every review; decisions are stored already."""
        for policy in list(self._open):
            self.close(policy)
        self._thread.shutdown(wait=True)
