"""Verdicts of overlap on radiographs of patients and places that no model has seen.

    python benchmarks/overlap.py OUT [--draws N] [--part power|left-out]

Needs MEDSANITIZE_SHARED with data/cxr. Learns region matching, the recipe of `train verification`, on the
training split, and for every source (site of the publication) with five patients or more on all others. Two
sides are then drawn again and again from the vectors, and compared by `compare_datasets` as the command does:

- *power*: 50 patients a side, of whom 0, 1, 2 or 5 are in both by other images of theirs;
- *left out*: all patients of a source, in two halves that share nobody, with the calibration of the other
  sources as the stored one.

Exits 1 if more than 1 % of the draws without a shared patient are overlapping, or any of a left-out source.

Two pairs of patient IDs are one person each (they show one picture, or two of one figure), and are merged. Of
two pairs of patients, both images carry the same drawn overlay, which README of the collection names; one
of each pair is left out.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
from common import machine, shared, table
from medsanitize.progress import Cancellation
from medsanitize.verifiers.reid.calibration import Calibration, calibrate
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.region_matching import Matching
from medsanitize.verifiers.reid.overlap.dataset import ImageFile
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, collect_fingerprints
from medsanitize.verifiers.reid.overlap.fingerprint import ImageFingerprint
from medsanitize.verifiers.reid.overlap.models import Models
from medsanitize.verifiers.reid.overlap.overlap import Overlap, compare_datasets
from medsanitize.verifiers.reid.training.train_region_matching import MatchRecipe
from numpy.typing import NDArray

CHEST = Modality.RADIOGRAPH
ONE_PERSON = {"31": "30", "322": "321"}
SAME_OVERLAY = ("296", "298")
TARGETS = (0.01, 0.001)
VERDICTS = ("overlapping", "inconclusive", "exclusive")
RATES = tuple(f"matches at {target:g}, measured / stated" for target in TARGETS)
FEWEST = 5
SIDE = 50
SHARED = (0, 1, 2, 5)
RECIPE = MatchRecipe()
MATCHING = Matching(sum(RECIPE.kept), RECIPE.grid, RECIPE.reach)


@dataclass(frozen=True)
class Collection:
    """The images with their patients, splits and sources."""

    paths: tuple[Path, ...]
    patients: NDArray[np.int64]
    splits: NDArray[Any]
    sources: NDArray[Any]


def collection() -> Collection:
    """Read the table of the images; each path is within the shared folder."""
    root = shared() / "data" / "cxr"
    with (root / "labels.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["patient_id"].lstrip("p0") not in SAME_OVERLAY]
    names = [ONE_PERSON.get(one := row["patient_id"].lstrip("p0"), one) for row in rows]
    sites = [
        "ml-workgroup" if "ml-workgroup" in (at := row["source_url"]) else urlparse(at).netloc for row in rows
    ]
    return Collection(
        tuple(root / row["file"] for row in rows),
        np.unique(names, return_inverse=True)[1].astype(np.int64),
        np.array([row["split"] for row in rows]),
        np.array(sites),
    )


# -- vectors ------------------------------------------------------------------------------


class _Quiet:
    def stage(self, name: str, total: int | None) -> None:
        print(f"{name}: {total}", file=sys.stderr)

    def advance(self, more: int) -> None:
        pass


def feature_maps(images: Collection, out: Path) -> Any:
    """ImageNet features of all images for region matching, cached in ``out``."""
    from medsanitize.verifiers.reid.training.precomputed_features import pooled_maps, preprocessing_for
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

    dataset = TrainingDataset(images.paths, images.patients, CHEST, "cxr")
    return pooled_maps(
        dataset,
        preprocessing_for(CHEST, RECIPE.size),
        RECIPE.groups,
        RECIPE.grid,
        out / "features",
        _Quiet(),  # type: ignore[arg-type]
        Cancellation(),
    )


def raw_matches(maps: Any, train: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.float32]:
    """Raw matches of the chosen images with each other, by cells learned on the training images."""
    import torch
    from medsanitize.verifiers.reid.models.networks.match import LiteMatch
    from medsanitize.verifiers.reid.training.second_order_pooling import learn_cells

    network = LiteMatch(RECIPE.size, RECIPE.groups, RECIPE.kept, RECIPE.grid, RECIPE.reach, 1)
    with torch.no_grad():
        for own, one in zip(network.cells, maps, strict=True):
            learn_cells(own, one[train])  # type: ignore[arg-type]
        cells = network.whitened([one[rows] for one in maps]).flatten(1).numpy()
    # Two columns for cohort statistics, which a raw match does not use.
    vectors = np.hstack([cells, np.zeros((len(cells), 2), np.float32)])
    found = np.zeros((len(rows), len(rows)), np.float32)
    for row in range(len(rows) - 1):
        others = vectors[row + 1 :]
        found[row, row + 1 :] = MATCHING.likeness(np.broadcast_to(vectors[row], others.shape), others)
    return found + found.T


def coarse_vectors(maps: Any, train: NDArray[np.intp]) -> NDArray[np.float32]:
    """The same features on a coarse grid, half whitened by the training images.

    They take the place of a retrieval model: the match decides, a distance makes strict matches stricter.
    """
    import torch
    from medsanitize.verifiers.reid.models.networks.moments import COARSE

    grid = torch.nn.functional.adaptive_avg_pool2d(maps[0], COARSE).flatten(1).double().numpy()
    grid -= grid[train].mean(0)
    _, deviations, directions = np.linalg.svd(grid[train], full_matrices=False)
    kept = min(256, int((deviations > 1e-6 * deviations[0]).sum()))
    found = grid @ directions[:kept].T / (deviations[:kept] / deviations[0]) ** 0.75
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True)
class Known:
    """A verification model that looks the raw match of two images up; an embedding is the image's row."""

    matches: NDArray[np.float32]
    digest: str = "b" * 64
    modality: Modality = CHEST
    dimension: int = 1

    def embed(self, _pictures: Sequence[Any]) -> Any:
        """Never called."""
        raise AssertionError("all images have their embeddings")

    def likeness(self, one: Any, other: Any) -> Any:
        """Raw match."""
        return self.matches[one[:, 0].astype(np.intp), other[:, 0].astype(np.intp)]

    def score(self, one: Any, other: Any) -> Any:
        """Score that rises with the raw match."""
        return (1 / (1 + np.exp(-40 * (self.likeness(one, other) - 0.5)))).astype(np.float32)


def side(
    title: str, rows: NDArray[np.intp], patients: NDArray[np.int64], vectors: NDArray[np.float32]
) -> DatasetFingerprint:
    """The fingerprint of some images, without their files."""
    looks = (
        ImageFingerprint(
            modality=CHEST, embedding=vectors[row], verification_embedding=np.array([row], np.float32)
        )
        for row in rows.tolist()
    )
    files = (ImageFile(Path(), str(row), f"{title}{patients[row]}") for row in rows.tolist())
    return collect_fingerprints(title, zip(files, looks, strict=True), {})


# -- draws --------------------------------------------------------------------------------


def drawn(
    draw: np.random.Generator, patients: NDArray[np.int64], pool: NDArray[np.intp], each: int, both: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of two sides of ``each`` patients, ``both`` of whom are in both by different images."""
    people, counts = np.unique(patients[pool], return_counts=True)
    twice = draw.permutation(people[counts > 1])[:both]
    others = draw.permutation(np.setdiff1d(people, twice))
    alone = each - both
    chosen = (others[:alone], others[alone : 2 * alone])
    sides = [list(pool[np.isin(patients[pool], one)]) for one in chosen]
    for person in twice:
        rows = draw.permutation(pool[patients[pool] == person])
        cut = draw.integers(1, len(rows))
        for part, more in zip(sides, (rows[:cut], rows[cut:]), strict=True):
            part.extend(more)
    return np.array(sides[0]), np.array(sides[1])


def calibration_of(model: Known, rows: NDArray[np.intp], patients: NDArray[np.int64]) -> Calibration:
    """The calibration of the verification model on some images."""
    first, second = (rows[one] for one in np.triu_indices(len(rows), 1))
    scores = model.score(first[:, None], second[:, None])
    return calibrate(scores, patients[first], patients[second])


@dataclass
class Tally:
    """Verdicts of some draws, and pairs of strangers across that match at the targets."""

    verdicts: Counter[str] = field(default_factory=Counter)
    matched: Counter[float] = field(default_factory=Counter)
    expected: Counter[float] = field(default_factory=Counter)

    def add(self, found: Overlap, across: NDArray[np.float64], strangers: NDArray[np.float64]) -> None:
        """Count one draw; the scores are those of pairs of patients."""
        self.verdicts[found.result] += 1
        for target in TARGETS:
            allowed = int(target * len(strangers))
            threshold = np.sort(strangers)[-allowed - 1]
            self.matched[target] += int((across > threshold).sum())
            self.expected[target] += round(1e6 * len(across) * (allowed + 0.5) / (len(strangers) + 1))

    def rate(self, target: float) -> float:
        """Measured matches across, as a multiple of those that strangers within say."""
        return 1e6 * self.matched[target] / max(self.expected[target], 1)


def power(images: Collection, raw: NDArray[np.float32], vectors: NDArray[np.float32], draws: int) -> bool:
    """Print verdicts by number of shared patients; return whether too many are wrong."""
    verifier, wrong = Known(raw), False
    rows = []
    for split in ("train", "test"):
        pool = np.flatnonzero(images.splits == split)
        stored = calibration_of(verifier, np.flatnonzero(images.splits != split), images.patients)
        for both in SHARED:
            tally = Tally()
            begun = time.perf_counter()
            for number in range(draws):
                sides = drawn(np.random.default_rng([number, both]), images.patients, pool, SIDE, both)
                add(tally, sides, images.patients, vectors, verifier, stored)
            rates = [f"{tally.rate(target):.2f}" for target in TARGETS]
            seconds = f"{(time.perf_counter() - begun) / draws:.2f} s"
            rows.append([split, both, *_shares(tally.verdicts), *rates, seconds])
            wrong = wrong or (both == 0 and tally.verdicts["overlapping"] > draws / 100)
            print(*rows[-1], file=sys.stderr)
    print(table(["images", "shared of 50", *VERDICTS, *RATES, "a draw"], rows))
    return wrong


def compared(sides: Sequence[DatasetFingerprint], verifier: Known, stored: Calibration) -> Overlap:
    """Compare as the command does, with a stored calibration."""
    models = Models({CHEST: verifier}, {CHEST: verifier}, scores={CHEST: stored})
    return compare_datasets(*sides, models=models)


def _shares(verdicts: Counter[str]) -> list[str]:
    count = verdicts.total()
    return [f"{verdicts[one] / count:.1%}" for one in VERDICTS]


def left_out(images: Collection, maps: Any, draws: int) -> bool:
    """Print verdicts and rates of each source by models that never saw it; return whether one is wrong."""
    rows, wrong = [], False
    names = [one for one, _ in Counter(images.sources.tolist()).most_common()]
    for name in names:
        here = np.flatnonzero(images.sources == name)
        if len(np.unique(images.patients[here])) < FEWEST:
            continue
        others = np.flatnonzero((images.splits == "train") & (images.sources != name))
        tally = source_draws(images, maps, here, others, draws)
        wrong = wrong or tally.verdicts["overlapping"] > 0
        print(name, tally.verdicts, file=sys.stderr)
        rows.append(
            [
                name or "(unnamed)",
                len(here),
                len(np.unique(images.patients[here])),
                *_shares(tally.verdicts),
                *(f"{tally.rate(target):.2f}" for target in TARGETS),
            ]
        )
    print(table(["source left out", "images", "patients", *VERDICTS, *RATES], rows))
    return wrong


def source_draws(
    images: Collection,
    maps: Any,
    here: NDArray[np.intp],
    others: NDArray[np.intp],
    draws: int,
) -> Tally:
    """Draw two halves of the patients of one source again and again."""
    rows = np.concatenate([here, others])
    raw = np.zeros((len(images.paths),) * 2, np.float32)
    raw[np.ix_(rows, rows)] = raw_matches(maps, others, rows)
    verifier, tally, vectors = Known(raw), Tally(), coarse_vectors(maps, others)
    stored = calibration_of(verifier, others, images.patients)
    people = np.unique(images.patients[here])
    for number in range(draws):
        sides = drawn(np.random.default_rng(number), images.patients, here, len(people) // 2, 0)
        add(tally, sides, images.patients, vectors, verifier, stored)
    return tally


def add(
    tally: Tally,
    sides: tuple[NDArray[np.intp], NDArray[np.intp]],
    patients: NDArray[np.int64],
    vectors: NDArray[np.float32],
    verifier: Known,
    stored: Calibration,
) -> None:
    """Compare two sides, and count the result."""
    made = [side(title, one, patients, vectors) for title, one in zip("AB", sides, strict=True)]
    within = np.concatenate([between(verifier.matches, one, one, patients) for one in sides])
    tally.add(compared(made, verifier, stored), between(verifier.matches, *sides, patients), within)


def between(
    raw: NDArray[np.float32], one: NDArray[np.intp], other: NDArray[np.intp], patients: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Highest match of every two different patients, once each."""
    first, mine = np.unique(patients[one], return_inverse=True)
    second, theirs = np.unique(patients[other], return_inverse=True)
    highest = np.full((len(first), len(second)), -np.inf)
    np.maximum.at(highest, (mine[:, None], theirs[None]), raw[np.ix_(one, other)])
    if one is other:
        return highest[np.triu_indices(len(first), 1)]
    return highest[first[:, None] != second[None]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, draw, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--part", choices=("power", "left-out"), help="Only this part.")
    given = parser.parse_args(arguments)
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    images = collection()
    maps = feature_maps(images, out)
    train = np.flatnonzero(images.splits == "train")
    wrong = False
    if given.part != "left-out":
        cached = out / "matches.npy"
        if not cached.is_file():
            np.save(cached, raw_matches(maps, train, np.arange(len(images.paths))))
        wrong = power(images, np.load(cached), coarse_vectors(maps, train), given.draws)
    if given.part != "power":
        wrong = left_out(images, maps, given.draws) or wrong
    print(f"\n{given.draws} draws each; {machine()}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
