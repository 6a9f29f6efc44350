"""The exit report of a run, for schedulers and monitoring.

``return.json`` and ``metrics.prom`` are written to the state folder when a run ends, also after a failure;
those of a shard contain its name. ``return.json`` is also written to the path given by ``--return-file``.
Both contain counts, rules, gates and timings, but no values, source names or paths.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medsanitize import __version__
from medsanitize.errors import MedsanitizeError, UsageError
from medsanitize.pipeline.reporting.prometheus import Families, render
from medsanitize.pipeline.runtime.result import RunResult, describe_error, exit_code, failed_ending
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.state.database import State, StateError
from medsanitize.pipeline.state.objects import outcome_totals
from medsanitize.pipeline.state.shards import Shard
from medsanitize.progress import StageTiming
from medsanitize.release.atomic_io import reserve_space, storage_errors, write_atomic

RETURN_FILE, METRICS_FILE = "return.json", "metrics.prom"
_OUTCOMES = ("released", "dropped", "quarantined", "pending")
_RETRYABLE_EXIT_CODE = 5
# Shells report a process that a signal ended as 128 plus the signal's number.
_SIGNALS = 128


@dataclass(frozen=True, slots=True)
class Counts:
    """Objects and bytes of a state, by outcome; ``pending`` objects have no outcome yet."""

    objects: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0))
    rules: dict[str, dict[str, int]] = field(default_factory=lambda: {"dropped": {}, "quarantined": {}})
    source_bytes: int = 0
    released_bytes: int = 0


@dataclass(slots=True)
class ExitReport:
    """Facts about one run, collected while it runs.

    Attributes
    ----------
    started, ended : float
        Seconds since the Unix epoch; ``ended`` is None while the run is in progress.
    workspace : Workspace or None
        The release; None until the policy is read.
    shard : Shard or None
        The shard, if the run processes only one.
    counts : Counts
        Objects and bytes by outcome.
    stages : list of StageTiming
        Timings of the stages that ended.
    result : RunResult or None
        The result, if the run returned one.
    error : BaseException or None
        The exception that ended the run, if any.
    file : Path or None
        A second path for ``return.json``.
    """

    started: float = field(default_factory=time.time)
    ended: float | None = None
    workspace: Workspace | None = None
    shard: Shard | None = None
    counts: Counts = field(default_factory=Counts)
    stages: list[StageTiming] = field(default_factory=list)
    result: RunResult | None = None
    error: BaseException | None = None
    file: Path | None = None

    def count(self, state: State) -> None:
        """Count the objects of a state; if it cannot be read, the counts stay unchanged."""
        # Called while an error propagates: a damaged state must not hide the first failure.
        with suppress(StateError):
            self.counts = _counts(state)

    @property
    def exit_code(self) -> int:
        """The exit code of the run."""
        if self.result is not None and self.error is None:
            return int(self.result.exit_code)
        return int(exit_code(self.error))

    @property
    def ending(self) -> str:
        """The ending of the result; ``failed`` or ``stopped`` after an error."""
        if self.error is not None:
            return failed_ending(self.error)
        return self.result.ending if self.result is not None else "failed"

    def facts(self) -> dict[str, Any]:
        """Return the content of ``return.json``, as documented in the manual."""
        code, error = self.exit_code, self.error
        release = self.workspace
        gates = self.result.gates if self.result else ()
        told = None if error is None else {"class": type(error).__name__, "message": describe_error(error)}
        return {
            "type": "return",
            "tool": __version__,
            "release": None if release is None else {"name": release.name, "version": release.version},
            "shard": None if self.shard is None else f"{self.shard.index}/{self.shard.count}",
            "ending": self.ending,
            "exit_code": code,
            "may_be_repeated": code == _RETRYABLE_EXIT_CODE or code > _SIGNALS,
            "error": told,
            "objects": self.counts.objects,
            "outcomes": self.counts.outcomes,
            **self.counts.rules,
            "bytes": {"source": self.counts.source_bytes, "released": self.counts.released_bytes},
            "gates": [asdict(gate) for gate in gates],
            "stages": [asdict(stage) for stage in self.stages],
            "digest": self.result.digest if self.result else None,
            "started": _iso_time(self.started),
            "ended": _iso_time(self.ended or time.time()),
        }

    def metrics(self) -> bytes:
        """Return the content of ``metrics.prom``, in the Prometheus text format."""
        counts, gates = self.counts, self.result.gates if self.result else ()
        release = self.workspace
        common = {} if release is None else {"release": release.name, "release_version": release.version}
        if self.shard is not None:
            common["shard"] = f"{self.shard.index}/{self.shard.count}"
        rules = counts.rules
        stages = [({"stage": one.name}, one) for one in self.stages]
        ended = self.ended or time.time()
        families: Families = (
            ("run_info", "Version of the program that ran.", [({"version": __version__}, 1)]),
            ("run_start_timestamp_seconds", "When the run began.", [({}, self.started)]),
            ("run_end_timestamp_seconds", "When the run ended.", [({}, ended)]),
            ("run_exit_code", "Exit code of the run.", [({}, self.exit_code)]),
            ("run_ending", "How the run ended.", [({"ending": self.ending}, 1)]),
            ("objects", "Objects found, by outcome.", _samples_by("outcome", counts.outcomes)),
            ("source_bytes", "Bytes of the objects found.", [({}, counts.source_bytes)]),
            ("released_bytes", "Bytes of the objects released.", [({}, counts.released_bytes)]),
            ("dropped_objects", "Objects dropped, by rule.", _samples_by("rule", rules["dropped"])),
            (
                "quarantined_objects",
                "Objects in quarantine, by rule.",
                _samples_by("rule", rules["quarantined"]),
            ),
            ("stage_wall_seconds", "Wall time of a stage.", [(of, one.wall_seconds) for of, one in stages]),
            ("stage_cpu_seconds", "CPU time, all processes.", [(of, one.cpu_seconds) for of, one in stages]),
            ("stage_objects", "Objects a stage handled.", [(of, one.objects) for of, one in stages]),
            ("gate", "Result of a gate.", [({"gate": one.name, "result": one.result}, 1) for one in gates]),
        )
        return render(common, families)


def _samples_by(label: str, counts: dict[str, int]) -> list[tuple[dict[str, str], float]]:
    return [({label: name}, count) for name, count in counts.items()]


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _counts(state: State) -> Counts:
    totals = outcome_totals(state)
    outcomes = dict.fromkeys(_OUTCOMES, 0)
    rules: dict[str, dict[str, int]] = {"dropped": {}, "quarantined": {}}
    for one in totals:
        outcome = one.outcome or "pending"
        outcomes[outcome] += one.objects
        if outcome in rules:
            rules[outcome][one.rule or ""] = one.objects
    return Counts(
        objects=sum(outcomes.values()),
        outcomes=outcomes,
        rules=rules,
        source_bytes=sum(one.source_bytes for one in totals),
        released_bytes=sum(one.released_bytes for one in totals if one.outcome == "released"),
    )


# -- writing ------------------------------------------------------------------------------


def exit_report_path(workspace: Workspace, shard: Shard | None, name: str) -> Path:
    """Return the path of a file of the exit report in the state folder."""
    stem, _, suffix = name.rpartition(".")
    return workspace.state / (name if shard is None else f"{stem}.{shard.name}.{suffix}")


@contextmanager
def exit_report_in_state(report: ExitReport, workspace: Workspace, shard: Shard | None) -> Iterator[None]:
    """Write the exit report to the state folder when the block ends, normally or by an exception.

    Parameters
    ----------
    report : ExitReport
        Filled by the block.
    workspace : Workspace
        Gives the state folder.
    shard : Shard or None
        The shard whose name the files contain.
    """
    report.workspace, report.shard = workspace, shard
    # A file that exists after a crash must not describe an earlier run, and space for the new one is reserved
    # so that a run that fills the disk can still report it.
    for name in (RETURN_FILE, METRICS_FILE):
        with storage_errors():
            exit_report_path(workspace, shard, name).unlink(missing_ok=True)
        reserve_space(exit_report_path(workspace, shard, name))
    try:
        yield
        _write(report, workspace, shard)
    except BaseException as error:
        report.error = error
        with suppress(OSError, MedsanitizeError):  # must not replace the error of the run
            _write(report, workspace, shard)
        raise


def _write(report: ExitReport, workspace: Workspace, shard: Shard | None) -> None:
    report.ended = time.time()
    for name, content in ((RETURN_FILE, return_bytes(report)), (METRICS_FILE, report.metrics())):
        path = exit_report_path(workspace, shard, name)
        write_atomic(path, content)
        with storage_errors():
            path.chmod(0o600)


def return_bytes(report: ExitReport) -> bytes:
    """Return the bytes of ``return.json``."""
    return (json.dumps(report.facts(), indent=2) + "\n").encode()


@contextmanager
def exit_report_to(file: Path | None) -> Iterator[ExitReport]:
    """Yield an exit report, and write it to ``file``, if given, when the block ends."""
    report = ExitReport(file=file)
    try:
        yield report
    except BaseException as error:
        report.error = error
        if report.file is not None:
            with suppress(OSError, MedsanitizeError):
                write_atomic(report.file, return_bytes(report))
        raise
    if report.file is not None:
        write_atomic(report.file, return_bytes(report))


def check_return_file(report: ExitReport, roots: Iterable[object]) -> None:
    """Check the second path of ``return.json``, remove the file of an earlier run, and reserve space.

    Parameters
    ----------
    report : ExitReport
        Gives the path; it is set to None if the path is refused.
    roots : iterable
        Inputs and output; only local folders are checked.

    Raises
    ------
    UsageError
        The path is inside an input or the output.
    """
    folders = [root.resolve() for root in roots if isinstance(root, Path)]
    if report.file is not None and any(report.file.resolve().is_relative_to(root) for root in folders):
        # Otherwise the error itself would be written to the refused path.
        report.file = None
        raise UsageError("--return-file is inside an input or the output", "Name a file outside of them")
    if report.file is not None:
        # After a kill, an old file would pass for the result of this run.
        if report.file.is_file():
            with storage_errors():
                report.file.unlink(missing_ok=True)
        reserve_space(report.file)
