"""Commands that the desk starts as processes of their own: they outlive it.

A run belongs to its state folder, not to the desk: it is the same, with the same progress, if somebody
started it on the command line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final

from medsanitize import UsageError, status

_MOST_RESULT_BYTES: Final = 16 * 2**20


@dataclass(slots=True, repr=False)
class Started:
    """A process, and the unnamed file that receives its result."""

    command: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def result(self) -> dict[str, Any] | None:
        """Return the result as one JSON object, or None while the process runs."""
        if self.process.poll() is None:
            return None
        # pread: the process shares the position of the file.
        written = os.pread(self.output.fileno(), _MOST_RESULT_BYTES, 0)
        try:
            found = json.loads(written.splitlines()[-1])
        except (ValueError, IndexError):
            found = None
        if not isinstance(found, dict):
            return {"type": "error", "message": "The command ended without a result."}
        return found


@dataclass(slots=True, repr=False)
class Processes:
    """What this desk started, the last command of each policy."""

    _started: dict[Path, Started] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def start(self, command: str, policy: Path, *arguments: str) -> None:
        """Start a command on a policy, unless one is at work.

        Raises
        ------
        UsageError
            A run of this policy is at work.
        """
        with self._lock:
            before = self._started.get(policy)
            if before is not None and before.process.poll() is None:
                raise UsageError(
                    "A command of this release is at work", "Wait until it has ended, or stop it"
                )
            if status(policy).state == "running":
                raise UsageError("A run of this release is at work", "Wait until it has ended, or stop it")
            output = tempfile.TemporaryFile()  # noqa: SIM115  the process writes to it
            process = subprocess.Popen(  # noqa: S603  this program, with a policy within the roots
                [sys.executable, "-m", "medsanitize", command, str(policy), "--json", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                # A session of its own: what ends the desk, such as Ctrl-C, does not reach it.
                start_new_session=True,
                cwd=policy.parent,
            )
            self._started[policy] = Started(command, process, output)

    def last(self, policy: Path) -> Started | None:
        """Return the last command that was started on a policy."""
        return self._started.get(policy)

    def is_busy(self, policy: Path) -> bool:
        """Whether a command that this desk started is at work."""
        last = self.last(policy)
        return last is not None and last.process.poll() is None

    def terminate(self, policy: Path) -> bool:
        """Ask the command that this desk started to stop; return whether there was one."""
        last = self.last(policy)
        if last is None or last.process.poll() is not None:
            return False
        last.process.terminate()
        return True
