"""Cost of a release by number of objects and of workers: time, memory, disk; and after a kill.

    python benchmarks/scaling.py OUT [--objects 1000,10000,100000] [--workers 1,2] [--kill 100000]
    python benchmarks/scaling.py OUT --mixed 30,4 [--workers 2]
    python benchmarks/scaling.py OUT --sleeping [--workers 2,4]

Makes exports of small CT objects, a hundred per study, and releases each; one size is also killed at half of
its sanitize stage (kill -9) and resumed. Memory is the resident size of all processes of a run together.
Measurements are stored in OUT/figures.jsonl and not repeated; OUT/scaling.png shows them. Exits 1 if the
memory of ten times as many objects is more than 1.2 times as much, above 100,000 objects, or if resuming
costs 5 % of CPU time: of both parts together relative to a run without a kill, or of the objects sanitized
twice and all until the resumed run has a new one. The default sizes give no verdict on memory, which is
printed: that takes 100,000 and a million (--objects 100000,1000000). Single pairs of runs may differ by more
than 5 %, by system time for the disk: repeat the measurement.

``--mixed`` measures how busy the workers are in the sanitize stage under ``research``: the wall time of their
tasks as a share of workers times wall time of the stage. The export is pydicom's test files, the files in
MEDSANITIZE_SHARED/data/dicom if that is set, and the given numbers of ultrasound images and large radiographs
with text. The same share follows for tasks that sleep, which measures the plan alone on a busy machine: 386
objects of 2, 80 and 800 ms, estimates wrong by a factor of two, as batches of eight in order and by cost.
Exits 1 if the share of a release is below 0.9.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from common import Work, installed, machine, prepare, sleep_through, table
from files import make_mixed, tiny_objects

MEMORY, EXTRA, BUSY = 1.2, 0.05, 0.9
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PART = 100_000
_MEMORY = "Memory"


@dataclass(frozen=True, slots=True)
class Figures:
    """One run. Times in seconds, sizes in bytes; ``again`` counts objects sanitized twice, -1 without a kill.

    ``until`` is the CPU time of the resumed run until its first new object, to the second, and ``resumed``
    the number of objects it sanitized; 0 without a kill.
    """

    objects: int
    workers: int
    killed: bool
    wall: float
    cpu: float
    peak: int
    state: int
    manifest: int
    again: int
    until: float
    resumed: int
    stages: dict[str, float]
    load: float


class Watch(threading.Thread):
    """Samples a process tree: peak memory of all processes together, and their CPU time."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.peak = 0
        self.used: dict[int, int] = {}
        self.stopped = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        while not self.stopped.wait(0.5):
            self.look()

    def look(self) -> None:
        """Take one sample."""
        resident, waiting = 0, [self.process]
        while waiting:
            one = waiting.pop()
            try:
                where = Path("/proc") / str(one)
                # The command name in parentheses may contain spaces and parentheses.
                facts = (where / "stat").read_text().rpartition(")")[2].split()
                # Kept per process, so that the time of ended processes counts (fields utime and stime).
                self.used[one] = int(facts[11]) + int(facts[12])
                resident += int(facts[21]) * PAGE
                tasks = list((where / "task").iterdir())
                waiting += [int(child) for task in tasks for child in (task / "children").read_text().split()]
            except (OSError, IndexError):
                continue  # it has ended meanwhile
        self.peak = max(self.peak, resident)

    @property
    def cpu(self) -> float:
        """CPU seconds of all processes, as last sampled."""
        return sum(self.used.values()) / TICK


@dataclass(frozen=True, slots=True)
class Spent:
    """Resources of one process tree, whether it was killed, and its output otherwise.

    ``reached`` is the CPU time at which the requested progress was first observed.
    """

    wall: float
    cpu: float
    reached: float
    peak: int
    killed: bool
    result: dict[str, Any]


def spend(policy: Path, workers: int, reached: Callable[[], bool], *, kill: bool) -> Spent:
    """Run the command line until ``reached`` (checked every second), then kill -9 or continue to the end."""
    command = [sys.executable, "-m", "medsanitize", "run", policy.name, "--json", "--workers", str(workers)]
    before = time.monotonic()
    with (policy.parent / "run.log").open("wb") as log, (policy.parent / "result.json").open("wb") as out:
        running = subprocess.Popen(command, cwd=policy.parent, env=installed(), stdout=out, stderr=log)
        watch = Watch(running.pid)
        watch.start()
        until = 0.0
        while running.poll() is None:
            try:
                running.wait(1)
            except subprocess.TimeoutExpired:
                if not until and reached():
                    watch.look()
                    # Observed once per second, so the result is precise to a second of CPU time.
                    until = watch.cpu
                    if kill:
                        running.kill()
        watch.stopped.set()
        watch.join()
    wall = time.monotonic() - before
    killed = kill and running.returncode == -signal.SIGKILL
    if running.returncode != 0 and not killed:
        log_text = (policy.parent / "run.log").read_text()[-2000:]
        sys.exit(f"The run ended with exit code {running.returncode}:\n{log_text}")
    result = {} if killed else json.loads((policy.parent / "result.json").read_bytes())
    return Spent(wall, watch.cpu, until, watch.peak, killed, result)


def make(folder: Path, count: int) -> None:
    """Write the export."""
    last = None
    for name, data in tiny_objects(count):
        path = folder / name
        if path.parent != last:
            path.parent.mkdir(parents=True)
            last = path.parent
        path.write_bytes(data)


def sanitized(folder: Path) -> int:
    """Number of objects whose result is in the state."""
    paths = list((folder / "state").glob("*.sqlite"))
    if not paths:
        return 0
    try:
        # Read-only: a second writer could block the run that is measured.
        with sqlite3.connect(f"{paths[0].absolute().as_uri()}?mode=ro", uri=True) as db:
            count = db.execute("SELECT count(*) FROM objects WHERE outcome NOT NULL").fetchone()[0]
        db.close()
    except sqlite3.Error:
        return 0
    return int(count)


def one_run(out: Path, source: Path, objects: int, workers: int, *, kill: bool) -> Figures:
    """Release once; with ``kill``, killed at half of the sanitize stage and resumed."""
    folder = out / "run"
    shutil.rmtree(folder, ignore_errors=True)
    policy, load = prepare(folder, source, "ps3.15-basic"), os.getloadavg()[0]
    spent, again, done = [], -1, objects
    if kill:
        spent.append(spend(policy, workers, lambda: sanitized(folder) >= objects // 2, kill=True))
        if not spent[0].killed:
            sys.exit("The run ended before it could be killed half-way: a larger size takes long enough.")
        # Written but not in the state: those are sanitized again after the kill.
        written = sum(1 for path in (folder / "release").rglob("*.dcm") if path.is_file())
        done = sanitized(folder)
        again = written - done
    spent.append(spend(policy, workers, lambda: kill and sanitized(folder) > done, kill=False))
    if kill and not spent[-1].reached:
        sys.exit("The resumed run ended before it was seen at work: a larger size takes long enough.")
    result = spent[-1].result
    if result["outcomes"]["released"] != objects:
        sys.exit("Not every object was released: the figures would mislead.")
    return Figures(
        objects=objects,
        workers=workers,
        killed=kill,
        wall=sum(one.wall for one in spent),
        cpu=sum(one.cpu for one in spent),
        peak=max(one.peak for one in spent),
        state=size_of(folder / "state"),
        manifest=size_of(folder / "release" / "manifest"),
        again=again,
        until=spent[-1].reached,
        resumed=objects - done,
        stages={stage["name"]: float(stage["cpu_seconds"]) for stage in result["stages"]},
        load=load,
    )


def size_of(folder: Path) -> int:
    """Total size of all files in a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(out: Path, sizes: Sequence[int], workers: Sequence[int], kill: Sequence[int]) -> list[Figures]:
    """Measure what is missing in OUT/figures.jsonl; return everything."""
    kept = out / "figures.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    # Rows of an earlier version of this script have other columns and are measured again.
    known = [Figures(**row) for row in rows if row.keys() == {one.name for one in fields(Figures)}]
    for size in sizes:
        wanted = [(count, False) for count in workers] + [(workers[0], True)] * (size in kill)
        have = {(one.workers, one.killed) for one in known if one.objects == size}
        if have.issuperset(wanted):
            continue
        source = out / f"export-{size}"
        shutil.rmtree(source, ignore_errors=True)
        make(source, size)
        for count, killed in wanted:
            if (count, killed) not in have:
                known.append(one_run(out, source, size, count, kill=killed))
                with kept.open("a") as file:
                    file.write(json.dumps(asdict(known[-1])) + "\n")
        shutil.rmtree(source)
        shutil.rmtree(out / "run")
    return sorted(known, key=lambda one: (one.killed, one.workers, one.objects))


def show(figures: Sequence[Figures]) -> str:
    """Print the table and the cost of a kill."""
    head = (
        "objects",
        "workers",
        "",
        "wall s",
        "CPU s",
        "CPU ms an object",
        "peak MB",
        "state MB",
        "manifest MB",
    )
    rows = [
        (
            *(f"{one.objects:,}", one.workers, "killed at 50 %" if one.killed else "", f"{one.wall:.0f}"),
            *(f"{one.cpu:.0f}", f"{one.cpu / one.objects * 1000:.2f}", f"{one.peak / 2**20:.0f}"),
            *(f"{one.state / 2**20:.1f}", f"{one.manifest / 2**20:.2f}"),
        )
        for one in figures
    ]
    return table(head, rows)


def verdicts(figures: Sequence[Figures]) -> list[tuple[str, bool]]:
    """The targets as sentences, and whether each is met."""
    plain = {(one.workers, one.objects): one for one in figures if not one.killed}
    said = []
    for (workers, size), one in sorted(plain.items()):
        fewer = plain.get((workers, size // 10))
        # Below this size fixed costs dominate, which hides growth.
        if fewer is not None and size > PART:
            ratio = one.peak / fewer.peak
            said.append(
                (f"{_MEMORY} of {size:,} objects: {ratio:.2f} times that of a tenth", ratio <= MEMORY)
            )
    for one in figures:
        whole = plain.get((one.workers, one.objects))
        if one.killed:
            twice = one.until + one.again * one.stages["sanitize"] / one.resumed
            extra = twice / (one.cpu - twice)
            told = f"A kill -9 at half of {one.objects:,}: {one.again} objects sanitized again,"
            told += f" {one.until:.1f} s of CPU until the first new one, {100 * extra:.1f} % together"
            beside = one.cpu / whole.cpu - 1 if whole is not None else 0.0
            told += f"; {100 * beside:+.1f} % CPU beside a run that was not killed" * (whole is not None)
            said.append((told, max(extra, beside) < EXTRA))
    return said


def busy(out: Path, ultrasound: int, radiographs: int, workers: int) -> tuple[int, float, float]:
    """Release a mixed export; return its objects, the wall time of sanitize, and the workers' busy share."""
    from medsanitize.pipeline.run import Options, run
    from medsanitize.pipeline.stages.sanitize import SanitizeStage
    from medsanitize.policies.load import load

    source, folder, stage = out / "export-mixed", out / "mixed", SanitizeStage.run
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    shared = os.environ.get("MEDSANITIZE_SHARED")
    make_mixed(source, ultrasound, radiographs, Path(shared) / "data" / "dicom" if shared else None)
    spent = []

    def timed(self: SanitizeStage, context: Any, advance: Any) -> None:
        before, busy_before = time.monotonic(), context.engine.busy_seconds
        stage(self, context, advance)
        spent.append((time.monotonic() - before, context.engine.busy_seconds - busy_before))

    SanitizeStage.run = timed  # type: ignore[method-assign]
    try:
        result = run(load(prepare(folder, source, "research")), Options(workers=workers))
    finally:
        SanitizeStage.run = stage  # type: ignore[method-assign]
    (wall, inside) = spent[0]
    return sum(result.outcomes.values()), wall, inside / (workers * wall)


def sleeping_table(workers: Sequence[int]) -> str:
    """Print how busy workers are with tasks that sleep."""
    rows = [
        (count, seed, *(f"{100 * share:.1f}" for share in sleeping(count, seed)))
        for count in workers
        for seed in range(3)
    ]
    return table(("workers", "seed", "batches of eight in order: busy, %", "by cost: busy, %"), rows)


class Sleepers:
    """Makes workers that have nothing to set up."""

    def worker(self) -> object:
        """Return any object."""
        return object()


def sleeping(workers: int, seed: int) -> tuple[float, float]:
    """Return how busy workers are with tasks that sleep: batches of eight in order, and batches by cost."""
    from medsanitize.pipeline.engines.base import LocalEngine, batches
    from medsanitize.pipeline.stages.batch_plan import large_cost, plan_batches
    from medsanitize.progress import Cancellation

    rng, works = np.random.default_rng(seed), []
    for count, usual in ((330, 0.002), (50, 0.08), (6, 0.8)):
        for seconds in [usual * float(rng.lognormal(0, 0.5)) for _ in range(count)]:
            works.append(Work(seconds * float(rng.lognormal(0, 0.7)), seconds))
    works = [works[place] for place in rng.permutation(len(works))]
    total = sum(one.cost for one in works)
    large = large_cost(total, workers)
    first = sorted((one for one in works if one.cost >= large), key=lambda one: -one.cost)
    planned = plan_batches([*first, *(one for one in works if one.cost < large)], total, workers)
    shares = []
    with LocalEngine(Sleepers(), workers, Cancellation()) as engine:
        # Until every process has started.
        sum(engine.map(sleep_through, [[Work(0, 0.3)]] * 4 * workers, isolate=True))  # type: ignore[arg-type]
        for plan, ordered in ((batches(iter(works), 8), True), (planned, False)):
            before, busy_before = time.monotonic(), engine.busy_seconds
            for _ in engine.map(sleep_through, plan, isolate=True, ordered=ordered):
                pass
            shares.append((engine.busy_seconds - busy_before) / (workers * (time.monotonic() - before)))
    return shares[0], shares[1]


def plot(figures: Sequence[Figures], path: Path) -> None:
    """Plot cost per object, memory and disk against the number of objects."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for workers in sorted({one.workers for one in figures}):
        some = [one for one in figures if one.workers == workers and not one.killed]
        sizes, name = [one.objects for one in some], f"{workers} worker{'s' * (workers > 1)}"
        axes[0].plot(sizes, [one.cpu / one.objects * 1000 for one in some], "o-", label=f"CPU, {name}")
        axes[0].plot(sizes, [one.wall / one.objects * 1000 for one in some], "o--", label=f"wall, {name}")
        axes[1].plot(sizes, [one.peak / 2**20 for one in some], "o-", label=name)
        if workers == 1:
            axes[2].plot(sizes, [one.state / one.objects for one in some], "o-", label="state")
            axes[2].plot(sizes, [one.manifest / one.objects for one in some], "o-", label="manifest")
    titles = ("ms an object, start-up included", "peak MB, all processes", "bytes an object on disk")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xscale="log", xlabel="objects", title=title, ylim=(0, None))
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set_yscale("log")
    drawn.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, plot; return the exit code."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",") if part]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--objects", type=numbers, default=[1000, 10_000, 100_000])
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--kill", type=numbers, default=[100_000], help="sizes to be killed half-way as well")
    parser.add_argument("--mixed", type=numbers, help="ultrasound images and radiographs of a mixed export")
    parser.add_argument("--sleeping", action="store_true", help="only tasks that sleep")
    given = parser.parse_args(arguments)
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if given.sleeping:
        print(sleeping_table(given.workers))
        return 0
    if given.mixed:
        count, wall, share = busy(out, *given.mixed, max(given.workers))
        print(f"{machine()}; load {os.getloadavg()[0]:.1f} at the end\n")
        print(f"{count} objects, sanitize {wall:.0f} s, workers busy {100 * share:.1f} % of it\n")
        print(sleeping_table(given.workers))
        return int(share < BUSY)
    figures = measure(out, given.objects, given.workers, given.kill)
    plot(figures, out / "scaling.png")
    print(machine() + "\n\n" + show(figures) + "\n")
    said = verdicts(figures)
    if not any(told.startswith(_MEMORY) for told, _ in said):
        print(f"{_MEMORY}: not compared; --objects {PART},{10 * PART} does")
    for told, kept in said:
        print(f"{told}: {'as wanted' if kept else 'TOO MUCH'}")
    return int(not all(kept for _, kept in said))


if __name__ == "__main__":
    sys.exit(main())
