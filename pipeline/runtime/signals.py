"""Stopping between two objects when a signal asks for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)
"""What asks a run to stop: Ctrl-C, a scheduler, the end of a session, the end of the CPU time it may use."""


class Cancelled(Exception):
    """A signal asked a command to stop; whatever it keeps of its work is kept."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.remedy = "Give the same command again: it goes on where it can"
        super().__init__(number)

    def __str__(self) -> str:
        return f"Stopped on request. {self.remedy}"


class Cancellation:
    """Remembers that a signal arrived. ``check`` raises at a point where nothing is half done."""

    def __init__(self) -> None:
        self.number = 0

    def check(self) -> None:
        """Raise Stopped if a signal arrived."""
        if self.number:
            raise Cancelled(self.number)


@contextmanager
def cancel_on_signals() -> Iterator[Cancellation]:
    """Catch `SIGNALS` while the block runs; what ``nohup`` ignores stays ignored."""
    stop = Cancellation()

    def note(number: int, _frame: FrameType | None) -> None:
        stop.number = number

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = (number for number in SIGNALS if number != signal.SIGHUP or not ignored)
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
