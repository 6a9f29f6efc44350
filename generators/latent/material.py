"""What a generator is trained on: squares of radiographs, their classes, and who is kept back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from medsanitize.errors import UsageError
from medsanitize.generators.latent.squares import square
from medsanitize.verifiers.labels import Labels
from medsanitize.verifiers.pictures.picture import Modality
from medsanitize.verifiers.training.examples import (
    AT_ONCE,
    OTHER_MODALITY,
    Examples,
    Hears,
    Stops,
    gather,
)
from numpy.typing import NDArray

NO_CLASS = "no class"
RARE = "of a class with fewer than {fewest} patients"
# What fewer people share, a generator would learn as these people.
FEWEST = 5
HELD_SHARE = 0.1
SQUARES = "squares.npy"


@dataclass(frozen=True, slots=True)
class Material:
    """Images to learn from.

    Attributes
    ----------
    squares
        ``(n, size, size)`` bytes; a file that is read as it is needed.
    classes
        Number of each image's class, ``(n,)``; zeros where there are none.
    names
        Of the classes, in order of their names; empty where there are none.
    patients
        ``(n,)``; equal numbers are one patient.
    fit, held
        Places of the images to learn from, and of those of patients kept back to measure on.
    digest
        Of the images, as ``verifiers.training.examples.gather`` makes it.
    """

    squares: NDArray[np.uint8]
    classes: NDArray[np.int64]
    names: tuple[str, ...]
    patients: NDArray[np.int64]
    fit: NDArray[np.intp]
    held: NDArray[np.intp]
    digest: str

    def counts(self) -> dict[str, int]:
        """Images and patients of all, of those learned from and of those kept back."""
        every = np.arange(len(self.classes))
        parts = {"": every, "fit_": self.fit, "held_": self.held}
        images = {f"{part}images": len(places) for part, places in parts.items()}
        return images | {
            f"{part}patients": len(np.unique(self.patients[places])) for part, places in parts.items()
        }

    def by_class(self) -> dict[str, int]:
        """Images of each class by its name."""
        counts = np.bincount(self.classes, minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=False))


def classed(labels: Labels, column: str | None) -> tuple[Labels, dict[Path, str]]:
    """Rows with a class that enough patients share, and the class of each image.

    Parameters
    ----------
    column
        Of the table; without one, no image has a class.

    Raises
    ------
    UsageError
        If the table has no such column, or fewer than two classes are left.
    """
    if column is None:
        return labels, {}
    if column not in labels.extra:
        raise UsageError(
            "The table has no column of that name for the class",
            "Name another with --class, or leave it out for a generator without classes",
        )
    values = labels.extra[column]
    people: dict[str, set[str]] = {}
    for value, patient in zip(values, labels.patients, strict=True):
        people.setdefault(value, set()).add(patient)
    kept = {value for value, patients in people.items() if value and len(patients) >= FEWEST}
    if len(kept) < 2:
        raise UsageError(
            f"The column of the class has {len(kept)} values shared by {FEWEST} patients or more;"
            " 2 is the least",
            "Merge rare classes in the table, name another column with --class, or leave it out",
        )
    places = np.array([place for place, value in enumerate(values) if value in kept], np.intp)
    gone = Counter(
        NO_CLASS if not value else RARE.format(fewest=FEWEST) for value in values if value not in kept
    )
    chosen = labels.keep(places, gone)
    return chosen, dict(zip(chosen.paths, chosen.extra[column], strict=True))


def examples_of(labels: Labels, hears: Hears, stops: Stops) -> tuple[Examples, Mapping[str, int]]:
    """The images, each read once; what cannot be read is counted.

    Raises
    ------
    UsageError
        If they are slides or of mixed modalities.
    """
    examples, excluded = gather(labels, hears, stops)
    if examples.modality is not Modality.RADIOGRAPH or excluded.get(OTHER_MODALITY):
        raise UsageError(
            "Among the images are slides or pictures in colour, and a generator learns grey radiographs",
            "Leave them out of the table, or give them a split of their own",
        )
    return examples, excluded


def squares_of(examples: Examples, size: int, folder: Path, hears: Hears, stops: Stops) -> NDArray[np.uint8]:
    """Make all squares once, into a file of the folder.

    Raises
    ------
    UsageError
        If an image is smaller than the square.
    """
    shape = (len(examples), size, size)
    squares = np.lib.format.open_memmap(folder / SQUARES, "w+", np.uint8, shape)
    hears.stage("make squares", len(examples))
    small = 0

    def make(place: int) -> bool:
        picture = examples.picture(place)
        squares[place] = square(picture, size)
        return min(int(side) for side in picture.pixels.shape[:2]) < size

    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        for start in range(0, len(examples), AT_ONCE):
            stops.check()
            places = range(start, min(start + AT_ONCE, len(examples)))
            small += sum(pool.map(make, places))
            hears.advance(len(places))
    if small:
        raise UsageError(
            f"{small} images are smaller than {size} pixels: the generator would learn the blur of"
            " images of mixed sizes",
            "Leave them out of the table, or use a recipe of smaller images",
        )
    squares.flush()
    return open_squares(folder)


def open_squares(folder: Path) -> NDArray[np.uint8]:
    """The squares that were made."""
    return np.asarray(np.lib.format.open_memmap(folder / SQUARES, "r"))


def material(
    examples: Examples, of_image: Mapping[Path, str], squares: NDArray[np.uint8], seed: int
) -> Material:
    """Put together what is learned from, a tenth of the patients kept back by the seed.

    Raises
    ------
    UsageError
        If there are fewer than two patients.
    """
    names = tuple(sorted(set(of_image.values())))
    numbers = {name: number for number, name in enumerate(names)}
    classes = np.array([numbers[of_image[path]] if names else 0 for path in examples.paths], np.int64)
    everyone = np.unique(examples.patients)
    if len(everyone) < 2:
        raise UsageError("The images are of one patient", "Add images of others: a generator would copy them")
    shuffled = np.random.default_rng(seed).permutation(everyone)
    held = np.isin(examples.patients, shuffled[: max(1, round(HELD_SHARE * len(everyone)))])
    return Material(
        squares,
        classes,
        names,
        examples.patients,
        np.flatnonzero(~held),
        np.flatnonzero(held),
        examples.digest,
    )
