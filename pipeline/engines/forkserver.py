"""The process that workers are forked from: it imports what they need once, beside this one's own start."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess

from medsanitize.errors import EnvironmentFailure, MedsanitizeError, UsageError
from medsanitize.offline import PREFIX
from medsanitize.pipeline.runtime.signals import SIGNALS

_PRELOAD = [
    "medsanitize.pipeline.stages.audit",
    "medsanitize.pipeline.stages.deduplicate",
    "medsanitize.pipeline.stages.sanitize",
    "medsanitize.sanitize.dicom.inspect",
    "medsanitize.sanitize.dicom.sanitizer",
    "medsanitize.sanitize.text.cleaner",
    "medsanitize.verifiers.leaks.pixel_digest",
    "medsanitize.verifiers.leaks.scan_object",
]
GC_THRESHOLD = 10_000
"""Objects made between two looks for garbage: what is imported stays, and looking at it takes time."""
_THREADS = "OMP_NUM_THREADS"
"""OpenBLAS and MKL follow it too, unless their own variables say otherwise."""
_LONGEST = (107 if sys.platform == "linux" else 103) - 32
"""Bytes of the temporary folder's path: the name of a socket in it adds 32 to what the system allows."""
_OURS = len(f"/{PREFIX}12345678")
"""Bytes that a command's own folder adds to what TMPDIR names."""


class _Worker(ForkServerProcess):
    """A process that ends when its pool asks for it: SIGTERM, which is the parent's business, it ignores."""

    def terminate(self) -> None:
        """End it now; from Python 3.12 on a pool that broke waits for it with a lock in its hands."""
        self.kill()


class _Context(ForkServerContext):
    """Makes such processes."""

    Process = _Worker


def fork_context() -> ForkServerContext:
    """The context in which a pool of workers is made.

    Raises
    ------
    UsageError
        No socket can be made in the folder for temporary files.
    EnvironmentFailure
        There is no such folder that can be written to.
    """
    folder = _temporary()
    if len(os.fsencode(folder)) > _LONGEST:
        raise UsageError(
            "The path of the folder for temporary files is too long for the sockets of worker processes",
            f"Let TMPDIR name a folder whose path has at most {_LONGEST - _OURS} bytes",
        )
    context = _Context()
    context.set_forkserver_preload(_PRELOAD)
    with _one_thread_each(), suppress(OSError):  # said when a worker is asked for
        for start in (resource_tracker.ensure_running, forkserver.ensure_running):
            with _deaf():  # each its own: what starts the first hears SIGTERM again when it has
                start()
    return context


def _temporary() -> str:
    """The folder for temporary files, which is there and takes files."""
    try:
        folder = tempfile.gettempdir()
    except OSError:
        folder = ""
    if not os.access(folder, os.W_OK):
        raise EnvironmentFailure(
            "No folder for temporary files can be written to", "Free disk space, or let TMPDIR name a folder"
        )
    return folder


def start_forkserver() -> None:
    """Start the process now, before anything large is imported here, so that both import at once."""
    gc.set_threshold(GC_THRESHOLD)
    with suppress(MedsanitizeError):  # said where workers are needed, and the run's account is kept
        fork_context()


@contextmanager
def _deaf() -> Iterator[None]:
    """What is started meanwhile, and all that is forked from it, never hears what asks a run to stop.

    A scheduler or a terminal asks every process of a run, but these are the parent's to end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """What is started meanwhile does its linear algebra on one thread, unless the user said how many.

    There is a worker for every core: threads of several workers that wait for one another take six times as
    long as one each.
    """
    ours = os.environ.get(_THREADS) is None
    os.environ.setdefault(_THREADS, "1")
    try:
        yield
    finally:
        if ours:
            del os.environ[_THREADS]
