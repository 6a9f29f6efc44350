"""The images that an attack on a generator is judged by: whom it was trained on, and others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UsageError
from medsanitize.generators.privacy_gate.splits import LazyImages
from medsanitize.pipeline.synthesis.reference_images import (
    ReferenceTable,
    rows_of,
    rows_with_class,
)
from medsanitize.progress import Cancellation, Progress

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class AttackedSplits:
    """Real images of a generator's patients and of others, preprocessed as for the generator.

    Attributes
    ----------
    squares
        All images, ``(n, size, size)``, uint8.
    patients, classes
        Number of the patient and of the class of each image, ``(n,)``.
    trained
        Whether the generator was trained on the image, ``(n,)``.
    excluded
        Number of rows left out, by reason.
    """

    squares: NDArray[np.uint8]
    patients: NDArray[np.int64]
    classes: NDArray[np.int64]
    trained: NDArray[np.bool_]
    excluded: Mapping[str, int]

    def counts(self) -> tuple[int, int]:
        """Number of patients the generator was trained on, and of others."""
        import numpy as np

        return len(np.unique(self.patients[self.trained])), len(np.unique(self.patients[~self.trained]))


def attacked_splits(
    table: ReferenceTable,
    generator: Generator,
    training: Mapping[str, Any],
    progress: Progress,
    cancellation: Cancellation,
) -> AttackedSplits:
    """Read the training split of a generator, and the images of other patients.

    Others are the patients whom the training itself held out, and those of the holdout split.

    Parameters
    ----------
    table : ReferenceTable
        The table, with the names of its training and its holdout split; the calibration split is not read.
    generator : Generator
        Gives size and classes.
    training : mapping
        Its training record, from `medsanitize.generators.diffusion.generator.training_of`.

    Raises
    ------
    UsageError
        The training split is not what the generator was trained on, or a patient is in both.
    """
    import numpy as np
    from medsanitize.generators.privacy_gate.gate_embeddings import preprocess_images

    sides = [_training(table, generator, training, progress, cancellation)]
    if training.get("images", sides[0].digest) != sides[0].digest:
        raise UsageError(
            "The training part of the table is not what the generator was trained on",
            "Name the table, folder, columns and part that train generator was given",
        )
    if table.parts[1]:
        sides.append(_others(table, generator, progress, cancellation))
    numbers = {name: number for number, name in enumerate(generator.classes)}
    squares = [
        preprocess_images(LazyImages(one.examples), generator.size, "make squares", progress, cancellation)
        for one in sides
    ]
    classes = [numbers.get(one.classes.get(path, ""), 0) for one in sides for path in one.examples.paths]
    people = [one.people[path] for one in sides for path in one.examples.paths]
    patients = np.unique(people, return_inverse=True)[1].astype(np.int64)
    trained = np.concatenate([one.trained for one in sides])
    if not set(patients[trained].tolist()).isdisjoint(patients[~trained].tolist()):
        raise UsageError(
            "A patient is in the training part and in the holdout", "Assign each patient to one split"
        )
    excluded = sum((Counter(one.excluded) for one in sides), Counter[str]())
    return AttackedSplits(
        np.concatenate(squares),
        patients,
        np.array(classes, np.int64),
        trained,
        dict(sorted(excluded.items())),
    )


@dataclass(frozen=True, slots=True, repr=False)
class _Side:
    """Images of one split: class by path, patient by path, and whether each was trained on."""

    examples: TrainingDataset
    classes: Mapping[Path, str]
    people: Mapping[Path, str]
    trained: NDArray[np.bool_]
    excluded: Mapping[str, int]

    @property
    def digest(self) -> str:
        return self.examples.digest


def _training(
    table: ReferenceTable,
    generator: Generator,
    training: Mapping[str, Any],
    progress: Progress,
    cancellation: Cancellation,
) -> _Side:
    """Read the training split, and find the patients whom the training held out."""
    from medsanitize.generators.diffusion.dataset import split_dataset

    labels = rows_of(table, table.parts[0])
    # A foreign pipeline states no recipe, and a private training holds nobody out.
    seed = training.get("recipe", {}).get("seed")
    holds_out = seed is not None and generator.privacy is None
    split = split_dataset(labels, table.label or None, seed or 0, progress, cancellation, hold_out=holds_out)
    people = dict(zip(labels.paths, labels.patients, strict=True))
    return _Side(split.examples, split.classes, people, ~split.held, split.excluded)


def _others(
    table: ReferenceTable, generator: Generator, progress: Progress, cancellation: Cancellation
) -> _Side:
    """Read the holdout split."""
    import numpy as np
    from medsanitize.generators.diffusion.dataset import examples_of

    labels, classes = rows_with_class(rows_of(table, table.parts[1]), table.label, generator.classes)
    examples, excluded = examples_of(labels, progress, cancellation)
    people = dict(zip(labels.paths, labels.patients, strict=True))
    named = {path: generator.classes[number] for path, number in classes.items()}
    return _Side(examples, named, people, np.zeros(len(examples), np.bool_), excluded)
