"""The images a model learns from: readable, of one modality, and of patients known by number alone."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from medsanitize.errors import UnreadablePicture, UsageError
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.images.read import read_image
from medsanitize.verifiers.reid.labels import Labels
from numpy.typing import NDArray

UNREADABLE = "image not readable"
OTHER_MODALITY = "of another modality than most"
# As large a share as the validation part of ChestX-ray14 is of its training data.
VALIDATION_SHARE = 0.15
FEWEST = 4
AT_ONCE = 64


class TrainingProgress(Protocol):
    """Hears of stages and counts; never of names or values."""

    def stage(self, name: str, total: int | None) -> None:
        """A stage begins; ``total`` steps are ahead where that is known."""

    def advance(self, objects: int) -> None:
        """So many more steps are done."""

    def message(self, text: str) -> None:
        """Something the person at the terminal should know."""


class Cancellation(Protocol):
    """Knows whether a signal asked the work to stop."""

    number: int

    def check(self) -> None:
        """Raise if a signal arrived."""


@dataclass(frozen=True, slots=True)
class TrainingDataset:
    """Images of one modality with their patients.

    Attributes
    ----------
    paths
        One file an image, read when it is asked for.
    patients
        Number of each image's patient, ``(n,)`` int64; equal numbers are one patient.
    modality
        Of all of them.
    digest
        SHA-256 over the sorted digests of the files and nothing else.
    """

    paths: tuple[Path, ...]
    patients: NDArray[np.int64]
    modality: Modality
    digest: str

    def __len__(self) -> int:
        return len(self.paths)

    def picture(self, place: int) -> ImageArray:
        """Read one image."""
        return read_image(self.paths[place])

    def part(self, places: NDArray[np.intp]) -> TrainingDataset:
        """Those at some places; the digest stays that of all."""
        paths = tuple(self.paths[int(place)] for place in places)
        return TrainingDataset(paths, self.patients[places], self.modality, self.digest)

    def mates(self) -> NDArray[np.bool_]:
        """Which images have another of the same patient, ``(n,)``."""
        _, inverse, counts = np.unique(self.patients, return_inverse=True, return_counts=True)
        return np.asarray(counts[inverse] > 1)


def gather_images(
    labels: Labels, hears: TrainingProgress, stops: Cancellation
) -> tuple[TrainingDataset, Mapping[str, int]]:
    """Read every image once; those that cannot be used are counted by reason, with the table's own.

    The modality is that of most images. Numbers of patients follow the order of the table.
    """
    hears.stage("read images", len(labels))
    kinds: list[Modality | None] = []
    digests: list[str] = []
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        # In turns, so that a signal is heard soon and few decoded images wait.
        for start in range(0, len(labels), AT_ONCE):
            stops.check()
            for kind, digest in pool.map(_look, labels.paths[start : start + AT_ONCE]):
                kinds.append(kind)
                digests.append(digest)
                hears.advance(1)
    seen = Counter(kind for kind in kinds if kind is not None)
    if not seen:
        raise UsageError("No image of the split can be read", "Give DICOM, PNG, JPEG, TIFF or slides")
    modality = max(Modality, key=lambda kind: seen[kind])
    kept = [place for place, kind in enumerate(kinds) if kind is modality]
    excluded = Counter(labels.excluded)
    excluded[UNREADABLE] += kinds.count(None)
    excluded[OTHER_MODALITY] += len(kinds) - kinds.count(None) - len(kept)
    numbers: dict[str, int] = {}
    patients = [numbers.setdefault(labels.patients[place], len(numbers)) for place in kept]
    whole = _digest_of(digests[place] for place in kept)
    paths = tuple(labels.paths[place] for place in kept)
    examples = TrainingDataset(paths, np.array(patients, np.int64), modality, whole)
    return examples, {reason: count for reason, count in sorted(excluded.items()) if count}


def digest_of_files(paths: Iterable[Path]) -> str:
    """What ``TrainingDataset.digest`` of these files would be."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return _digest_of(digests)


def _digest_of(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def split_patients(examples: TrainingDataset, seed: int) -> tuple[TrainingDataset, TrainingDataset]:
    """Part the patients into those to fit and those to validate on.

    Patients with several images and patients with one are shuffled apart, by the seed alone, and of either
    group the first 15 % validate. Early stopping and calibration look at these; nothing is fitted to them.

    Raises
    ------
    UsageError
        If fewer than four patients have two images or more.
    """
    with_mates = np.unique(examples.patients[examples.mates()])
    if len(with_mates) < FEWEST:
        raise UsageError(
            f"{len(with_mates)} patients have two readable images or more, and {FEWEST} is the least",
            "Add images of the same patients: one image a patient does not show what a patient looks like",
        )
    alone = np.setdiff1d(np.unique(examples.patients), with_mates)
    draw = np.random.default_rng(seed)
    validating = [
        draw.permutation(group)[: max(least, round(VALIDATION_SHARE * len(group)))]
        for group, least in ((with_mates, 2), (alone, 0))
    ]
    chosen = np.isin(examples.patients, np.concatenate(validating))
    return examples.part(np.flatnonzero(~chosen)), examples.part(np.flatnonzero(chosen))


def _look(path: Path) -> tuple[Modality | None, str]:
    """Modality and digest of an image; no modality where it cannot be read."""
    try:
        return read_image(path).modality, _file_digest(path)
    except UnreadablePicture:
        return None, ""


def _file_digest(path: Path) -> str:
    """SHA-256 of a file; of a folder of files, of theirs in order."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file()):
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()
