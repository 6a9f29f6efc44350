"""Detect a slower release: CPU time of a run relative to pydicom's in the same process.

    python benchmarks/regression.py [--files 200] [--rounds 5] [--history FILE]

Every round reads, touches and writes small files with pydicom and then releases them with one worker; the
ratios of CPU time per file depend little on the machine. Other processes add to them, by emptying caches:
the smallest of the rounds is printed, and the exit code is 1 if one is outside its band. ``--history``
appends them to a file of JSON lines.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import machine, prepare, table
from files import make_small
from medsanitize import __version__
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.load import load
from yardstick import read_touch_write

# Idle machines: 0.07 to 0.11 and 0.20 to 0.28; with eight busy processes on two cores up to 0.14 and 0.31.
BANDS = {"sanitize": (0.03, 0.15), "whole run": (0.08, 0.36)}


def one_round(source: Path, scratch: Path) -> dict[str, float]:
    """Ratios of one round."""
    # Garbage of the previous round would be collected in this one.
    gc.collect()
    yardstick = read_touch_write(source, scratch / "pydicom")
    gc.collect()
    result = run(load(prepare(scratch / "run", source, "ps3.15-basic")), Options(workers=1))
    count = sum(1 for _ in source.iterdir())
    if result.outcomes["released"] != count:
        sys.exit("Not every object was released: the ratios would mislead.")
    cpu = {stage.name: stage.cpu_seconds for stage in result.stages}
    shutil.rmtree(scratch)
    return {"sanitize": cpu["sanitize"] / yardstick, "whole run": sum(cpu.values()) / yardstick}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, judge; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--history", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "export"
        make_small(source, given.files)
        # Imports and caches count in the first round only.
        one_round(source, Path(folder) / "warm-up")
        each = [one_round(source, Path(folder) / str(number)) for number in range(given.rounds)]
    ratios = {name: round(min(one[name] for one in each), 4) for name in BANDS}
    rows = [(name, f"{ratios[name]:.3f}", f"{low} to {high}") for name, (low, high) in BANDS.items()]
    print(table(("CPU of", "times pydicom: read, touch, write", "band"), rows))
    if given.history:
        with given.history.open("a") as file:
            facts = {"version": __version__, "machine": machine(), "files": given.files, **ratios}
            file.write(json.dumps(facts) + "\n")
    outside = [name for name, (low, high) in BANDS.items() if not low <= ratios[name] <= high]
    for name in outside:
        print(f"{name}: outside its band", file=sys.stderr)
    return int(bool(outside))


if __name__ == "__main__":
    sys.exit(main())
