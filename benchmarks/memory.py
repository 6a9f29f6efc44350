"""Peak memory of a whole release of many tiny objects, for two sizes of export.

    python benchmarks/memory.py OUT [--few 10000] [--many 100000] [--workers 1]

Prints the peak resident size of the largest process of each run, and their ratio. Exits 1 above 1.2.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from common import fresh, machine, run, table
from files import tiny_objects

TARGET = 1.2
CHILD = "import sys; sys.path.insert(0, sys.argv[1]); import memory; memory.measure(*sys.argv[2:])"


def make(folder: Path, count: int) -> None:
    """Write ``count`` tiny objects."""
    made = set()
    for name, data in tiny_objects(count):
        path = folder / name
        if path.parent not in made:
            path.parent.mkdir(parents=True)
            made.add(path.parent)
        path.write_bytes(data)


def measure(out: str, source: str, workers: str) -> None:
    """Release and print objects released and the peak (KB) of the largest process underneath."""
    ran = run(Path(out), Path(source), "ps3.15-basic", workers=int(workers))
    print(len(ran.released()), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def peak(out: Path, source: Path, workers: int) -> tuple[int, int]:
    """Measure in a process of its own, for a peak is never forgotten."""
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(out), str(source), str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"A run failed:\n{done.stderr[-2000:]}")
    released, kilobytes = done.stdout.split()
    return int(released), int(kilobytes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the exports, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(arguments)
    out = fresh(given.out)
    rows, peaks = [], []
    for count in (given.few, given.many):
        make(out / f"export-{count}", count)
        released, kilobytes = peak(out / f"run-{count}", out / f"export-{count}", given.workers)
        rows.append((f"{count:,}", f"{released:,}", f"{kilobytes / 1024:.0f}"))
        peaks.append(kilobytes)
        shutil.rmtree(out / f"export-{count}")
        shutil.rmtree(out / f"run-{count}")
    print(machine() + "\n")
    print(table(("objects", "released", "peak MB, largest process"), rows))
    ratio = peaks[1] / peaks[0]
    print(f"\nratio: {ratio:.2f} (target: at most {TARGET})")
    return int(ratio > TARGET)


if __name__ == "__main__":
    sys.exit(main())
