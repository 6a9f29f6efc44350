"""Image-based linkage of slides: the pairs of bench/wsi, by relation of the two slides.

    python benchmarks/linkage.py OUT [--seeds N]

Makes the pairs of bench/wsi (six cases per seed), gives the attacker the base slide of every case, and
attacks with a rescan of it, a consecutive section and a distant section, each with `medsanitize attack
linkage` and the packaged features. Prints Rs of whole slides and central crops. Exits 1 if rescans or
consecutive sections are linked less than 0.95, or distant sections equally often.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import fresh, machine, medsanitize, script, shared, table

KINDS = {
    "rescan": "the same slide on another scanner",
    "consecutive": "the next section of the block",
    "distant": "a distant section of the block",
}
MUST_LINK = ("rescan", "consecutive")
GOAL = 0.95


def make(out: Path, seeds: int) -> Path:
    """Make all pairs in one folder, and a table per kind of slide: file, patient_id."""
    slides = out / "slides"
    slides.mkdir()
    rows: dict[str, list[tuple[str, str]]] = {}
    for seed in range(seeds):
        made = out / f"made-{seed}"
        options = ("--only", "generic", "--pairs", "--seed", str(7 + seed))
        script(shared() / "bench" / "wsi" / "make_slides.py", made, *options)
        for one in json.loads((made / "pairs" / "pairs.json").read_text()):
            name = f"{seed}-{one['file']}"
            shutil.move(made / "pairs" / one["file"], slides / name)
            rows.setdefault(one["kind"], []).append((name, f"{seed}-{one['case']}"))
        # Only the pairs are used; the slides of all seeds would fill the disk.
        shutil.rmtree(made)
    for kind, files in rows.items():
        with (out / f"{kind}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("file", "patient_id"), *files])
    return slides


def attacked(out: Path, slides: Path, kind: str) -> dict[str, Any]:
    """Result of `attack linkage` of one kind against the base slides."""
    tables = ("--labels", out / f"{kind}.csv", "--background-labels", out / "base.csv")
    done = medsanitize("attack", "linkage", slides, "--background", slides, *tables, "--json", cwd=out)
    if done.returncode != 0:
        sys.exit(
            f"The attack ended with exit code {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
        )
    return dict(json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make, attack, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(arguments)
    out = fresh(given.out)
    slides = make(out, given.seeds)
    found = {kind: attacked(out, slides, kind) for kind in KINDS}
    rows = [
        (
            KINDS[kind],
            one["whole"]["rs"]["of"],
            *(
                f"{rs['share']:.2f} (at least {rs['lower']:.2f}, at most {rs['upper']:.2f})"
                for rs in (one["whole"]["rs"], one["crop"]["rs"])
            ),
        )
        for kind, one in found.items()
    ]
    print(table(("probe", "patients", "Rs, whole slides", "Rs, central crops"), rows))
    print(f"\n{machine()}; {found['rescan']['model']}.")
    rates = {kind: one["whole"]["rs"]["share"] for kind, one in found.items()}
    linked = all(rates[kind] >= GOAL for kind in MUST_LINK)
    return int(not linked or rates["distant"] >= min(rates[kind] for kind in MUST_LINK))


if __name__ == "__main__":
    sys.exit(main())
