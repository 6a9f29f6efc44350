"""The progress of a run as a file in the state folder, for whoever did not start it.

``NAME-VERSION.progress.json`` has stages, counts and times, never names or values. It exists while the run
does; what a killed run leaves is recognized by its age and by the number of its process.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.progress import Progress, StageTiming
from medsanitize.release.atomic_io import write_atomic

_EVERY_SECONDS: Final = 0.5
# Written twice a second: a file this old has nobody who writes it.
_STALE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is.

    Attributes
    ----------
    stage : str
        The stage that runs; empty before the first.
    done : int
        Objects or steps of it that are done.
    total : int or None
        All of them, if known.
    stage_seconds, run_seconds : float
        Since the stage and the run began.
    finished : tuple of StageTiming
        The stages that ended.
    messages : tuple of str
        What the run said.
    pid : int
        The process that runs, on ``host``.
    """

    stage: str
    done: int
    total: int | None
    stage_seconds: float
    run_seconds: float
    finished: tuple[StageTiming, ...]
    messages: tuple[str, ...]
    pid: int
    host: str

    @property
    def rate(self) -> float:
        """Objects per second in this stage."""
        return self.done / self.stage_seconds if self.stage_seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Time left of this stage; None if it cannot be told."""
        if self.total is None or not self.done or self.rate <= 0:
            return None
        return max(self.total - self.done, 0) / self.rate


class _Recorder:
    """Passes progress on, and remembers what the file says."""

    def __init__(self, inner: Progress) -> None:
        self._inner = inner
        self._stage, self._done = "", 0
        self._total: int | None = None
        self._began = self._stage_began = time.monotonic()
        self._finished: list[StageTiming] = []
        self._messages: list[str] = []

    def stage(self, name: str, total: int | None) -> None:
        self._stage, self._done, self._total = name, 0, total
        self._stage_began = time.monotonic()
        self._inner.stage(name, total)

    def advance(self, objects: int) -> None:
        self._done += objects
        self._inner.advance(objects)

    def finished(self, timing: StageTiming) -> None:
        self._finished.append(timing)
        self._inner.finished(timing)

    def message(self, text: str) -> None:
        self._messages.append(text)
        self._inner.message(text)

    def content(self) -> bytes:
        now = time.monotonic()
        facts: dict[str, Any] = {
            "stage": self._stage,
            "done": self._done,
            "total": self._total,
            "stage_seconds": round(now - self._stage_began, 2),
            "run_seconds": round(now - self._began, 2),
            "finished": [asdict(one) for one in list(self._finished)],
            "messages": list(self._messages)[-20:],
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }
        return json.dumps(facts).encode()


@contextmanager
def recorded_progress(workspace: Workspace, progress: Progress) -> Iterator[Progress]:
    """Yield a progress that is also written to the state folder, twice a second, until the block ends."""
    path, recorder, over = workspace.progress, _Recorder(progress), Event()

    def keep_writing() -> None:
        # A full disk must not end a run; the stage that needs space says so.
        while True:
            with suppress(OSError, EnvironmentFailure):
                write_atomic(path, recorder.content(), private=True)
            if over.wait(_EVERY_SECONDS):
                return

    writer = Thread(target=keep_writing, name="progress", daemon=True)
    writer.start()
    try:
        yield recorder
    finally:
        over.set()
        writer.join()
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_progress(path: Path) -> RunProgress | None:
    """Return the progress of the run that writes this file; None if nobody does."""
    try:
        age = time.time() - path.stat().st_mtime
        facts = json.loads(path.read_bytes())
        facts["finished"] = tuple(StageTiming(**one) for one in facts["finished"])
        found = RunProgress(**{**facts, "messages": tuple(facts["messages"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    alive = found.host != socket.gethostname() or _exists(found.pid)
    return found if alive and age < _STALE_SECONDS else None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A killed process whose parent has not asked for its end is none.
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
