"""Train a generator of radiographs, sample it and judge it: wall time, verdict, quality.

    python benchmarks/generator.py OUT [--recipe cpu-128] [--count 1000] [--model FOLDER]

Of the training split of the shared radiographs (`data/cxr`), every third patient is left to a copy verifier,
and the generator learns from the others, one class per finding: no model learns from a patient of another. Of
the other split, patients with at least two images and every second one with a single image calibrate the
gate; the rest are its holdout. Review the contact sheets in OUT/generator.training and OUT/drawn. With
--model, a generator that an earlier run trained on that split, only the verifier is trained.
Exits 1 if training takes more than an hour, or if the verdict is not `passed`; the reasons are printed.
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

MINUTES = 60
LABEL = "finding"


def parted(source: Path, target: Path) -> None:
    """Write the table with the splits that the gate requires, which share no patient."""
    with source.open(newline="") as file:
        rows = list(csv.DictReader(file))
    images = Counter(row["patient_id"] for row in rows if row["split"] != "train")
    held = set(sorted(patient for patient, count in images.items() if count == 1)[::2])
    left = set(sorted({row["patient_id"] for row in rows if row["split"] == "train"})[::3])
    with target.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "patient_id", "split", LABEL])
        for row in rows:
            other = "holdout" if row["patient_id"] in held else "calibration"
            own = "verifier" if row["patient_id"] in left else "train"
            part = own if row["split"] == "train" else other
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
    parser.add_argument("--recipe", default="cpu-128")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--model", type=Path, help="a generator that an earlier run trained")
    given = parser.parse_args()
    out, images = fresh(given.out), shared() / "data" / "cxr"
    parted(images / "labels.csv", out / "parts.csv")
    asked = ("--images", images, "--labels", out / "parts.csv", "--class", LABEL)
    model, trained = given.model.resolve() if given.model else out / "generator", 0.0
    if not given.model:
        learning = ("--kind", "radiograph", "--split", "train", "--recipe", given.recipe, "--output", model)
        made, trained = called(out, "train", "generator", *asked, *learning, codes=(0, 1))
        print(f"trained in {trained / 60:.1f} min of wall time: {json.dumps(made['counts'])}", flush=True)
    of_verifier = (
        "--kind",
        "radiograph",
        "--split",
        "verifier",
        "--recipe",
        "copies",
        "--output",
        out / "verifier",
    )
    _, verified = called(out, "train", "verification", *asked[:4], *of_verifier, codes=(0, 1))
    rest = ("--verifier", out / "verifier", "-n", str(given.count), "--output", out / "drawn")
    found, drawn = called(out, "synthesize", model, *asked, *rest, codes=(0, 1, 3))
    (out / "found.json").write_text(json.dumps(found, indent=1, sort_keys=True))
    verdict = found["verdict"]
    rows = [
        ("training, minutes", f"{trained / 60:.1f}" if trained else "trained before"),
        ("training of the verifier, minutes", f"{verified / 60:.1f}"),
        ("drawing and judging, minutes", f"{drawn / 60:.1f}"),
        ("verdict", f"{verdict['state']}: it would take {'; '.join(verdict['needed']) or 'nothing more'}"),
        (
            "images judged, matching, bound of matches, bound of copies left",
            told(verdict["bound"], "images", "matches", "upper", "residual")
            if "bound" in verdict
            else "none sampled",
        ),
        ("removed, written", told(found, "removed", "written")),
        *leaves("quality", found["quality"] or {}),
    ]
    print(f"{machine()}\n\n{table((f'{given.recipe}, {given.count} images', ''), rows)}")
    reasons = [f"The training took more than {MINUTES} minutes."] if trained > MINUTES * 60 else []
    if verdict["state"] != "passed":
        reasons += [f"The verdict is {verdict['state']}.", *map(str, verdict.get("needed", ()))]
    print("\n".join(["", *reasons]) if reasons else "\nPassed.")
    return int(bool(reasons))


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
