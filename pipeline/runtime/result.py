"""The result of a run: counts, timings, and the exit code of every ending."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import MedsanitizeError
from medsanitize.progress import Cancelled, StageTiming

if TYPE_CHECKING:
    from medsanitize.release.summary import GateSummary


class Exit(IntEnum):
    """Exit codes of every command; 128 + N means stopped by signal N."""

    DONE = 0
    SOME_QUARANTINED = 1
    USAGE = 2
    GATE_REFUSED = 3
    INTEGRITY = 4
    ENVIRONMENT = 5
    DEFECT = 70
    SIGNAL = 128


MEANINGS: Mapping[Exit, str] = {
    Exit.DONE: "done; every object was released or dropped by a rule of the policy",
    Exit.SOME_QUARANTINED: "done; some objects are quarantined",
    Exit.USAGE: "the command line, the policy or a key cannot be used; nothing was read",
    Exit.GATE_REFUSED: "a gate refused or approval is awaited; nothing was published",
    Exit.INTEGRITY: "a file is not what its digest says",
    Exit.ENVIRONMENT: "disk, memory or store failed; the same command may be run again",
    Exit.DEFECT: "a defect of the program; nothing was published",
    Exit.SIGNAL: "128 + N: stopped by signal N; the same command resumes",
}


def exit_code(error: BaseException | None = None, *, refused: bool = False, quarantined: int = 0) -> int:
    """Return the exit code of an ending; an error precedes a refusal, which precedes quarantined objects."""
    if isinstance(error, Cancelled):
        return Exit.SIGNAL + error.number
    if isinstance(error, KeyboardInterrupt):
        # 128 + 2 is SIGINT, the signal of Ctrl-C.
        return Exit.SIGNAL + 2
    if isinstance(error, MedsanitizeError):
        return error.exit_code
    if isinstance(error, MemoryError):
        return Exit.ENVIRONMENT
    if error is not None:
        return Exit.DEFECT
    if refused:
        return Exit.GATE_REFUSED
    return Exit.SOME_QUARANTINED if quarantined else Exit.DONE


def describe_error(error: BaseException) -> str:
    """Describe an error in a sentence."""
    if isinstance(error, MedsanitizeError | Cancelled):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "Stopped on request"
    if isinstance(error, MemoryError):
        return "Memory is used up. Use fewer workers, then run the same command again"
    # Not the text of a foreign exception, which may quote element values.
    return f"A defect of the program: {type(error).__name__} {_where(error)}".rstrip()


def failed_ending(error: BaseException) -> str:
    """Return ``stopped`` for a signal, else ``failed``."""
    return "stopped" if isinstance(error, Cancelled | KeyboardInterrupt) else "failed"


def _where(error: BaseException) -> str:
    """Return module and line where an exception was raised."""
    trace = error.__traceback__
    # The innermost frame: the line that raised.
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"in {trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run.

    Attributes
    ----------
    ending : str
        ``published``, ``already_published``, ``refused``, ``awaiting_approval``, ``planned``,
        ``inventory_done`` or ``shard_done``.
    outcomes : mapping
        Number of objects by outcome.
    dropped, quarantined : mapping
        Number of objects by rule.
    """

    ending: str
    objects: int
    outcomes: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    actions: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, int] = field(default_factory=dict)
    gates: tuple[GateSummary, ...] = ()
    stages: tuple[StageTiming, ...] = ()
    release: Path | str | None = None
    report: Path | None = None
    digest: str | None = None
    messages: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of this ending."""
        refused = self.ending in ("refused", "awaiting_approval")
        return exit_code(refused=refused, quarantined=self.outcomes.get("quarantined", 0))

    def as_json(self) -> dict[str, Any]:
        """Return the result as ``--json`` prints it."""
        facts = asdict(self)
        for name in ("release", "report"):
            facts[name] = None if facts[name] is None else str(facts[name])
        return {"type": "result", **facts, "exit_code": int(self.exit_code)}
