"""Planted copies: how many a copy verifier finds, and how many images of strangers it would remove.

    python benchmarks/gate.py VERIFIER [--sizes 64 128 256] [--patients 100] [--calibrating 60] [--draws 50]

VERIFIER is a folder of `medsanitize train verification --recipe copies` (or of another recipe), trained on
the training split of the shared radiographs (`data/cxr`). Of the test split, whose patients it never saw,
one image per patient is disguised by every control but those through a generator. Per draw, some patients
calibrate: the threshold is the lowest score of their copies over all kinds (no score below it, r = 0). The
other patients are the training patients of a generator. Measured: their copies that are found, the real
images of these patients that match one of the others (strangers: the best honest generator there can be),
and the same at thresholds for fixed false match rates of pairs. Then planted leaks: a share of 1,000 images
are such copies, the others are strangers' images; the bound on what is left after removal must not be met
with more copies left than it says.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import machine, shared, table
from medsanitize.generators.diffusion.preprocess import preprocess_image
from medsanitize.generators.privacy_gate.candidate_search import score_pairs
from medsanitize.generators.privacy_gate.confidence_bounds import bound
from medsanitize.generators.privacy_gate.gate_embeddings import PairedEmbeddings, Verifiers
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.alterations.composites import others_of
from medsanitize.verifiers.reid.alterations.kinds import ALTERED, JOINED
from medsanitize.verifiers.reid.calibration import clopper_pearson
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.read import read_image
from medsanitize.verifiers.reid.models.load import open_verification
from medsanitize.verifiers.reid.models.protocols import Verification
from numpy.typing import NDArray

RATES = (0.01, 0.001)
LEAKS = (0.01, 0.05)
IMAGES = 1000
PLANTED_DRAWS = 200
# Largest share of copies that may be left among the images that pass.
RESIDUAL = 0.001
# One-sided, for a miss rate and a match rate that hold together at 95 %.
CONFIDENCE = 0.975


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores at one size.

    Attributes
    ----------
    copies
        Score of each patient's copy with its original, by kind.
    pairs
        Scores of the first image of every patient with that of every other; -inf with itself.
    """

    copies: dict[str, NDArray[np.float64]]
    pairs: NDArray[np.float64]


def first_images(size: int, patients: int) -> NDArray[np.uint8]:
    """One image of each test patient at this size."""
    folder = shared() / "data" / "cxr"
    with (folder / "labels.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "test"]
    files = {row["patient_id"]: row["file"] for row in reversed(rows)}
    chosen = sorted(files.items())[:patients]
    return np.stack(
        [preprocess_image(read_image(folder / file, kind=Modality.RADIOGRAPH), size) for _, file in chosen]
    )


def scored(model: Verification, squares: NDArray[np.uint8]) -> Scored:
    """Score copies of all kinds and all pairs, as the gate does."""
    verifiers = Verifiers(_NoSearch(model), model, NoProgress(), Cancellation())
    seen = verifiers.see(squares, "")
    rows = np.arange(len(squares), dtype=np.int64)
    others = squares[others_of(rows)]
    made = {name: alter(squares) for name, alter in ALTERED.items()}
    made |= {name: join(squares, others) for name, join in JOINED.items()}
    copies = {}
    for name, images in made.items():
        copied: PairedEmbeddings = verifiers.see(images, "")
        copies[name] = score_pairs(copied, rows, seen, rows, verifiers)
    first, second = (one.reshape(-1) for one in np.meshgrid(rows, rows, indexing="ij"))
    pairs = score_pairs(seen, first, seen, second, verifiers).reshape(len(rows), -1)
    np.fill_diagonal(pairs, -np.inf)
    return Scored(copies, pairs)


@dataclass(frozen=True, slots=True)
class _NoSearch:
    """A retrieval model that is not needed: all pairs are scored."""

    model: Verification

    @property
    def dimension(self) -> int:
        """No numbers."""
        return 0

    def embed(self, pictures: list[object]) -> NDArray[np.float32]:
        """Embed nothing."""
        return np.empty((len(pictures), 0), np.float32)


def interval(errors: float, of: int) -> str:
    """A share with its exact two-sided 95 % bounds."""
    count = round(errors * of)
    low, high = (clopper_pearson(count, of, 0.975)[side] for side in (0, 1))
    return f"{errors:.1%} ({low:.1%} to {high:.1%})"


def found_table(found: Scored, calibrating: int, draws: int) -> list[tuple[str, ...]]:
    """Rows: share of copies found by kind, at tau and at fixed rates; last the strangers removed."""
    count = len(found.pairs)
    draw = np.random.default_rng(0)
    at_tau: dict[str, list[float]] = {name: [] for name in found.copies}
    removed = []
    for _ in range(draws):
        order = draw.permutation(count)
        own, rest = order[:calibrating], order[calibrating:]
        limit = min(float(scores[own].min()) for scores in found.copies.values())
        for name, scores in found.copies.items():
            at_tau[name].append(float((scores[rest] >= limit).mean()))
        removed.append(float((found.pairs[np.ix_(rest, rest)].max(1) >= limit).mean()))
    strangers = found.pairs[~np.eye(count, dtype=bool)]
    limits = [float(np.quantile(strangers, 1 - rate)) for rate in RATES]
    rows = [
        (
            name,
            interval(float(np.mean(at_tau[name])), count - calibrating),
            *(interval(float((scores >= limit).mean()), count) for limit in limits),
        )
        for name, scores in found.copies.items()
    ]
    rates = (interval(float((found.pairs.max(1) >= limit).mean()), count) for limit in limits)
    rows.append(("strangers removed", interval(float(np.mean(removed)), count - calibrating), *rates))
    return rows


def leaks(found: Scored, calibrating: int) -> list[tuple[str, ...]]:
    """Rows: draws of a leaking generator in which the bound is met, and those in which it is wrong."""
    count, draw = len(found.pairs), np.random.default_rng(1)
    kinds = sorted(found.copies)
    rows = []
    for share in LEAKS:
        met = wrong = 0
        for _ in range(PLANTED_DRAWS):
            order = draw.permutation(count)
            own, rest = order[:calibrating], order[calibrating:]
            limit = min(float(found.copies[name][own].min()) for name in kinds)
            strangers = found.pairs[np.ix_(rest, rest)].max(1)
            copied = int(draw.binomial(IMAGES, share))
            kind, who = draw.integers(len(kinds), size=copied), draw.choice(rest, copied)
            copies = np.array([found.copies[kinds[k]][w] for k, w in zip(kind, who, strict=True)])
            honest = draw.choice(strangers, IMAGES - copied)
            matches = int((copies >= limit).sum() + (honest >= limit).sum())
            missed = clopper_pearson(0, calibrating, CONFIDENCE)[1]
            passed = bound(IMAGES, matches, missed, CONFIDENCE).residual <= RESIDUAL
            met += passed
            wrong += passed and (copies < limit).sum() > RESIDUAL * (IMAGES - matches)
        rows.append((f"{share:.0%}", f"{met} of {PLANTED_DRAWS}", f"{wrong} of {PLANTED_DRAWS}"))
    return rows


def main() -> int:
    """Embed, score, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verifier", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--patients", type=int, default=100)
    parser.add_argument("--calibrating", type=int, default=60)
    parser.add_argument("--draws", type=int, default=50)
    given = parser.parse_args()
    model = open_verification(given.verifier)
    print(machine())
    for size in given.sizes:
        began = time.perf_counter()
        found = scored(model, first_images(size, given.patients))
        head = (f"{size} px, {given.patients} patients", "at tau", *(f"FMR {rate:.1%}" for rate in RATES))
        print(f"\n{table(head, found_table(found, given.calibrating, given.draws))}")
        head = ("copies among the images", "bound met", "bound met, and more copies left than it says")
        print(f"\n{table(head, leaks(found, given.calibrating))}")
        print(f"\n{time.perf_counter() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
