"""Signals that cancel a run."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from medsanitize.pipeline.runtime.signals import cancel_on_signals
from medsanitize.progress import Cancelled


@pytest.fixture
def hangups() -> Iterator[None]:
    """Restore the handling of SIGHUP after a test."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU])
@pytest.mark.usefixtures("hangups")
def test_a_signal_cancels_with_its_number(number: signal.Signals) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with cancel_on_signals() as stop:
        signal.raise_signal(number)
        with pytest.raises(Cancelled) as stopped:
            stop.check()
    assert stopped.value.number == number


@pytest.mark.usefixtures("hangups")
def test_a_hangup_ignored_by_nohup_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with cancel_on_signals() as stop:
        signal.raise_signal(signal.SIGHUP)
        stop.check()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.usefixtures("hangups")
def test_signal_handlers_are_restored() -> None:
    def theirs(*_: object) -> None:
        pass

    signal.signal(signal.SIGHUP, theirs)
    with cancel_on_signals():
        pass
    assert signal.getsignal(signal.SIGHUP) is theirs
