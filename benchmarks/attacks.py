"""Attacks on gradients, members, embeddings and generators: the tables of docs/attack-model.md.

    python benchmarks/attacks.py OUT [--only gradients membership decoder generator]
        [--data phantoms radiographs]

Runs the commands on phantoms and on the COVID-19 Image Data Collection ($MEDSANITIZE_SHARED/data/cxr), prints
their tables, and keeps results as JSON, with pictures, in OUT: they show patients. The generator is trained
first, with the recipe tiny, on the training split of the radiographs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from common import fresh, medsanitize, shared

EPSILON = "8"
# A linear first layer gives the most away: an attack that fails on it is no attack.
PERCEPTRON = ["gradients", "--recipe", "perceptron", "--epsilon", EPSILON]
ATTACKS = {
    "gradients": (
        [
            *PERCEPTRON,
            *(word for size in "1248" for word in ("--batch", size)),
            "--sites",
            "4",
            "--attacked",
            "8",
        ],
        [*PERCEPTRON, "--batch", "16", "--batch", "32", "--sites", "1", "--attacked", "32"],
        [
            *("gradients", "--recipe", "tiny", "--batch", "1", "--batch", "8"),
            *("--sites", "4", "--epsilon", EPSILON, "--attacked", "8"),
        ],
    ),
    "membership": (["membership", "--epsilon", EPSILON],),
    "decoder": (["decoder"], ["decoder", "--known", "phantoms"]),
    "generator": (["generator", "MODEL", "--holdout", "test"],),
}


def images_of(data: str, attack: str) -> list[str]:
    """Options that name the images; none for phantoms."""
    if data == "phantoms":
        return []
    folder = shared() / "data/cxr"
    named = ["--images", str(folder), "--labels", str(folder / "labels.csv")]
    # A generator knows its kind of images.
    kind = [] if attack == "generator" else ["--kind", "radiograph"]
    return named + kind + (["--class", "finding"] if attack != "decoder" else [])


def train(folder: Path) -> Path:
    """Train the attacked generator on the training split of the radiographs."""
    how = ["--kind", "radiograph", "--split", "train", "--recipe", "tiny", "--output", folder / "generator"]
    arguments = ["generator", *images_of("radiographs", "generator"), *how]
    done = medsanitize("train", *arguments, cwd=folder)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return folder / "generator"


def runs(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of each attack."""
    for attack in given.only:
        for data in given.data:
            for number, arguments in enumerate(ATTACKS[attack]):
                # Phantoms: no second attack but on gradients, and no generator.
                if data == "radiographs" or attack == "gradients" or (number == 0 and attack != "generator"):
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
        if "MODEL" in arguments:
            arguments[arguments.index("MODEL")] = str(train(out))
        done = medsanitize("attack", *arguments, "--output", out / name, cwd=out)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr)
        print(f"## {name}, {time.perf_counter() - started:.0f} s\n\n{done.stdout}", flush=True)


if __name__ == "__main__":
    main()
