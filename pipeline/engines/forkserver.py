"""The forkserver: imports once what workers need, in parallel with the main process."""

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
    "medsanitize.sanitize.dicom.inspect_dicom",
    "medsanitize.sanitize.dicom.dicom_sanitizer",
    "medsanitize.sanitize.text.cleaner",
    "medsanitize.verifiers.leaks.pixel_digest",
    "medsanitize.verifiers.leaks.scan_object",
]
# Allocations between two garbage collections: imported objects are permanent and slow to scan.
GC_THRESHOLD = 10_000
# OpenBLAS and MKL follow it as well, unless their own variables are set.
_THREADS = "OMP_NUM_THREADS"
# Longest path of the temporary folder in bytes: socket names add 32 to it, and the system limits the sum.
_MAX_TEMPORARY_PATH = (107 if sys.platform == "linux" else 103) - 32
# Bytes that a command's own folder adds to TMPDIR.
_OWN_FOLDER_BYTES = len(f"/{PREFIX}12345678")


class _Worker(ForkServerProcess):
    """A process that a pool can end although it ignores SIGTERM."""

    def terminate(self) -> None:
        """Kill the process; from Python 3.12 on, a broken pool waits for it while holding a lock."""
        # SIGKILL, since the worker ignores SIGTERM.
        self.kill()


class _Context(ForkServerContext):
    """A forkserver context that creates such processes."""

    Process = _Worker


def fork_context() -> ForkServerContext:
    """Return the multiprocessing context for a pool of workers.

    Raises
    ------
    UsageError
        The path of the temporary folder is too long for a socket.
    EnvironmentFailure
        There is no writable temporary folder.
    """
    folder = _temporary()
    if len(os.fsencode(folder)) > _MAX_TEMPORARY_PATH:
        raise UsageError(
            "The path of the temporary folder is too long for the sockets of worker processes",
            f"Set TMPDIR to a folder whose path has at most {_MAX_TEMPORARY_PATH - _OWN_FOLDER_BYTES} bytes",
        )
    context = _Context()
    context.set_forkserver_preload(_PRELOAD)
    with _single_threaded(), suppress(OSError):  # reported when a worker is started
        for start in (resource_tracker.ensure_running, forkserver.ensure_running):
            with _signals_blocked():  # separately: starting the first one unblocks SIGTERM
                start()
    return context


def _temporary() -> str:
    """Return the temporary folder, which must be writable."""
    try:
        folder = tempfile.gettempdir()
    except OSError:
        folder = ""
    if not os.access(folder, os.W_OK):
        raise EnvironmentFailure(
            "There is no writable temporary folder", "Free disk space, or set TMPDIR to a folder"
        )
    return folder


def start_forkserver() -> None:
    """Start the forkserver before this process imports anything large, so that both import in parallel."""
    gc.set_threshold(GC_THRESHOLD)
    with suppress(MedsanitizeError):  # reported where workers are needed, with a complete exit report
        fork_context()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block cancellation signals in what the block starts, and in its forks.

    A scheduler or a terminal signals every process of a run, but only the parent may end these.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Limit linear algebra to one thread in what the block starts, unless the user set a number.

    There is one worker per core; competing threads of several workers take six times as long.
    """
    # The user's own setting is left alone.
    ours = os.environ.get(_THREADS) is None
    os.environ.setdefault(_THREADS, "1")
    try:
        yield
    finally:
        if ours:
            del os.environ[_THREADS]
