"""A dataset of a comparison: the images of a release or of a split, and what of them cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.manifest import ObjectRow, read_rows
from medsanitize.release.multi_file_objects import read_parts
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels, split_names


@dataclass(frozen=True, slots=True, repr=False)
class ImageFile:
    """One image to compare.

    Attributes
    ----------
    path, parts
        The file, and the further files of a slide of several.
    name
        What the table of pairs calls it.
    patient
        Who it shows; empty where only its header may say, or nothing.
    stated
        SHA-256 of each file, the main one first, as a manifest states them; empty where none does.
    expected_pixels_sha256
        SHA-256 of the decoded pixels, as a manifest states it.
    """

    path: Path
    name: str
    patient: str = ""
    parts: tuple[Path, ...] = ()
    expected_sha256: tuple[str, ...] = ()
    expected_pixels_sha256: str = ""

    def __repr__(self) -> str:
        return "ImageFile(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Dataset:
    """A dataset that is compared with others.

    Attributes
    ----------
    title
        What messages call it: A, B, or the name of a split.
    images
        In a fixed order.
    unread
        What could not even be looked at, by reason: for each of them nothing is known.
    """

    title: str
    images: tuple[ImageFile, ...]
    unread: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Dataset({self.title}, {len(self.images)} images)"


def is_release(path: Path) -> bool:
    """Whether a folder is a published release."""
    return (path / layout.ROOT).is_file()


def dataset_from_release(release: Path, title: str) -> Dataset:
    """The objects of a release; patients are its pseudonyms.

    Raises
    ------
    IntegrityError
        When its manifest is damaged.
    """
    images = []
    for row in read_rows(release):
        main = release / layout.require_safe(row.path)
        expected_sha256: tuple[str, ...] = (row.sha256,)
        parts: tuple[Path, ...] = ()
        if row.parts:
            expected_sha256, parts = _parts(release, row)
        pixels = "" if row.kind == "slide" else row.pixels_sha256 or ""
        images.append(ImageFile(main, row.path, row.patient, parts, expected_sha256, pixels))
    return Dataset(title, tuple(images))


def _parts(release: Path, row: ObjectRow) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Digests of all files of a slide, and where the further ones lie."""
    try:
        listed = list(read_parts(row.path, row.parts))
    except (ValueError, TypeError, LookupError):
        raise IntegrityError("The manifest is damaged", "Fetch the release again") from None
    paths = tuple(release / layout.require_safe(path) for path, _, _ in listed[1:])
    return tuple(digest for _, _, digest in listed), paths


def datasets_from_splits(table: Path, root: Path, columns: LabelColumns | None = None) -> tuple[Dataset, ...]:
    """One dataset a split of a table, in the order of their names.

    Raises
    ------
    UsageError
        When the table cannot be read, or names fewer than two splits.
    """
    columns = columns or LabelColumns()
    names = split_names(table, columns)
    if len(names) < 2:
        raise UsageError(
            "The table names fewer than two splits, so there is nothing to compare",
            "Give a table with a column of splits, or two folders",
        )
    datasets = []
    for name in names:
        labels = read_labels(table, root, columns, name)
        home = root.resolve()
        images = [
            ImageFile(path, path.relative_to(home).as_posix(), patient)
            for path, patient in zip(labels.paths, labels.patients, strict=True)
        ]
        datasets.append(Dataset(name, tuple(images), labels.excluded))
    return tuple(datasets)
