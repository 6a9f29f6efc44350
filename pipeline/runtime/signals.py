"""Cancellation between two objects, on a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

# Signals that cancel a run: Ctrl-C, a scheduler, the end of a session, the end of the CPU time limit.
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)


class Cancelled(Exception):
    """A signal cancelled a command; work stored so far is kept."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.remedy = "Give the same command again: it goes on where it can"
        super().__init__(number)

    def __str__(self) -> str:
        return f"Stopped on request. {self.remedy}"


class Cancellation:
    """Remembers that a signal arrived; ``check`` raises where nothing is half done."""

    def __init__(self) -> None:
        self.number = 0

    def check(self) -> None:
        """Raise ``Cancelled`` if a signal arrived."""
        if self.number:
            raise Cancelled(self.number)


@contextmanager
def cancel_on_signals() -> Iterator[Cancellation]:
    """Catch ``SIGNALS`` within a context; a SIGHUP that ``nohup`` ignores stays ignored."""
    stop = Cancellation()

    def note(number: int, _frame: FrameType | None) -> None:
        # Only a note: a handler can run in the middle of any write.
        stop.number = number

    # nohup ignores SIGHUP for its command; a handler of ours would undo that.
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    heard = (number for number in SIGNALS if number != signal.SIGHUP or not ignored)
    before = {number: signal.signal(number, note) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
