"""Recall and false matches of `medsanitize overlap` on three datasets of phantoms, two of them disjoint.

    python benchmarks/phantoms.py OUT [--train N] [--patients N] [--draws N] [--first 0] [--shared 0.05]
    python benchmarks/phantoms.py OUT --model FOLDER --verifier FOLDER
    python benchmarks/phantoms.py OUT --hardness

Trains a retrieval and a verification model with the default recipes on phantoms of one seed (or takes those
named). Every draw makes a population with another seed: 5 % of the patients of dataset B are in A, another 5
% in C, all with other visits, and A and C share no patient. More shared patients (--shared 0.5) give a more
precise recall. Prints the share of shared patients that are found (recall), the number of other pairs of
patients that match, possible matches included, and the verdicts. Exits 1 if recall is below 0.99, more than
one in a thousand pairs of patients is a false match, or a verdict is wrong.

With --hardness it prints how well the packaged features find phantoms, and exits 1 if they find all or too
few: AUC of 0.95 to 0.9995 for chests; the same glass and the next section linked, others less.
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

RECALL, FALSE = 0.99, 1e-3
MATCHED = ("same_image", "same_patient", "possibly_same_patient")
VISITS = (1, 2)
# Visits between the first ones of A, B and C: no image of a shared patient is in two datasets.
LATER = 5
VERDICTS = {"A-B": "overlapping", "A-C": "exclusive", "B-C": "overlapping"}


@dataclass(frozen=True)
class Draw:
    """Result of one draw: shared patients, those found, false pairs and number of pairs, verdicts."""

    shared: int
    found: int
    false: int
    pairs: int
    result: dict[str, Any]

    @property
    def told(self) -> dict[str, dict[str, Any]]:
        """Comparisons by the letters of their datasets."""
        return dict(zip(VERDICTS, self.result["comparisons"], strict=True))


def trained(out: Path, patients: int) -> tuple[Path, Path]:
    """Train both models on phantoms that occur in no draw."""
    # Seed 1 is used for training only; draws begin at seed 100.
    write_chests(out / "train", range(patients), visits=(2, 3), seed=1)
    table = ("--labels", out / "train" / "labels.csv")
    folders = out / "model", out / "verifier"
    for kind, folder in zip(("retrieval", "verification"), folders, strict=True):
        done = medsanitize("train", kind, "--images", out / "train", *table, "--output", folder, cwd=out)
        if done.returncode != 0:
            sys.exit(f"Training ended with exit code {done.returncode}: {done.stderr[-500:]}")
    return folders


def compared(folder: Path, model: Path, verifier: Path) -> dict[str, Any]:
    """JSON result of `overlap`; its table of pairs remains in ``found``."""
    tables = (f"--labels-{one.lower()}={folder / one / 'labels.csv'}" for one in "ABC")
    where = ("--model", model, "--verifier", verifier, "--output", folder / "found", "--json")
    done = medsanitize("overlap", *(folder / one for one in "ABC"), *tables, *where, cwd=folder)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"The comparison ended with exit code {done.returncode}: {done.stderr[-500:]}")
    result: dict[str, Any] = loads(done.stdout)
    return result


def matches(folder: Path) -> set[tuple[str, str, str]]:
    """Pairs of patients that match, with the pair of datasets."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "pairs.parquet").to_pylist()
    return {
        (row["dataset_a"] + row["dataset_b"], row["patient_a"], row["patient_b"])
        for row in rows
        if row["decision"] in MATCHED
    }


def drawn(out: Path, number: int, patients: int, share: float, model: Path, verifier: Path) -> Draw:
    """Run one draw: make the three datasets and compare them."""
    folder = out / f"draw-{number}"
    shared = max(round(share * patients), 1)
    for place, name in enumerate("ABC"):
        # Neighboring datasets overlap by ``shared`` patients; A and C do not.
        start = place * (patients - shared)
        people = range(start, start + patients)
        write_chests(folder / name, people, visits=VISITS, first=place * LATER, seed=100 + number)
    result = compared(folder, model, verifier)
    named = matches(folder / "found")
    # Patient numbers are the same in all datasets.
    true = {match for match in named if match[1] == match[2]}
    return Draw(2 * shared, len(true), len(named - true), 3 * patients * patients - 2 * shared, result)


def hardness(out: Path) -> int:
    """Print how hard phantoms are for the packaged features; the exit code tells whether hard enough."""
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
    parser.add_argument("--train", type=int, default=300, help="patients to train on")
    parser.add_argument("--patients", type=int, default=200, help="patients in each dataset")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw: each has its people")
    parser.add_argument(
        "--shared", type=float, default=0.05, help="share of B's patients in A, and in C; at most 0.5"
    )
    parser.add_argument("--model", type=Path, help="a retrieval model trained on phantoms of seed 1 before")
    parser.add_argument("--verifier", type=Path, help="the verification model, where --model is given")
    parser.add_argument("--hardness", action="store_true", help="how hard phantoms are, without training")
    options = parser.parse_args()
    if (options.model is None) != (options.verifier is None):
        parser.error("name both models or neither")
    if not 0 < options.shared <= 0.5:
        parser.error("more than half would make A and C share patients")
    out = fresh(options.out)
    if options.hardness:
        sys.exit(hardness(out))
    models = (
        (options.model.resolve(), options.verifier.resolve())
        if options.model
        else trained(out, options.train)
    )
    size, numbers = (options.patients, options.shared), range(options.first, options.first + options.draws)
    sys.exit(judged([drawn(out, number, *size, *models) for number in numbers]))


def judged(draws: list[Draw]) -> int:
    """Print the results of the draws; the exit code tells whether all targets are met."""
    print(machine())
    rows = [
        [number, f"{one.found} of {one.shared}", f"{one.false} of {one.pairs:,}"]
        + [told["verdict"] for told in one.told.values()]
        for number, one in enumerate(draws)
    ]
    print(table(["draw", "shared found", "false pairs", *VERDICTS], rows))
    for told in draws[0].told.values():
        print(told["sentence"])
    print(draws[0].result["comparisons"][0]["thresholds"]["radiograph"])
    recall = sum(one.found for one in draws) / sum(one.shared for one in draws)
    false = sum(one.false for one in draws) / sum(one.pairs for one in draws)
    verdicts = all(one.told[both]["verdict"] == right for one in draws for both, right in VERDICTS.items())
    print(f"recall {recall:.4f}, false pairs {false:.2e}, verdicts {'right' if verdicts else 'wrong'}")
    return int(not (recall >= RECALL and false <= FALSE and verdicts))


if __name__ == "__main__":
    main()
