"""The command ``federation run``: server and sites of a job as processes of one machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.federation.training.invitation import FILE
from medsanitize.policies.federation import load_job
from medsanitize.progress import Cancellation, Progress

_LOOK_SECONDS: Final = 0.2


def run_on_this_machine(
    job: Path, sites: Sequence[Path], progress: Progress, cancellation: Cancellation
) -> dict[str, Any]:
    """Provision a job where that was not done, and run its server and sites until all have ended.

    Returns
    -------
    dict
        What the server has printed as JSON.

    Raises
    ------
    UsageError, EnvironmentFailure
        A process ended without a result; the message is its own.
    """
    loaded = load_job(job)
    if not (loaded.state / FILE).exists():
        done = subprocess.run(  # noqa: S603  this program
            [*program("provision"), str(job), "--json"], capture_output=True, check=False
        )
        result_of(done.stdout)
    progress.stage("train", None)
    with ExitStack() as processes:
        server = processes.enter_context(_Process("server", str(job)))
        running = [
            processes.enter_context(_Process("site", str(site), str(loaded.state / FILE))) for site in sites
        ]
        while server.process.poll() is None:
            cancellation.check()
            # A site that fails would be waited for.
            for one in running:
                if one.process.poll():
                    result_of(one.output())
            time.sleep(_LOOK_SECONDS)
        for one in running:
            one.process.wait(loaded.patience)
        return result_of(server.output())


def program(*arguments: str) -> list[str]:
    """Return the command line of a command of ``federation``."""
    return [sys.executable, "-m", "medsanitize", "federation", *arguments]


def result_of(output: bytes) -> dict[str, Any]:
    """Return what a process has printed with ``--json``.

    Raises
    ------
    UsageError
        The process has reported an error.
    EnvironmentFailure
        It ended without a result.
    """
    try:
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        raise EnvironmentFailure(
            "A process of the federation ended without a result", "Run the same command again"
        ) from None
    if told.get("type") == "error":
        raise UsageError(f"A process of the federation failed: {told['message']}")
    return told


class _Process:
    """A process of this program that ends with the block."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603  this program
            [*program(*arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def output(self) -> bytes:
        """Return all that the process has printed, once it has ended."""
        return self.process.communicate()[0]

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
