"""The datasets of a comparison: the objects of a release, or the splits of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.manifest import ObjectRow, read_rows
from medsanitize.release.multi_file_objects import read_parts
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels, split_names


@dataclass(frozen=True, slots=True, repr=False)
class ImageFile:
    """One image to compare.

    Attributes
    ----------
    path, parts
        Main file, and the further files of a slide that has several.
    name
        Name of the image in the table of pairs.
    patient
        Patient ID; empty if only the header of the image may have one.
    expected_sha256
        SHA-256 of each file by the manifest, main file first; empty without a manifest.
    expected_pixels_sha256
        SHA-256 of the decoded pixels by the manifest; empty without a manifest.
    kind, series
        Kind and series that a table or a command states; None and empty where they do not.
    """

    path: Path
    name: str
    patient: str = ""
    parts: tuple[Path, ...] = ()
    expected_sha256: tuple[str, ...] = ()
    expected_pixels_sha256: str = ""
    kind: Modality | None = None
    series: str = ""

    def __repr__(self) -> str:
        # Without paths: they may contain PHI, and a repr ends up in logs.
        return "ImageFile(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Dataset:
    """A dataset to compare.

    Attributes
    ----------
    title
        Title in messages: A, B, or the name of a split.
    images
        The images in a fixed order.
    unread
        Number of images that cannot be compared at all, by reason.
    """

    title: str
    images: tuple[ImageFile, ...]
    unread: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Dataset({self.title}, {len(self.images)} images)"

    def of_kind(self, kind: Modality | None) -> Dataset:
        """Return the dataset with the kind that a command states, where no table states one."""
        return replace(self, images=tuple(replace(one, kind=one.kind or kind) for one in self.images))


def is_release(path: Path) -> bool:
    """Whether a folder is a published release."""
    return (path / layout.ROOT).is_file()


def dataset_from_release(release: Path, title: str) -> Dataset:
    """Read the objects of a release as a dataset; patients are its pseudonyms.

    Parameters
    ----------
    release : Path
        Folder of the release.
    title : str
        Title of the dataset in messages.

    Raises
    ------
    IntegrityError
        If the manifest is damaged.
    """
    return dataset_of_rows(read_rows(release), release, title)


def dataset_of_rows(rows: Iterable[ObjectRow], release: Path, title: str) -> Dataset:
    """Return the objects of a manifest as a dataset, in a release that may not be published yet."""
    images = []
    for row in rows:
        main = release / layout.require_safe(row.path)
        expected_sha256: tuple[str, ...] = (row.sha256,)
        parts: tuple[Path, ...] = ()
        if row.parts:
            expected_sha256, parts = _parts(release, row)
        # Slides are compared by a digest of their tiles, which `tile_digest` computes from the files.
        pixels = "" if row.kind == "slide" else row.pixels_sha256 or ""
        images.append(ImageFile(main, row.path, row.patient, parts, expected_sha256, pixels))
    return Dataset(title, tuple(images))


def _parts(release: Path, row: ObjectRow) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Digests of all files of a slide, and the paths of all but the main one."""
    try:
        listed = list(read_parts(row.path, row.parts))
    except (ValueError, TypeError, LookupError):
        raise IntegrityError("The manifest is damaged", "Fetch the release again") from None
    # A manifest may be forged: its paths must stay within the release.
    paths = tuple(release / layout.require_safe(path) for path, _, _ in listed[1:])
    return tuple(digest for _, _, digest in listed), paths


def datasets_from_splits(table: Path, root: Path, columns: LabelColumns | None = None) -> tuple[Dataset, ...]:
    """Read one dataset per split of a table, sorted by name.

    Parameters
    ----------
    table, root, columns
        See `medsanitize.verifiers.reid.labels.read_labels`.

    Raises
    ------
    UsageError
        If the table cannot be read or names fewer than two splits.
    """
    columns = columns or LabelColumns()
    names = split_names(table, columns)
    if len(names) < 2:
        raise UsageError(
            "The table names fewer than two splits, so there is nothing to compare",
            "Pass a table with a split column, or two folders",
        )
    datasets = []
    for name in names:
        labels = read_labels(table, root, columns, name)
        home = root.resolve()
        images = [
            ImageFile(path, path.relative_to(home).as_posix(), patient, kind=kind, series=series)
            for path, patient, kind, series in zip(
                labels.paths, labels.patients, labels.kinds, labels.series, strict=True
            )
        ]
        datasets.append(Dataset(name, tuple(images), labels.excluded))
    return tuple(datasets)
