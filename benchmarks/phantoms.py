"""Patients in two datasets of phantoms, found by `medsanitize overlap`; an exclusive pair called exclusive.

    python benchmarks/phantoms.py OUT [--train N] [--patients N] [--draws N] [--model FOLDER]
    python benchmarks/phantoms.py OUT --hardness

Trains a retrieval model with the default recipe on phantoms of one seed (or takes the one named). Every draw
makes people of another seed: dataset A, dataset B with 5 % of its patients from A at later visits, and
dataset C with none. Prints how many of the shared patients the pairs of A and B name (recall), how many
other pairs of patients they name, and the verdicts. Exits 1 when recall is below 0.99, more than one in a
thousand pairs of patients is false, or a verdict is wrong.

With --hardness it prints instead how well the packaged features find phantoms, and exits 1 when they find
all or too few: AUC of 0.95 to 0.9995 for chests; the same glass and the next section linked, others less.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any

from common import fresh, machine, medsanitize, table
from medsanitize.generators.phantoms.cohorts import write_chests, write_slides

SHARED = 0.05
RECALL, FALSE = 0.99, 1e-3
MATCHED = ("same image", "same patient")
VISITS = (1, 3)
LATER = 5
"""Number of the first visit in dataset B and C: no image of a shared patient is the same."""


@dataclass(frozen=True)
class Draw:
    """What became of one draw: shared patients, those found, false pairs of so many, and both verdicts."""

    shared: int
    found: int
    false: int
    pairs: int
    overlapping: dict[str, Any]
    exclusive: dict[str, Any]


def trained(out: Path, patients: int) -> Path:
    """A model trained on phantoms that no draw shows again."""
    write_chests(out / "train", range(patients), visits=(2, 4), seed=1)
    options = ("--labels", out / "train" / "labels.csv", "--output", out / "model")
    done = medsanitize("train", "retrieval", "--images", out / "train", *options, cwd=out)
    if done.returncode != 0:
        sys.exit(f"Training ended with exit code {done.returncode}: {done.stderr[-500:]}")
    return out / "model"


def compared(folder: Path, one: str, other: str, model: Path) -> dict[str, Any]:
    """The result of `overlap` as it stands in JSON; its table of pairs stays in ``one-other``."""
    tables = ("--labels-a", folder / one / "labels.csv", "--labels-b", folder / other / "labels.csv")
    where = ("--model", model, "--output", folder / f"{one}-{other}", "--json")
    done = medsanitize("overlap", folder / one, folder / other, *tables, *where, cwd=folder)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"The comparison ended with exit code {done.returncode}: {done.stderr[-500:]}")
    result: dict[str, Any] = loads(done.stdout)
    return result


def matches(folder: Path) -> set[tuple[str, str]]:
    """Pairs of patients that are called one."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "pairs.parquet").to_pylist()
    return {(row["patient_a"], row["patient_b"]) for row in rows if row["decision"] in MATCHED}


def drawn(out: Path, number: int, patients: int, model: Path) -> Draw:
    """One draw: make the three datasets and compare A with both others."""
    folder = out / f"draw-{number}"
    shared = max(round(SHARED * patients), 1)
    later = range(patients - shared, 2 * patients - shared)
    apart = range(2 * patients, 3 * patients)
    seed = 100 + number
    write_chests(folder / "A", range(patients), visits=VISITS, seed=seed)
    write_chests(folder / "B", later, visits=VISITS, first=LATER, seed=seed)
    write_chests(folder / "C", apart, visits=VISITS, first=LATER, seed=seed)
    overlapping, exclusive = (compared(folder, "A", other, model) for other in "BC")
    named = matches(folder / "A-B")
    true = {(one, other) for one, other in named if one == other}
    return Draw(
        shared=shared,
        found=len(true),
        false=len(named - true),
        pairs=patients * patients - shared,
        overlapping=overlapping,
        exclusive=exclusive,
    )


def hardness(out: Path) -> int:
    """Print how hard phantoms are for the packaged features; the exit code says whether hard enough."""
    write_chests(out / "chests", range(100), visits=(2, 3), seed=5)
    options = ("--images", out / "chests", "--labels", out / "chests" / "labels.csv", "--json")
    done = medsanitize("evaluate", *options, cwd=out)
    found: dict[str, Any] = loads(done.stdout)
    auc, nearest = found["verification"]["auc"], found["retrieval"]["precision_at_1"]
    print(f"{machine()}\nchests: AUC {auc:.3f}, P@1 {nearest:.3f}")
    scans = {"another scanner": (0, 1), "next section": (1, 0), "section 8": (8, 0), "section 20": (20, 0)}
    write_slides(out / "base", range(40), sections=(0,), seed=5)
    rates = {}
    for name, (section, scanned) in scans.items():
        folder = out / name.replace(" ", "-")
        write_slides(folder, range(40), sections=(section,), scanners=(scanned,), seed=5)
        done = medsanitize("attack", "linkage", folder, "--background", out / "base", "--json", cwd=out)
        rates[name] = loads(done.stdout)["whole"]["rs"]["share"]
    print(table(["probe", "Rs of 40 patients"], [[name, f"{rate:.2f}"] for name, rate in rates.items()]))
    near = min(rates["another scanner"], rates["next section"])
    return int(not (0.95 <= auc <= 0.9995 and near >= 0.95 > rates["section 20"]))


def main() -> None:
    """Parse, train, draw, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=int, default=450, help="patients to train on")
    parser.add_argument("--patients", type=int, default=200, help="patients in each dataset")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--model", type=Path, help="a model trained on phantoms of seed 1 before")
    parser.add_argument("--hardness", action="store_true", help="how hard phantoms are, without training")
    options = parser.parse_args()
    out = fresh(options.out)
    if options.hardness:
        sys.exit(hardness(out))
    model = options.model.resolve() if options.model else trained(out, options.train)
    draws = [drawn(out, number, options.patients, model) for number in range(options.draws)]
    print(machine())
    rows = [
        [
            str(number),
            f"{one.found} of {one.shared}",
            f"{one.false} of {one.pairs:,}",
            one.overlapping["verdict"],
            one.exclusive["verdict"],
        ]
        for number, one in enumerate(draws)
    ]
    print(table(["draw", "shared found", "false pairs", "A and B", "A and C"], rows))
    print(draws[0].overlapping["comparisons"][0]["sentence"])
    print(draws[0].exclusive["comparisons"][0]["sentence"])
    recall = sum(one.found for one in draws) / sum(one.shared for one in draws)
    false = sum(one.false for one in draws) / sum(one.pairs for one in draws)
    verdicts = all(
        (one.overlapping["verdict"], one.exclusive["verdict"]) == ("overlapping", "exclusive")
        for one in draws
    )
    print(f"recall {recall:.4f}, false pairs {false:.2e}, verdicts {'right' if verdicts else 'wrong'}")
    sys.exit(0 if recall >= RECALL and false <= FALSE and verdicts else 1)


if __name__ == "__main__":
    main()
