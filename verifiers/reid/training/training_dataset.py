"""Training images: readable, of one modality, with patients as numbers."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from medsanitize.errors import UnreadablePicture, UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.images.kinds import OTHER_SLICE, STATE_IT, UNKNOWN, one_of_each_series
from medsanitize.verifiers.reid.images.read import read_image
from medsanitize.verifiers.reid.labels import Labels
from numpy.typing import NDArray

UNREADABLE = "image not readable"
OTHER_MODALITY = "of another modality than most"
# A little more than the 10 % validation to 70 % training of Packhäuser et al. 2022.
VALIDATION_SHARE = 0.15
MIN_PATIENTS = 4
AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class TrainingDataset:
    """Images of one modality with their patients.

    Attributes
    ----------
    paths
        One file per image, read on demand.
    patients
        Number of the patient of each image, int64, shape (n,).
    modality
        Modality of all images.
    digest
        SHA-256 of the sorted digests of the files.
    """

    paths: tuple[Path, ...]
    patients: NDArray[np.int64]
    modality: Modality
    digest: str

    def __len__(self) -> int:
        return len(self.paths)

    def picture(self, place: int) -> ImageArray:
        """Read one image."""
        return read_image(self.paths[place], kind=self.modality)

    def part(self, places: NDArray[np.intp]) -> TrainingDataset:
        """Select images; the digest remains that of all."""
        paths = tuple(self.paths[int(place)] for place in places)
        return TrainingDataset(paths, self.patients[places], self.modality, self.digest)

    def mates(self) -> NDArray[np.bool_]:
        """Find the images that have another one of their patient, bool, shape (n,)."""
        _, inverse, counts = np.unique(self.patients, return_inverse=True, return_counts=True)
        return np.asarray(counts[inverse] > 1)


def gather_images(
    labels: Labels, progress: Progress, cancellation: Cancellation
) -> tuple[TrainingDataset, Mapping[str, int]]:
    """Read every image once, in threads.

    Parameters
    ----------
    labels : Labels
        Rows of the training split.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.

    Returns
    -------
    TrainingDataset
        Images of the most frequent modality; patients are numbered in the order of the table.
    mapping of str to int
        Number of rows left out, by reason.

    Raises
    ------
    UsageError
        If no image can be read.
    """
    progress.stage("read images", len(labels))
    kinds: list[Modality | None] = []
    slices: list[tuple[str, float]] = []
    digests: list[str] = []
    unknown = 0
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        # In chunks: cancellation takes effect soon, and few decoded images are in memory.
        for start in range(0, len(labels), AT_ONCE):
            cancellation.check()
            part = slice(start, start + AT_ONCE)
            for picture, digest in pool.map(_read_and_digest, labels.paths[part], labels.kinds[part]):
                kinds.append(None if picture is None else picture.modality)
                slices.append(("", 0.0) if picture is None else (picture.series, picture.position))
                unknown += picture is not None and picture.modality is None
                digests.append(digest)
                progress.advance(1)
    seen = Counter(kind for kind in kinds if kind is not None)
    if unknown and not seen:
        raise UsageError("The images of the split are of unknown kind", STATE_IT)
    if not seen:
        raise UsageError(
            "No image of the split can be read", "Use DICOM, PNG, JPEG, TIFF or whole-slide files"
        )
    modality = max(Modality, key=lambda kind: seen[kind])
    kept = [place for place, kind in enumerate(kinds) if kind is modality]
    excluded = Counter(labels.excluded)
    excluded[UNREADABLE] += kinds.count(None) - unknown
    excluded[UNKNOWN] += unknown
    excluded[OTHER_MODALITY] += len(kinds) - kinds.count(None) - len(kept)
    if modality.is_sliced:
        rows = one_of_each_series(
            [labels.patients[place] for place in kept],
            [labels.series[place] or slices[place][0] for place in kept],
            [slices[place][1] for place in kept],
        )
        excluded[OTHER_SLICE] += len(kept) - len(rows)
        kept = [kept[int(row)] for row in rows]
    # From here on patients are numbers: their IDs never reach a model folder.
    numbers: dict[str, int] = {}
    patients = [numbers.setdefault(labels.patients[place], len(numbers)) for place in kept]
    whole = _digest_of(digests[place] for place in kept)
    paths = tuple(labels.paths[place] for place in kept)
    examples = TrainingDataset(paths, np.array(patients, np.int64), modality, whole)
    return examples, {reason: count for reason, count in sorted(excluded.items()) if count}


def digest_of_files(paths: Iterable[Path]) -> str:
    """Compute the ``TrainingDataset.digest`` that these files would have."""
    digests = []
    for path in paths:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return _digest_of(digests)


def _digest_of(digests: Iterable[str]) -> str:
    # Sorted: the order of the table does not change the data.
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def split_patients(examples: TrainingDataset, seed: int) -> tuple[TrainingDataset, TrainingDataset]:
    """Split the patients for training and validation.

    Patients with several images and with one image are shuffled separately; 15 % of each group validate.
    Early stopping and calibration use the validation split; no weights are fitted to it.

    Parameters
    ----------
    examples : TrainingDataset
        The images.
    seed : int
        Seed of the shuffle.

    Returns
    -------
    tuple of (TrainingDataset, TrainingDataset)
        Training and validation split.

    Raises
    ------
    UsageError
        If fewer than four patients have at least two images.
    """
    with_mates = np.unique(examples.patients[examples.mates()])
    if len(with_mates) < MIN_PATIENTS:
        raise UsageError(
            f"Only {len(with_mates)} patients have two or more readable images; at least {MIN_PATIENTS} are"
            " required",
            "Add images: training requires several patients with two or more images",
        )
    single = np.setdiff1d(np.unique(examples.patients), with_mates)
    draw = np.random.default_rng(seed)
    validating = [
        draw.permutation(group)[: max(least, round(VALIDATION_SHARE * len(group)))]
        # Validation needs genuine and impostor pairs, hence two patients with several images.
        for group, least in ((with_mates, 2), (single, 0))
    ]
    chosen = np.isin(examples.patients, np.concatenate(validating))
    return examples.part(np.flatnonzero(~chosen)), examples.part(np.flatnonzero(chosen))


def _read_and_digest(path: Path, kind: Modality | None) -> tuple[ImageArray | None, str]:
    """An image without its pixels, and the digest of its file; None if it cannot be read."""
    try:
        # Without the pixels: the results of a chunk are in memory together.
        return replace(read_image(path, kind=kind), pixels=np.empty((0, 0), np.float32)), _file_digest(path)
    except UnreadablePicture:
        return None, ""


def _file_digest(path: Path) -> str:
    """SHA-256 of a file; of a folder, of the digests of its files in order."""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file()):
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()
