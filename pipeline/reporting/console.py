"""Terminal output: progress on stderr, results on stdout; counts, rules and locations, never values."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from medsanitize.pipeline.reporting.json_log import JsonProgress
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.progress import Progress, StageTiming

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_EVERY_SECONDS = 10.0
_COLORS = {
    "passed": "green",
    "flagged": "yellow",
    "failed": "bold red",
    "not_run": "dim",
    "not_applicable": "dim",
}
_ENDINGS = {
    "published": ("green", "Published"),
    "already_published": ("green", "Already published"),
    "refused": ("red", "Refused: nothing was published"),
    "awaiting_approval": ("yellow", "Awaiting approval: nothing is published yet"),
    "planned": ("cyan", "Plan: nothing was written"),
    "inventory_done": ("cyan", "Inventory taken"),
    "shard_done": ("cyan", "Shard done"),
}
_SUCCESSFUL_ENDINGS = ("published", "already_published", "shard_done")


def progress_for(log_json: bool) -> Progress:
    """Return JSON lines if requested, a bar on a terminal, else a line every ten seconds."""
    if log_json:
        return JsonProgress()
    # A bar in a log file would fill it with control characters.
    return BarProgress() if sys.stderr.isatty() else LineProgress()


class LineProgress:
    """Prints a line to stderr every ten seconds, for logs and schedulers."""

    def __init__(self) -> None:
        self._stage, self._done = "", 0
        self._total: int | None = None
        self._began = self._last = time.monotonic()

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage."""
        self._stage, self._done, self._total = name, 0, total
        self._began = self._last = time.monotonic()

    def advance(self, objects: int) -> None:
        """Count objects as done; prints at most every ten seconds."""
        self._done += objects
        now = time.monotonic()
        if now - self._last >= _EVERY_SECONDS:
            self._last = now
            print(_line(self._stage, self._done, self._total, now - self._began), file=sys.stderr, flush=True)

    def finished(self, timing: StageTiming) -> None:
        """Do nothing: the line of the next stage shows as much."""

    def message(self, text: str) -> None:
        """Print a message."""
        print(text, file=sys.stderr, flush=True)


def _line(stage: str, done: int, total: int | None, seconds: float) -> str:
    rate = done / seconds if seconds > 0 else 0.0
    text = f"{stage}: {done:,}"
    if total is not None:
        left = int((total - done) / rate) if rate > 0 else 0
        return f"{text} of {total:,} ({rate:,.0f}/s, {left // 60}:{left % 60:02d} left)"
    return f"{text} ({rate:,.0f}/s)"


class BarProgress:
    """Shows a bar on stderr with rate and remaining time."""

    def __init__(self) -> None:
        self._bars: Bars | None = None
        self._task: TaskID | None = None

    def _open(self) -> Bars:
        if self._bars is None:
            # Imported here: rich takes longer to import than most commands take to run.
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bars = Progress(
                TextColumn("{task.description:<12}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bars.start()
        return self._bars

    def stage(self, name: str, total: int | None) -> None:
        """Start a stage with a new bar."""
        bars = self._open()
        if self._task is not None:
            bars.remove_task(self._task)
        self._task = bars.add_task(name, total=total, rate="")

    def advance(self, objects: int) -> None:
        """Count objects as done."""
        if self._bars is not None and self._task is not None:
            speed = self._bars.tasks[0].speed
            self._bars.update(self._task, advance=objects, rate=f"{speed:,.0f}/s" if speed else "")

    def finished(self, timing: StageTiming) -> None:
        """Do nothing: the next bar shows as much."""

    def message(self, text: str) -> None:
        """Print a message above the bar."""
        self._open().console.print(text)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
            self._task = None


def close_progress(progress: Progress) -> None:
    """Remove the bar, if there is one."""
    if isinstance(progress, BarProgress):
        progress.close()


# -- results ------------------------------------------------------------------------------


def show_result(result: RunResult, *, title: str = "") -> None:
    """Print the result of a run."""
    from rich.console import Console
    from rich.panel import Panel

    console = Console()
    tone, ending = _ENDINGS[result.ending]
    # Before publication, "released" would claim too much.
    called = {} if result.ending in _SUCCESSFUL_ENDINGS else {"released": "fit for release"}
    counts = ", ".join(f"{count:,} {called.get(name, name)}" for name, count in result.outcomes.items())
    left = result.objects - sum(result.outcomes.values())
    if left:
        counts += f", {left:,} pending"
    console.print(
        Panel(f"[bold {tone}]{ending}[/]\n{result.objects:,} objects: {counts}", title=title or None)
    )
    for name, tallies in (("Dropped, by rule", result.dropped), ("Quarantined, by rule", result.quarantined)):
        _tallies(console, name, tallies)
    _tallies(console, "Attributes changed, by action", result.actions)
    if result.gates:
        _gates(console, result)
    for message in result.messages:
        console.print(message)
    if result.ending == "awaiting_approval":
        console.print("To review it first, create a page: medsanitize review POLICY")
        console.print(f"To publish exactly this, run again with: --approve {result.digest}")
    if result.release is not None:
        # Paths must stay on one line to be copied.
        console.print(f"Release: {result.release}", soft_wrap=True)
    if result.report is not None:
        console.print(f"Internal report, not for publication: {result.report}", soft_wrap=True)


def _tallies(console: Console, name: str, tallies: Mapping[str, int]) -> None:
    from rich.table import Table

    if not any(tallies.values()):
        return
    console.print(f"[bold]{name}[/]")
    table = Table(show_header=False, box=None)
    table.add_column(justify="right")
    table.add_column()
    for rule, count in tallies.items():
        if count:
            table.add_row(f"{count:,}", rule)
    console.print(table)


def _gates(console: Console, result: RunResult) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print("[bold]Gates[/]")
    table = Table(show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column()
    for gate in result.gates:
        verdict = f"[{_COLORS[gate.result]}]{gate.result.replace('_', ' ')}[/]"
        scope = f": looked at {gate.scope}" if gate.scope else ""
        # Below the name, not beside it: a sentence in a fourth of 80 columns is hard to read.
        detail = (f"\n{gate.detail}", "dim") if gate.detail else ""
        table.add_row(verdict, Text.assemble((gate.name, "bold"), scope, detail))
    console.print(table)
