"""The images of a site: rows of its table, without the patients that another site uses."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.federation.private_overlap.items import normalized_identifiers
from medsanitize.policies.federation import SitePolicy

if TYPE_CHECKING:
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.labels import Labels
    from medsanitize.verifiers.reid.training.sums import SiteImages
    from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset

ELSEWHERE: Final = "patient used at another site"
_ITEM: Final = "item"


def labels_of(policy: SitePolicy, kind: str, order: Sequence[str], own: str) -> Labels:
    """Read the table of a site, without the patients whom a site before it in the job's order uses.

    Parameters
    ----------
    policy : SitePolicy
        The site.
    kind : str
        Kind of the images, where file and table state none.
    order : sequence of str
        The sites of the job.
    own : str
        Name of this site.

    Raises
    ------
    UsageError
        The table or a list of common patients cannot be read.
    """
    import numpy as np
    from medsanitize.verifiers.reid.images.kinds import kind_named
    from medsanitize.verifiers.reid.labels import LabelColumns, read_labels

    try:
        columns = LabelColumns(**policy.columns)
    except TypeError:
        raise UsageError("The policy names an unknown column", "See --column of medsanitize train") from None
    if policy.labels is None or policy.images is None:
        raise UsageError(
            "The policy of this site names no images", "Write images and labels: the folder and its table"
        )
    labels = read_labels(policy.labels, policy.images, columns, policy.split).of_kind(kind_named(kind))
    elsewhere = set[bytes]()
    for one in policy.shared:
        if one.partner in order and order.index(one.partner) < order.index(own):
            elsewhere |= _items(one.list)
    files = [_normal(path.relative_to(policy.images).as_posix()) for path in labels.paths]
    patients = [_normal(patient) for patient in labels.patients]
    # One image that is known elsewhere is enough: the patient is.
    gone = {
        patient
        for file, patient in zip(files, patients, strict=True)
        if file in elsewhere or patient in elsewhere
    }
    kept = [place for place, patient in enumerate(patients) if patient not in gone]
    return labels.keep(np.array(kept, np.intp), {ELSEWHERE: len(patients) - len(kept)})


def images_read(labels: Labels, progress: Progress, cancellation: Cancellation) -> TrainingDataset:
    """Read the images of a table, and say how many are left out: a site must not believe that all took part.

    Raises
    ------
    UsageError
        No image can be read.
    """
    from medsanitize.verifiers.reid.training.training_dataset import gather_images

    examples, left_out = gather_images(labels, progress, cancellation)
    for reason, number in sorted(left_out.items()):
        if number:
            progress.message(f"Left out: {number:,} images ({reason}).")
    return examples


def images_of(
    labels: Labels, kind: str, seed: int, state: Path, progress: Progress, cancellation: Cancellation
) -> SiteImages:
    """Read the images of a site, and split its patients.

    Raises
    ------
    UsageError
        There are too few patients, or their images are of another kind than the job's.
    """
    from medsanitize.verifiers.reid.images.kinds import kind_named
    from medsanitize.verifiers.reid.training.sums import SiteImages
    from medsanitize.verifiers.reid.training.training_dataset import split_patients

    examples = images_read(labels, progress, cancellation)
    if examples.modality is not kind_named(kind):
        raise UsageError("The images are of another kind than the job's", "Name the rows of its kind")
    fit, validation = split_patients(examples, seed)
    return SiteImages(fit, validation, state / "features", progress, cancellation)


def classified_images_of(
    labels: Labels,
    terms: Mapping[str, Any],
    columns: Mapping[str, str],
    state: Path,
    progress: Progress,
    cancellation: Cancellation,
) -> SiteImages:
    """Read the images of a site that have one of the job's classes, and split its patients.

    Raises
    ------
    UsageError
        The table has no such column, or the images are of another kind than the job's.
    """
    import numpy as np
    from medsanitize.verifiers.reid.images.kinds import kind_named
    from medsanitize.verifiers.reid.labels import LabelColumns
    from medsanitize.verifiers.reid.training.class_labels import (
        ClassifiedDataset,
        class_texts,
        validating_images,
    )
    from medsanitize.verifiers.reid.training.linear_sums import ClassifiedSite

    names = [str(name) for name in terms["classes"]["names"]]
    texts = class_texts(labels, LabelColumns(**columns), str(terms["classes"]["column"]))
    kept = [place for place, text in enumerate(texts) if text in names]
    if not kept:
        raise UsageError("No image of this site has a class of the job", "Compare the names of the classes")
    said = dict(zip(labels.paths, texts, strict=True))
    examples = images_read(labels.keep(np.array(kept, np.intp)), progress, cancellation)
    if examples.modality is not kind_named(str(terms["kind"])):
        raise UsageError("The images are of another kind than the job's", "Name the rows of its kind")
    classes = np.array([names.index(said[path]) for path in examples.paths], np.int64)
    images = ClassifiedDataset(examples, classes, tuple(names))
    chosen = validating_images(images, int(terms["seed"]))
    fit, validation = images.part(np.flatnonzero(~chosen)), images.part(np.flatnonzero(chosen))
    return ClassifiedSite(
        fit.examples, validation.examples, state / "features", progress, cancellation,
        fit.classes, validation.classes,
    )  # fmt: skip


def _items(path: Path) -> set[bytes]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise UsageError(
            "A list of common patients cannot be read", "Name the common.csv of a private comparison"
        ) from None
    if any(_ITEM not in row for row in rows):
        raise UsageError(
            "A list of common patients has no column 'item'", "Name the common.csv of a private comparison"
        )
    return {_normal(row[_ITEM] or "") for row in rows} - {b""}


def _normal(text: str) -> bytes:
    return next(iter(normalized_identifiers([text])), b"")
