"""Reference images for the privacy gate: the generator's training images and held-out patients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UsageError

if TYPE_CHECKING:
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.generators.privacy_gate.splits import Split
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.labels import LabelColumns, Labels
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

PARTS = ("training", "holdout", "calibration")
NO_SUCH_CLASS = "of no class of the generator"


@dataclass(frozen=True, slots=True, repr=False)
class ReferenceTable:
    """The table that gives patient, split and label of every reference image.

    ``parts`` contains the names of the training, holdout and calibration splits.
    """

    images: Path
    table: Path
    columns: LabelColumns
    label: str
    parts: tuple[str, str, str]


@dataclass(frozen=True, slots=True, repr=False)
class ReferenceSplits:
    """The three splits, with common patient numbers.

    Attributes
    ----------
    training, holdout, calibration
        The splits.
    excluded
        Number of excluded rows, by reason.
    digests
        Digests of the images of the three splits.
    patients, files
        Patients and files of the training split, by which tries on the same data are counted.
    """

    training: Split
    holdout: Split
    calibration: Split
    excluded: Mapping[str, int]
    digests: tuple[str, ...]
    patients: tuple[str, ...]
    files: tuple[Path, ...]


def reference_splits(
    table: ReferenceTable,
    generator: Generator,
    training: Mapping[str, Any],
    seen: Collection[str],
    progress: Progress,
    cancellation: Cancellation,
) -> ReferenceSplits:
    """Read the table of reference images, and every image once.

    Parameters
    ----------
    table : ReferenceTable
        The table and the names of its splits.
    generator : Generator
        Gives the classes and the image size.
    training : mapping
        The training record, from `medsanitize.generators.diffusion.generator.training_of`.
    seen : collection of str
        Digests of the images that the verifiers were trained on.

    Raises
    ------
    UsageError
        The table cannot be used, its training split is not the generator's training data, or a verifier was
        trained on another split.
    """
    import numpy as np
    from medsanitize.generators.privacy_gate.splits import LazyImages, Split
    from medsanitize.verifiers.reid.training.training_dataset import gather_images

    numbers: dict[str, int] = {}
    excluded: Counter[str] = Counter()
    sides, digests, named = [], [], []
    # Patients are numbered across the splits, so that a patient in two of them has one number.
    for name, part in zip(PARTS, table.parts, strict=True):
        # The images of a generator are of its kind.
        rows = rows_of(table, part).of_kind(generator.modality)
        labels, of_image = rows_with_class(rows, table.label, generator.classes)
        examples, left_out = _examples(labels, progress, cancellation)
        if seen and name != "training":
            # Verifiers are trained on all classes, so the digest over all rows is compared as well.
            whole = examples if len(labels) == len(rows) else gather_images(rows, progress, cancellation)[0]
            _require_unseen(name, {examples.digest, whole.digest}, seen)
        people = dict(zip(labels.paths, labels.patients, strict=True))
        patients = [numbers.setdefault(people[path], len(numbers)) for path in examples.paths]
        classes = [of_image.get(path, 0) for path in examples.paths]
        sides.append(Split(LazyImages(examples), np.array(patients, np.int64), np.array(classes, np.int64)))
        digests.append(examples.digest)
        named.append((tuple(sorted({people[path] for path in examples.paths})), examples.paths))
        excluded.update(left_out)
    if training.get("images", digests[0]) != digests[0]:
        raise UsageError(
            "The training part of the table is not what the generator was trained on",
            "Name the table, folder, columns and part that train generator was given",
        )
    first, holdout, calibration = sides
    reasons = dict(sorted(excluded.items()))
    return ReferenceSplits(first, holdout, calibration, reasons, tuple(digests), *named[0])


def _require_unseen(part: str, digests: Collection[str], seen: Collection[str]) -> None:
    if not set(seen).isdisjoint(digests):
        raise UsageError(
            f"A verifier was trained on the {part} part of the table",
            "Use a model trained on other patients: it recognizes its own training images too well",
        )


def rows_of(table: ReferenceTable, part: str | None) -> Labels:
    """Return the rows of one split, or of all if ``part`` is None.

    Raises
    ------
    UsageError
        See `medsanitize.verifiers.reid.labels.read_labels`.
    """
    from medsanitize.verifiers.reid.labels import read_labels

    return read_labels(table.table, table.images, table.columns, part)


def rows_with_class(labels: Labels, column: str, classes: Sequence[str]) -> tuple[Labels, dict[Path, int]]:
    """Return the rows whose class the generator knows, and the class number of each image."""
    import numpy as np

    if not classes:
        return labels, {}
    if column not in labels.extra:
        raise UsageError(
            "The table has no such label column",
            "Pass the column that was passed to train generator as --class",
        )
    values = labels.extra[column]
    places = np.array([place for place, value in enumerate(values) if value in classes], np.intp)
    if not len(places):
        raise UsageError(
            "A part of the table has no image of a class that the generator knows",
            "Name the column of the label, or another table",
        )
    kept = labels.keep(places, {NO_SUCH_CLASS: len(values) - len(places)})
    numbers = {name: number for number, name in enumerate(classes)}
    return kept, {path: numbers[value] for path, value in zip(kept.paths, kept.extra[column], strict=True)}


def _examples(
    labels: Labels, progress: Progress, cancellation: Cancellation
) -> tuple[TrainingDataset, Mapping[str, int]]:
    from medsanitize.generators.diffusion.dataset import examples_of

    return examples_of(labels, progress, cancellation)
