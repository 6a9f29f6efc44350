"""Cancellation between two objects, on a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from medsanitize.progress import Cancellation

# Signals that cancel a run: Ctrl-C, a scheduler, the end of a session, the end of the CPU time limit.
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)


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
