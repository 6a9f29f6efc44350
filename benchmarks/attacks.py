"""Attacks on gradients, members and embeddings: the tables of docs/attack-model.md.

    python benchmarks/attacks.py OUT [--only gradients membership decoder] [--data phantoms radiographs]

Runs the commands on phantoms and on the COVID-19 Image Data Collection ($MEDSANITIZE_SHARED/data/cxr), prints
their tables, and keeps results as JSON, with pictures, in OUT: they show patients.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from common import fresh, medsanitize, shared

EPSILON = "8"
ATTACKS = {
    "gradients": (
        [
            "gradients",
            "--batch",
            "1",
            "--batch",
            "8",
            "--sites",
            "4",
            "--epsilon",
            EPSILON,
            "--attacked",
            "8",
        ],
    ),
    "membership": (["membership", "--epsilon", EPSILON],),
    "decoder": (["decoder"], ["decoder", "--known", "phantoms"]),
}


def images_of(data: str, attack: str) -> list[str]:
    """Options that name the images; none for phantoms."""
    if data == "phantoms":
        return []
    folder = shared() / "data/cxr"
    named = ["--images", str(folder), "--labels", str(folder / "labels.csv"), "--kind", "radiograph"]
    return named + (["--class", "finding"] if attack != "decoder" else [])


def runs(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of each attack."""
    for attack in given.only:
        for data in given.data:
            for number, arguments in enumerate(ATTACKS[attack]):
                # The demo of phantoms is attacked by other phantoms only.
                if number == 0 or data == "radiographs":
                    yield f"{attack}-{data}-{number}", [*arguments, *images_of(data, attack)]


def main() -> None:
    """Attack and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=sorted(ATTACKS), default=list(ATTACKS))
    parser.add_argument(
        "--data", nargs="+", choices=["phantoms", "radiographs"], default=["phantoms", "radiographs"]
    )
    given = parser.parse_args()
    out = fresh(given.out)
    for name, arguments in runs(given):
        started = time.perf_counter()
        done = medsanitize("attack", *arguments, "--output", out / name, cwd=out)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr)
        print(f"## {name}, {time.perf_counter() - started:.0f} s\n\n{done.stdout}", flush=True)


if __name__ == "__main__":
    main()
