"""What a run leaves for schedulers and monitors when it has ended, however it ended.

``return.json`` and ``metrics.prom`` lie in the state folder (a shard's carry its name), and the former
also where ``--return-file`` says. Both hold counts, rules, gates and timings: no value, no name of a
source, no path.
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
from medsanitize.pipeline.runtime.progress import StageTiming
from medsanitize.pipeline.runtime.result import RunResult, describe_error, exit_code, failed_ending
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.pipeline.state.database import State, StateError
from medsanitize.pipeline.state.objects import outcome_totals
from medsanitize.pipeline.state.shards import Shard
from medsanitize.release.atomic_io import reserve_space, storage_errors, write_atomic

RETURN_FILE, METRICS_FILE = "return.json", "metrics.prom"
_OUTCOMES = ("released", "dropped", "quarantined", "pending")
_MAY_BE_REPEATED = 5
_SIGNALS = 128


@dataclass(frozen=True, slots=True)
class Counts:
    """Objects and bytes of a state, by outcome; ``pending`` has none yet."""

    objects: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0))
    rules: dict[str, dict[str, int]] = field(default_factory=lambda: {"dropped": {}, "quarantined": {}})
    source_bytes: int = 0
    released_bytes: int = 0


@dataclass(slots=True)
class ExitReport:
    """One run: what it was asked, how far it came, how it ended.

    ``started`` and ``ended`` are seconds since 1970; ``file`` is a further place for ``return.json``.
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
        """Count what the state holds; a state that cannot be read leaves the counts as they were."""
        with suppress(StateError):
            self.counts = _counts(state)

    @property
    def exit_code(self) -> int:
        """The exit code this run ends with."""
        if self.result is not None and self.error is None:
            return int(self.result.exit_code)
        return int(exit_code(self.error))

    @property
    def ending(self) -> str:
        """The ending of a result, or ``failed`` or ``stopped``."""
        if self.error is not None:
            return failed_ending(self.error)
        return self.result.ending if self.result is not None else "failed"

    def facts(self) -> dict[str, Any]:
        """The content of ``return.json``."""
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
            "may_be_repeated": code == _MAY_BE_REPEATED or code > _SIGNALS,
            "error": told,
            "objects": self.counts.objects,
            "outcomes": self.counts.outcomes,
            **self.counts.rules,
            "bytes": {"source": self.counts.source_bytes, "released": self.counts.released_bytes},
            "gates": [asdict(gate) for gate in gates],
            "stages": [asdict(stage) for stage in self.stages],
            "digest": self.result.digest if self.result else None,
            "started": _instant(self.started),
            "ended": _instant(self.ended or time.time()),
        }

    def metrics(self) -> bytes:
        """The content of ``metrics.prom``."""
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
            ("objects", "Objects found, by outcome.", _by("outcome", counts.outcomes)),
            ("source_bytes", "Bytes of the objects found.", [({}, counts.source_bytes)]),
            ("released_bytes", "Bytes of the objects released.", [({}, counts.released_bytes)]),
            ("dropped_objects", "Objects dropped, by rule.", _by("rule", rules["dropped"])),
            ("quarantined_objects", "Objects in quarantine, by rule.", _by("rule", rules["quarantined"])),
            ("stage_wall_seconds", "Wall time of a stage.", [(of, one.wall_seconds) for of, one in stages]),
            ("stage_cpu_seconds", "CPU time, all processes.", [(of, one.cpu_seconds) for of, one in stages]),
            ("stage_objects", "Objects a stage handled.", [(of, one.objects) for of, one in stages]),
            ("gate", "Result of a gate.", [({"gate": one.name, "result": one.result}, 1) for one in gates]),
        )
        return render(common, families)


def _by(label: str, counts: dict[str, int]) -> list[tuple[dict[str, str], float]]:
    return [({label: name}, count) for name, count in counts.items()]


def _instant(seconds: float) -> str:
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
    """Where a file of the account lies in the state folder."""
    stem, _, suffix = name.rpartition(".")
    return workspace.state / (name if shard is None else f"{stem}.{shard.name}.{suffix}")


@contextmanager
def exit_report_in_state(report: ExitReport, workspace: Workspace, shard: Shard | None) -> Iterator[None]:
    """Write the account into the state folder when the block ends, whatever ends it.

    An account of an earlier run goes at once: whoever finds one knows that it is of the last run. Room for
    the new one is taken then, too, so that a run that fills the disk can tell of it.
    """
    report.workspace, report.shard = workspace, shard
    for name in (RETURN_FILE, METRICS_FILE):
        with storage_errors():
            exit_report_path(workspace, shard, name).unlink(missing_ok=True)
        reserve_space(exit_report_path(workspace, shard, name))
    try:
        yield
        _write(report, workspace, shard)
    except BaseException as error:
        report.error = error
        with suppress(OSError, MedsanitizeError):  # what went wrong matters more
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
    """What ``return.json`` is written from."""
    return (json.dumps(report.facts(), indent=2) + "\n").encode()


@contextmanager
def exit_report_to(file: Path | None) -> Iterator[ExitReport]:
    """An account that is also written to ``file``, where one is given, whatever ends the block."""
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
    """Refuse a further place that lies among the sources or in the release; nothing is written there.

    What an earlier run left at a place that is not refused goes: a run that is killed must not seem to have
    ended as that one did. Room for what this one will say is taken there.

    Raises
    ------
    UsageError
    """
    folders = [root.resolve() for root in roots if isinstance(root, Path)]
    if report.file is not None and any(report.file.resolve().is_relative_to(root) for root in folders):
        report.file = None
        raise UsageError(
            "--return-file lies among the inputs or in the output", "Name a file outside of them"
        )
    if report.file is not None:
        if report.file.is_file():
            with storage_errors():
                report.file.unlink(missing_ok=True)
        reserve_space(report.file)
