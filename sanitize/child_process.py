"""A process that reads hostile bytes for its parent: if a library ends or holds it, nothing else is lost.

Requests and answers go through pipes of its own, never as pickles: a library that hostile bytes have taken
over must not be able to make the parent run anything. It gets no key, no credential and, as arguments, no
names of files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Final

from medsanitize.offline import plain_environment

# The parent's search path: an embedding program may have set it, and the current folder must not be added.
_START = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " importlib.import_module(sys.argv[2]).serve()"
)
_READY = b"ready\n"
# glibc then fills memory as it gives it out. Where an object ends early, decoders leave some unset, which
# would be pixels of an object before, perhaps of another patient, and others at every reading.
_NO_LEFTOVERS: Final = {"MALLOC_PERTURB_": "85"}


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process and the pipes for requests to it and its answers."""

    process: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: IO[bytes]

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Kill the process if a context lasts longer: its pipes end, as after a crash."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.requests, self.answers):
            # What is still buffered cannot be written to a dead process.
            with suppress(OSError):
                pipe.close()


def start_child(module: str) -> ChildProcess | None:
    """Start a process that calls ``serve`` of a module; None if it does not get so far."""
    command = [sys.executable, "-P", "-c", _START, json.dumps([one for one in sys.path if one]), module]
    with suppress(OSError):
        process = subprocess.Popen(  # noqa: S603  this interpreter
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**plain_environment(), **_NO_LEFTOVERS},
        )
        if process.stdin is not None and process.stdout is not None:
            started = ChildProcess(process, process.stdin, process.stdout)
            if started.answers.readline() == _READY:
                return started
            started.end()
    return None


# -- in the process ---------------------------------------------------------------------------


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return the pipes for requests and answers, as the first call of ``serve``, and say that it is ready.

    The standard descriptors, which native libraries write to, lead nowhere afterwards.
    """
    _protect()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    answers.write(_READY)
    answers.flush()
    return requests, answers


def _protect() -> None:
    """Write no core dump, which would hold pixels, and leave signals of the terminal to the parent."""
    import signal

    for name in ("SIGINT", "SIGHUP", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
