"""CPU time by file, side by side in one run: copying, hashing, pydicom, and a whole release.

    python benchmarks/speed.py OUT [--small 2000] [--big 20] [--rounds 3]

Makes its own files. Figures are medians over the rounds, in milliseconds of CPU a file, start-up
left out; ratios are to "pydicom: read, touch every value, write" for small files and to
"cp + sha256sum" for large ones.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import Ran, fresh, machine, run, table
from files import make_big, make_small

TOUCH = """
import sys, time, warnings
from pathlib import Path
import pydicom
warnings.simplefilter("ignore")
source, target = map(Path, sys.argv[1:])
target.mkdir(parents=True)
paths = sorted(source.iterdir())
def touch(data_set):
    for element in data_set:
        if element.VR == "SQ":
            for item in element.value:
                touch(item)
        else:
            element.value
def one(path):
    data_set = pydicom.dcmread(path)
    touch(data_set)
    data_set.save_as(target / path.name)
one(paths[0])
before = time.process_time()
for path in paths:
    one(path)
print(time.process_time() - before)
"""


def children_cpu(work: Callable[[], object]) -> float:
    """CPU seconds that child processes used during ``work``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tool(*command: str | Path) -> Callable[[], object]:
    """A system program, its output thrown away."""
    return lambda: subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def pydicom_cpu(source: Path, target: Path) -> float:
    """CPU seconds of reading, touching and writing every file, start-up left out."""
    done = subprocess.run(
        [sys.executable, "-c", TOUCH, str(source), str(target)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def release(out: Path, source: Path, workers: int) -> tuple[Ran, float]:
    """One whole release and its wall seconds, start-up left out."""
    before = time.monotonic()
    ran = run(out, source, "ps3.15-basic", workers=workers)
    wall = time.monotonic() - before
    staged = [stage["wall_seconds"] for stage in ran.result["stages"]]
    return ran, sum(staged) or wall


def stage_cpu(ran: Ran) -> dict[str, float]:
    """CPU seconds by stage."""
    return {stage["name"]: float(stage["cpu_seconds"]) for stage in ran.result["stages"]}


def one_round(source: Path, scratch: Path) -> dict[str, float]:
    """Measure everything once; CPU seconds by name."""
    files = sorted(source.iterdir())
    scratch.mkdir()
    seconds = {
        "cp": children_cpu(tool("cp", "-r", source, scratch / "cp")),
        "sha256sum": children_cpu(tool("sha256sum", *files)),
        "pydicom: read, touch, write": pydicom_cpu(source, scratch / "pydicom"),
    }
    seconds["cp + sha256sum"] = seconds["cp"] + seconds["sha256sum"]
    one, wall_one = release(scratch / "one", source, 1)
    two, wall_two = release(scratch / "two", source, 2)
    stages = stage_cpu(one)
    seconds |= {f"medsanitize: {name}": cpu for name, cpu in stages.items()}
    seconds["medsanitize: whole run"] = sum(stages.values())
    seconds["wall, 1 worker"], seconds["wall, 2 workers"] = wall_one, wall_two
    check_released(one, len(files))
    check_released(two, len(files))
    shutil.rmtree(scratch)
    return seconds


def check_released(ran: Ran, count: int) -> None:
    """Refuse to publish figures of a run that did not release what it was given."""
    if len(ran.released()) != count:
        sys.exit(f"Only {len(ran.released())} of {count} objects were released: the figures would mislead.")


def measured(source: Path, out: Path, rounds: int) -> dict[str, float]:
    """Medians over the rounds, in milliseconds a file."""
    count = sum(1 for _ in source.iterdir())
    each = [one_round(source, out / f"round-{number}") for number in range(rounds)]
    return {name: statistics.median(one[name] for one in each) / count * 1000 for name in each[0]}


def show(title: str, figures: dict[str, float], yardstick: str) -> str:
    """A Markdown section with the figures and their ratios."""
    rows: list[tuple[Any, ...]] = [
        (name, f"{value:.3f}", f"{value / figures[yardstick]:.3f}")
        for name, value in figures.items()
        if not name.startswith("wall")
    ]
    gain = figures["wall, 1 worker"] / figures["wall, 2 workers"]
    return (
        f"### {title}\n\n"
        + table(("what", "CPU ms a file", f"ratio to {yardstick}"), rows)
        + f"\n\nTwo workers: {gain:.2f} times one (wall time of the stages).\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the files, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--small", type=int, default=2000, help="number of small files (0: none)")
    parser.add_argument("--big", type=int, default=20, help="number of large files (0: none)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    out = fresh(given.out)
    print(f"{machine()}; load {os.getloadavg()[0]:.1f} at the start\n")
    if given.small:
        make_small(out / "small", given.small)
        figures = measured(out / "small", out, given.rounds)
        print(show(f"{given.small} small files (39 KB)", figures, "pydicom: read, touch, write"))
    if given.big:
        make_big(out / "big", given.big)
        figures = measured(out / "big", out, given.rounds)
        print(show(f"{given.big} large files (15.7 MB, a fifth under RLE)", figures, "cp + sha256sum"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
