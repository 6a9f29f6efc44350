"""Train a generator of radiographs, sample it and judge it: wall time, verdict, quality.

    python benchmarks/generator.py OUT --verifier FOLDER --retrieval FOLDER [--recipe cpu-64] [--count 1000]

Learns from the training split of the shared radiographs (`data/cxr`), one class per finding. Of the other
split, patients with at least two images calibrate the gate, and the rest are its holdout. The verifiers must
have learned from other patients, such as those in the OUT of `phantoms.py` (`verifier`, `model`). Review the
contact sheets in OUT/generator.training and OUT/drawn. Exits 1 if training takes more than half an hour.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import fresh, machine, medsanitize, shared, table

MINUTES = 30
LABEL = "finding"


def parted(source: Path, target: Path) -> None:
    """Write the table with the splits that the gate requires."""
    with source.open(newline="") as file:
        rows = list(csv.DictReader(file))
    images = Counter(row["patient_id"] for row in rows)
    with target.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "patient_id", "split", LABEL])
        for row in rows:
            other = "calibration" if images[row["patient_id"]] > 1 else "holdout"
            part = "train" if row["split"] == "train" else other
            writer.writerow([row["file"], row["patient_id"], part, row[LABEL]])


def called(out: Path, *arguments: str | Path, codes: tuple[int, ...] = (0,)) -> tuple[dict[str, Any], float]:
    """Return the JSON output of a command and its wall time in seconds."""
    began = time.perf_counter()
    done = medsanitize(*arguments, "--json", cwd=out)
    if done.returncode not in codes:
        sys.exit(done.stderr or "The command failed.")
    found: dict[str, Any] = json.loads(done.stdout)
    return found, time.perf_counter() - began


def main() -> int:
    """Train, sample, judge, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--verifier", type=Path, required=True)
    parser.add_argument("--retrieval", type=Path, required=True)
    parser.add_argument("--recipe", default="cpu-64")
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    out, images = fresh(given.out), shared() / "data" / "cxr"
    parted(images / "labels.csv", out / "parts.csv")
    asked = ("--images", images, "--labels", out / "parts.csv", "--class", LABEL)
    model = out / "generator"
    learning = ("--split", "train", "--recipe", given.recipe, "--output", model)
    made, trained = called(out, "train", "generator", *asked, *learning, codes=(0, 1))
    print(f"trained in {trained / 60:.1f} min of wall time: {json.dumps(made['counts'])}", flush=True)
    looking = ("--verifier", given.verifier.resolve(), "--retrieval", given.retrieval.resolve())
    rest = ("-n", str(given.count), "--bound", "0.01", "--output", out / "drawn")
    found, drawn = called(out, "synthesize", model, *asked, *looking, *rest, codes=(0, 1, 3))
    (out / "found.json").write_text(json.dumps(found, indent=1, sort_keys=True))
    verdict = found["verdict"]
    rows = [
        ("training, minutes", f"{trained / 60:.1f}"),
        ("drawing and judging, minutes", f"{drawn / 60:.1f}"),
        ("verdict", f"{verdict['state']}: it would take {'; '.join(verdict['needed']) or 'nothing more'}"),
        (
            "images judged, matching, bound of the match rate",
            told(verdict["bound"], "images", "matches", "upper"),
        ),
        ("removed, written", told(found, "removed", "written")),
        *leaves("quality", found["quality"] or {}),
    ]
    print(f"{machine()}\n\n{table((f'{given.recipe}, {given.count} images', ''), rows)}")
    return int(trained > MINUTES * 60)


def told(facts: dict[str, Any], *names: str) -> str:
    """Format some facts as a row."""
    return ", ".join(f"{facts[name]:,.4g}" for name in names)


def leaves(name: str, facts: Any) -> Iterator[tuple[str, str]]:
    """Every number of nested facts, by its path."""
    if isinstance(facts, int | float):
        yield name, f"{facts:.4g}"
    elif isinstance(facts, dict):
        for key in facts:
            yield from leaves(f"{name}, {key}", facts[key])


if __name__ == "__main__":
    sys.exit(main())
