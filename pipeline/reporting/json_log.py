"""Log output for programs: JSON lines on stderr with counts and rules, never values or paths.

Every line has ``time`` (UTC), ``level`` (``info``, ``warning`` or ``error``) and ``event``:
``stage-started``, ``stage-progress``, ``stage-finished``, ``message``, ``gate`` and finally ``ending``.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from medsanitize.pipeline.runtime.result import RunResult
    from medsanitize.progress import StageTiming

Level = Literal["info", "warning", "error"]

_EVERY_SECONDS = 5.0
_GATE_LEVELS: dict[str, Level] = {"flagged": "warning", "failed": "error"}
# Exit code 1 is a warning: the run finished, but some objects are quarantined.
_EXIT_LEVELS: dict[int, Level] = {0: "info", 1: "warning"}


def log_line(event: str, level: Level = "info", **facts: Any) -> None:
    """Write one line."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = json.dumps({"time": now, "level": level, "event": event, **facts})
    # Flushed, so that a monitor sees the line when it is written.
    print(line, file=sys.stderr, flush=True)


def log_result(result: RunResult) -> None:
    """Log the gates of a finished run, and its ending."""
    for gate in result.gates:
        level = _GATE_LEVELS.get(gate.result, "info")
        facts = {"looked_at": gate.looked_at, "concerned": gate.concerned, "unit": gate.unit}
        log_line("gate", level, gate=gate.name, result=gate.result, detail=gate.detail, **facts)
    log_line(
        "ending",
        _EXIT_LEVELS.get(int(result.exit_code), "error"),
        ending=result.ending,
        exit_code=int(result.exit_code),
        objects=result.objects,
        outcomes=dict(result.outcomes),
        dropped=dict(result.dropped),
        quarantined=dict(result.quarantined),
    )


def log_failure(ending: str, code: int, error: str, message: str) -> None:
    """Log a command that did not finish; ``ending`` is ``failed`` or ``stopped``."""
    level: Level = "warning" if ending == "stopped" else "error"
    log_line("ending", level, ending=ending, exit_code=code, error=error, message=message)


class JsonProgress:
    """Logs progress as JSON lines."""

    def __init__(self) -> None:
        self._stage, self._done = "", 0
        self._total: int | None = None
        self._last = 0.0

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage."""
        self._stage, self._done, self._total = name, 0, total
        log_line("stage-started", stage=name, total=total)

    def advance(self, objects: int) -> None:
        """Count objects as done; logs at most every five seconds."""
        self._done += objects
        # Monotonic, because the wall clock may be set back during a run.
        now = time.monotonic()
        if now - self._last >= _EVERY_SECONDS:
            self._last = now
            log_line("stage-progress", stage=self._stage, done=self._done, total=self._total)

    def finished(self, timing: StageTiming) -> None:
        """End a stage."""
        log_line(
            "stage-finished",
            stage=timing.name,
            objects=timing.objects,
            cpu_seconds=timing.cpu_seconds,
            wall_seconds=timing.wall_seconds,
        )

    def message(self, text: str) -> None:
        """Log a message."""
        log_line("message", text=text)
