"""Training data of a generator: preprocessed radiographs, their classes, and the held-out patients."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from medsanitize.errors import UsageError
from medsanitize.generators.diffusion.preprocess import preprocess_image
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.kinds import UNKNOWN
from medsanitize.verifiers.reid.labels import Labels
from medsanitize.verifiers.reid.training.training_dataset import (
    AT_ONCE,
    OTHER_MODALITY,
    TrainingDataset,
    gather_images,
)
from numpy.typing import NDArray

NO_CLASS = "no class"
RARE = "of a class with fewer than {fewest} patients"
# A generator would reproduce the individuals of a rarer class.
MIN_PATIENTS = 5
# Enough patients for a held-out loss; every patient held out is one fewer to learn from.
HELD_SHARE = 0.1
PREPROCESSED = "squares.npy"


@dataclass(frozen=True, slots=True)
class DatasetSplit:
    """Readable images, their classes, and which patients are held out.

    Attributes
    ----------
    examples
        The images. The gate computes the same digest from the same rows.
    classes
        Class of each image by path; empty without classes.
    held
        Whether each image is of a held-out patient, ``(n,)``.
    excluded
        Number of excluded rows by reason.
    """

    examples: TrainingDataset
    classes: Mapping[Path, str]
    held: NDArray[np.bool_]
    excluded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GeneratorDataset:
    """Preprocessed training data.

    Attributes
    ----------
    squares
        Preprocessed images, ``(n, size, size)``, uint8, memory-mapped.
    classes
        Class number of each image, ``(n,)``; zeros without classes.
    names
        Class names in order of their numbers; empty without classes.
    patients
        Patient number of each image, ``(n,)``.
    fit, held
        Indices of the training images, and of the images of held-out patients.
    digest
        Digest of the images, from ``verifiers.reid.training.training_dataset.gather_images``.
    """

    squares: NDArray[np.uint8]
    classes: NDArray[np.int64]
    names: tuple[str, ...]
    patients: NDArray[np.int64]
    fit: NDArray[np.intp]
    held: NDArray[np.intp]
    digest: str

    def counts(self) -> dict[str, int]:
        """Number of images and patients: all, training and held out."""
        every = np.arange(len(self.classes))
        parts = {"": every, "fit_": self.fit, "held_": self.held}
        images = {f"{part}images": len(places) for part, places in parts.items()}
        return images | {
            f"{part}patients": len(np.unique(self.patients[places])) for part, places in parts.items()
        }

    def by_class(self) -> dict[str, int]:
        """Number of images by class name."""
        counts = np.bincount(self.classes, minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=False))


def assign_classes(labels: Labels, column: str | None) -> tuple[Labels, dict[Path, str]]:
    """Select the rows whose class is shared by enough patients.

    Parameters
    ----------
    labels
        Rows of the table.
    column
        Column with the class; None for a generator without classes.

    Returns
    -------
    Labels, dict
        The selected rows, and the class of each image by path.

    Raises
    ------
    UsageError
        If the table has no such column, or fewer than two classes are left.
    """
    if column is None:
        return labels, {}
    if column not in labels.extra:
        raise UsageError(
            "The table has no such class column",
            "Name an existing column with --class, or omit --class for an unconditional generator",
        )
    values = labels.extra[column]
    return _of_classes(labels, column, _shared(values, labels.patients))


def _of_classes(labels: Labels, column: str, kept: frozenset[str]) -> tuple[Labels, dict[Path, str]]:
    """Select the rows of some classes and count the others by reason."""
    values = labels.extra[column]
    places = np.array([place for place, value in enumerate(values) if value in kept], np.intp)
    excluded = Counter(
        NO_CLASS if not value else RARE.format(fewest=MIN_PATIENTS) for value in values if value not in kept
    )
    chosen = labels.keep(places, excluded)
    return chosen, dict(zip(chosen.paths, chosen.extra[column], strict=True))


def _shared(values: Iterable[str], patients: Iterable[object]) -> frozenset[str]:
    """Classes shared by at least ``MIN_PATIENTS`` patients.

    Raises
    ------
    UsageError
        If there are fewer than two.
    """
    people: dict[str, set[object]] = {}
    for value, patient in zip(values, patients, strict=True):
        people.setdefault(value, set()).add(patient)
    shared = frozenset(value for value, of in people.items() if value and len(of) >= MIN_PATIENTS)
    if len(shared) < 2:
        raise UsageError(
            f"The class column has {len(shared)} values shared by {MIN_PATIENTS} or more patients; at least"
            f" 2 are required",
            "Merge rare classes in the table, name another column with --class, or omit --class",
        )
    return shared


def split_dataset(
    labels: Labels,
    column: str | None,
    seed: int,
    progress: Progress,
    cancellation: Cancellation,
    *,
    hold_out: bool = True,
) -> DatasetSplit:
    """Read the images, hold out a tenth of the patients, and exclude rare classes.

    Only readable images of training patients count toward the size of a class.

    Parameters
    ----------
    labels
        Rows of the table.
    column
        Column with the class; None for a generator without classes.
    seed
        Selects the held-out patients.
    progress, cancellation
        Progress and cancellation.
    hold_out
        False holds nobody out: who is held out depends on all patients.

    Raises
    ------
    UsageError
        As ``assign_classes`` and ``examples_of``, or if there are fewer than two patients.
    """
    labels, classes = assign_classes(labels, column)
    examples, excluded = examples_of(labels, progress, cancellation)
    values = [classes.get(path, "") for path in examples.paths]
    held, left = _kept_back(examples.patients, values, seed, HELD_SHARE if hold_out else 0.0)
    if column is None or left >= set(classes.values()):
        return DatasetSplit(examples, classes, held, excluded)
    aside = {path for path, one in zip(examples.paths, held, strict=True) if one}
    labels, classes = _of_classes(labels, column, left)
    # Read again: the digest must be that of the remaining images.
    examples, excluded = examples_of(labels, progress, cancellation)
    return DatasetSplit(examples, classes, np.array([path in aside for path in examples.paths]), excluded)


def _kept_back(
    patients: NDArray[np.int64], values: Sequence[str], seed: int, share: float
) -> tuple[NDArray[np.bool_], frozenset[str]]:
    """Whether each image is of a held-out patient, and the classes with enough training patients."""
    everyone = np.unique(patients)
    if len(everyone) < 2:
        raise UsageError(
            "All images are of one patient",
            "Add images of other patients: the generator would memorize this one",
        )
    shuffled = np.random.default_rng(seed).permutation(everyone)
    of, left = np.array(values), frozenset(values)
    # Excluding a class can remove held-out patients; others then take their place, which can make a
    # further class too small. The set of classes only shrinks, so the loop ends.
    while True:
        inside = np.isin(of, list(left))
        people = shuffled[np.isin(shuffled, patients[inside])]
        held = np.isin(patients, people[: max(1, round(share * len(people))) if share else 0])
        learned = inside & ~held
        shared = left if left == {""} else _shared(of[learned].tolist(), patients[learned].tolist())
        if shared == left:
            return held, left
        left = shared


def examples_of(
    labels: Labels, progress: Progress, cancellation: Cancellation
) -> tuple[TrainingDataset, Mapping[str, int]]:
    """Read each image once; count those that cannot be read.

    Raises
    ------
    UsageError
        If the images are slides or of mixed modalities.
    """
    # Generators are for radiographs only: training one states what the pictures show.
    examples, excluded = gather_images(labels.of_kind(Modality.RADIOGRAPH), progress, cancellation)
    if examples.modality is not Modality.RADIOGRAPH or excluded.get(OTHER_MODALITY) or excluded.get(UNKNOWN):
        raise UsageError(
            "The images include slides or color images, or images of another kind; generators are trained on"
            " radiographs of the chest",
            "Remove them from the table, or assign them to another split",
        )
    return examples, excluded


def write_preprocessed(
    examples: TrainingDataset, size: int, folder: Path, progress: Progress, cancellation: Cancellation
) -> NDArray[np.uint8]:
    """Preprocess all images into one file of the folder.

    Raises
    ------
    UsageError
        If an image is smaller than ``size``.
    """
    shape = (len(examples), size, size)
    squares = np.lib.format.open_memmap(folder / PREPROCESSED, "w+", np.uint8, shape)
    progress.stage("make squares", len(examples))
    small = 0

    def make(place: int) -> bool:
        picture = examples.picture(place)
        squares[place] = preprocess_image(picture, size)
        return min(int(side) for side in picture.pixels.shape[:2]) < size

    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        # In batches, so that a cancellation takes effect between them.
        for start in range(0, len(examples), AT_ONCE):
            cancellation.check()
            places = range(start, min(start + AT_ONCE, len(examples)))
            small += sum(pool.map(make, places))
            progress.advance(len(places))
    if small:
        raise UsageError(
            f"{small} images are smaller than {size} pixels: the generator would learn the blur of enlarged"
            f" images",
            "Remove them from the table, or use a recipe for smaller images",
        )
    squares.flush()
    return open_preprocessed(folder)


def open_preprocessed(folder: Path) -> NDArray[np.uint8]:
    """Open the preprocessed images, read-only and memory-mapped."""
    return np.asarray(np.lib.format.open_memmap(folder / PREPROCESSED, "r"))


def build_dataset(parted: DatasetSplit, squares: NDArray[np.uint8]) -> GeneratorDataset:
    """Combine a split and its preprocessed images."""
    names = tuple(sorted(set(parted.classes.values())))
    numbers = {name: number for number, name in enumerate(names)}
    examples, held = parted.examples, parted.held
    classes = np.array([numbers[parted.classes[path]] if names else 0 for path in examples.paths], np.int64)
    return GeneratorDataset(
        squares,
        classes,
        names,
        examples.patients,
        np.flatnonzero(~held),
        np.flatnonzero(held),
        examples.digest,
    )
