"""Calls of a library in its own process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import UsageError
from medsanitize.offline import plain_environment
from medsanitize.sanitize.child_process import ChildProcess

_READY: Final = b"ready\n"
# Importing a library takes seconds; one that does not start holds the party up no longer than this.
_START_SECONDS: Final = 120.0
_CHILD: Final = Path(__file__).with_name("child.py")


class LibraryFailed(Exception):
    """The library refused what it was given, crashed or took too long."""


@dataclass(frozen=True, slots=True, repr=False)
class LibraryProcess:
    """An open process of a library."""

    child: ChildProcess

    def call(
        self, step: str, facts: Mapping[str, Any], parts: Sequence[bytes], *, seconds: float, returned: int
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Run a step, and return its facts and parts.

        Parameters
        ----------
        step : str
            Name of the step.
        facts : mapping
            Arguments, as JSON.
        parts : sequence of bytes
            Binary arguments.
        seconds : float
            The process is killed if the step takes longer.
        returned : int
            Number of parts that the step returns.

        Raises
        ------
        LibraryFailed
            The step failed, took too long or returned another number of parts.
        """
        line = json.dumps({**facts, "step": step, "parts": [len(part) for part in parts]})
        try:
            with self.child.within(seconds):
                for part in (line.encode("ascii") + b"\n", *parts):
                    self.child.requests.write(part)
                self.child.requests.flush()
                told = json.loads(self.child.answers.readline())
                found = [self.child.answers.read(length) for length in told["parts"]]
        # A dead process: an end of file instead of a line, or a broken pipe.
        except (OSError, ValueError, KeyError, TypeError):
            raise LibraryFailed from None
        if told.get("error") or len(found) != returned:
            raise LibraryFailed
        return told, found


@contextmanager
def open_library(library: Path, module: str, steps: Path, *, missing: UsageError) -> Iterator[LibraryProcess]:
    """Start the process of a library, and end it.

    Parameters
    ----------
    library : Path
        The folder that ``party install`` has filled.
    module : str
        Name of the folder of the library in it.
    steps : Path
        File with the steps.
    missing : UsageError
        Raised where the library is not installed, or does not start with this Python.

    Raises
    ------
    UsageError
        The library is not installed there, or does not fit this Python.
    LibraryFailed
        The process was killed before it was ready, for example for want of memory.
    """
    if not (library / module).is_dir():
        raise missing
    process = subprocess.Popen(  # noqa: S603  this interpreter, with files of this package
        [sys.executable, "-I", str(_CHILD), str(steps), str(library)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=plain_environment(),
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a process without pipes")
    child = ChildProcess(process, process.stdin, process.stdout)
    try:
        with child.within(_START_SECONDS):
            is_ready = child.answers.readline() == _READY
        if not is_ready:
            raise LibraryFailed if process.wait() == -signal.SIGKILL else missing
        yield LibraryProcess(child)
    finally:
        child.end()
