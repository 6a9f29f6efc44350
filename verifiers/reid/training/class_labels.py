"""Training images of a classifier, with classes from a column of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.labels import LabelColumns, Labels
from medsanitize.verifiers.reid.training.training_dataset import (
    MIN_PATIENTS,
    VALIDATION_SHARE,
    TrainingDataset,
    gather_images,
)
from numpy.typing import NDArray

NO_CLASS = "no class named"
RARE = f"of a class with fewer than {MIN_PATIENTS} patients"


@dataclass(frozen=True, slots=True)
class ClassifiedDataset:
    """Training images with their classes.

    Attributes
    ----------
    examples
        The images.
    classes
        Number of the class of each image, int64, shape (n,).
    names
        Names of the classes, sorted.
    """

    examples: TrainingDataset
    classes: NDArray[np.int64]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.examples)

    def part(self, places: NDArray[np.intp]) -> ClassifiedDataset:
        """Select images."""
        return ClassifiedDataset(self.examples.part(places), self.classes[places], self.names)

    def weights(self) -> NDArray[np.float64]:
        """Compute the weight of an image of each class, so that all classes have the same total weight."""
        return balanced_weights(np.bincount(self.classes, minlength=len(self.names)))


def balanced_weights(counts: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the weight of an image of each class from the numbers of images, 0 for an empty class."""
    present = np.count_nonzero(counts)
    return np.where(counts > 0, counts.sum() / (max(present, 1) * np.maximum(counts, 1)), 0.0)


def class_texts(labels: Labels, columns: LabelColumns, column: str) -> tuple[str, ...]:
    """Return the value of a column for each image; empty where the column is.

    Parameters
    ----------
    labels : Labels
        Rows of the table.
    columns : LabelColumns
        Column names of the table.
    column : str
        Column with the classes; may be that of the views.

    Raises
    ------
    UsageError
        If the table has no such column, or it identifies patients, files or splits.
    """
    if column == columns.view and any(labels.views):
        return labels.views
    if column not in labels.extra:
        raise UsageError(
            f"The table has no class column {column!r}",
            "Name the column of class labels with --class",
        )
    return labels.extra[column]


def gather_classes(
    labels: Labels, texts: Sequence[str], progress: Progress, cancellation: Cancellation
) -> tuple[ClassifiedDataset, Mapping[str, int]]:
    """Read every image that has a class.

    Parameters
    ----------
    labels : Labels
        Rows of the training split.
    texts : sequence of str
        Class of each row; empty for none.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.

    Returns
    -------
    ClassifiedDataset
        Images of classes with at least four patients.
    mapping of str to int
        Number of images left out, by reason.

    Raises
    ------
    UsageError
        If fewer than two classes have four patients.
    """
    named = np.array([bool(text) for text in texts])
    if not named.any():
        raise UsageError("The class column is empty", "Fill it in, or name another column with --class")
    said = dict(zip(labels.paths, texts, strict=True))
    unnamed = {NO_CLASS: int((~named).sum())}
    examples, excluded = gather_images(labels.keep(np.flatnonzero(named), unnamed), progress, cancellation)
    texts = [said[path] for path in examples.paths]
    # Patients count, not images: the images of one patient are not independent.
    pairs = set(zip(texts, examples.patients.tolist(), strict=True))
    patients = Counter(text for text, _ in pairs)
    names = tuple(sorted(text for text, count in patients.items() if count >= MIN_PATIENTS))
    if len(names) < 2:
        raise UsageError(
            f"{len(names)} of {len(patients)} classes have readable images of {MIN_PATIENTS} or more"
            " patients; a classifier needs two",
            "Name a column with two or more classes, merge rare classes, or add images",
        )
    kept = np.flatnonzero([text in names for text in texts])
    classes = np.array([names.index(texts[place]) for place in kept], np.int64)
    counted = Counter(excluded)
    counted[RARE] += len(texts) - len(kept)
    reasons = {reason: count for reason, count in sorted(counted.items()) if count}
    return ClassifiedDataset(examples.part(kept), classes, names), reasons


def split_classes(images: ClassifiedDataset, seed: int) -> tuple[ClassifiedDataset, ClassifiedDataset]:
    """Split the patients for training and validation, stratified by class.

    A patient counts for the rarest class of their images. Of each class 15 % of the patients validate, and at
    least one if there are two.

    Parameters
    ----------
    images : ClassifiedDataset
        The images.
    seed : int
        Seed of the shuffle.

    Raises
    ------
    UsageError
        If the splits cannot both show the classes.
    """
    chosen = validating_images(images, seed)
    fit, validation = images.part(np.flatnonzero(~chosen)), images.part(np.flatnonzero(chosen))
    if len(np.unique(fit.classes)) < len(images.names) or len(np.unique(validation.classes)) < 2:
        raise UsageError(
            "The patients cannot be split so that both parts contain every class",
            "Add patients, or merge classes that the same patients have",
        )
    return fit, validation


def validating_images(images: ClassifiedDataset, seed: int) -> NDArray[np.bool_]:
    """Choose the patients of `split_classes` that validate, and return whether each image is theirs."""
    numbers, place = np.unique(images.examples.patients, return_inverse=True)
    there = np.zeros((len(numbers), len(images.names)), np.bool_)
    there[place, images.classes] = True
    order = np.argsort(there.sum(0), kind="stable")
    rarest = order[there[:, order].argmax(1)]
    draw = np.random.default_rng(seed)
    validating: list[NDArray[np.int64]] = []
    for name in range(len(images.names)):
        group = draw.permutation(numbers[rarest == name])
        validating.append(group[: max(min(1, len(group) - 1), round(VALIDATION_SHARE * len(group)))])
    return np.isin(images.examples.patients, np.concatenate(validating))
