"""The command ``overlap``: fingerprints datasets in worker processes and writes the result."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.engines.fingerprint_workers import (
    FingerprintWorkers,
    calibrations_of,
    fingerprint_in_workers,
    unused_models,
)
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.pipeline.storage.sources import walk
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import NO_PATIENT, TWICE, LabelColumns, read_labels
from medsanitize.verifiers.reid.overlap.dataset import (
    Dataset,
    ImageFile,
    dataset_from_release,
    datasets_from_splits,
    is_release,
)
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, fingerprint_dataset
from medsanitize.verifiers.reid.overlap.fingerprint_index import (
    create_fingerprint_index,
    is_fingerprint_index,
    load_fingerprint_index,
    write_fingerprint_index,
)
from medsanitize.verifiers.reid.overlap.models import ModelPaths, Models, open_models
from medsanitize.verifiers.reid.overlap.overlap import (
    TARGET_FALSE_MATCH,
    Overlap,
    compare_datasets,
    iter_fingerprints,
)
from medsanitize.verifiers.reid.overlap.pair_gallery import GALLERY, write_pair_gallery
from medsanitize.verifiers.reid.overlap.result_files import PAIRS, result_json, write_pairs

RESULT = "overlap.json"
_UNREAD_KINDS: Final = {"link": "a link", "special": "no regular file", "unlisted": "folder not readable"}
# Table rows whose images are found in the folder nevertheless.
_HARMLESS_PROBLEMS: Final = frozenset({NO_PATIENT, TWICE})


@dataclass(frozen=True, slots=True)
class OverlapRequest:
    """The arguments of the command ``overlap``.

    Attributes
    ----------
    paths, labels
        Releases, folders or indexes, and for each a table of patients, or None.
    table, images
        A table of splits and the folder of its files, instead of ``paths``.
    columns
        Column names of the tables.
    models, calibration
        Folders of models, and the file of a calibration of the deciding score, or None.
    target
        Target false match rate.
    output
        Folder for pairs, figure and result, which contain PHI; None writes nothing.
    kind
        Kind of the images whose header and table state none.
    """

    paths: tuple[Path, ...] = ()
    labels: tuple[Path | None, ...] = ()
    table: Path | None = None
    images: Path | None = None
    columns: LabelColumns = field(default_factory=LabelColumns)
    models: ModelPaths = field(default_factory=ModelPaths)
    calibration: Path | None = None
    target: float = TARGET_FALSE_MATCH
    output: Path | None = None
    kind: Modality | None = None


def run_overlap(
    request: OverlapRequest, progress: Progress, cancellation: Cancellation, *, workers: int
) -> Overlap:
    """Compare datasets, and write the result.

    Raises
    ------
    UsageError
        The datasets cannot be compared, a model or calibration does not fit them, or a library is missing.
    IntegrityError
        A model, a manifest or a calibration was changed.
    """
    check_extra("verify")
    models = open_models(request.models)
    sides = _open_datasets(request, models)
    given = calibrations_of(request.calibration, models)
    if request.output is not None:
        for path in (*request.paths, *([request.images] if request.images is not None else [])):
            _require_outside(request.output, path)
        _make_output(request.output)
    with LocalEngine(FingerprintWorkers(request.models), workers, cancellation) as engine:
        progress.stage("looking", sum(len(side.images) for side in sides if isinstance(side, Dataset)))
        found = compare_datasets(
            *sides,
            models=models,
            calibrations=given,
            target=request.target,
            # One table gives both splits, so equal IDs are the same patient.
            same_ids=request.table is not None,
            visit=partial(fingerprint_in_workers, engine, progress),
            scratch=request.output,
        )
    # An unused model is an error only after the comparison: before, the images' modalities are unknown.
    if unseen := unused_models(request.models, models, found):
        raise UsageError(
            f"There is a model for {', '.join(unseen)}, but no dataset contains such images",
            "Remove it, or give a model for the images of the datasets",
        )
    if request.output is not None:
        _write(found, request.models, request.output)
    return found


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """The arguments of the command ``index``."""

    path: Path
    labels: Path | None
    columns: LabelColumns
    models: ModelPaths
    output: Path
    kind: Modality | None = None


def run_index(
    request: IndexRequest, progress: Progress, cancellation: Cancellation, *, workers: int
) -> DatasetFingerprint:
    """Fingerprint a dataset, and write the index.

    Raises
    ------
    UsageError
        The dataset or the folder for the index cannot be used, or a library is missing.
    IntegrityError
        A model or a manifest was changed.
    EnvironmentFailure
        The disk is full or fails.
    """
    check_extra("verify")
    models = open_models(request.models)
    side = open_dataset(request.path, "The dataset", request.labels, request.columns).of_kind(request.kind)
    _require_outside(request.output, request.path)
    with create_fingerprint_index(request.output) as folder:
        with LocalEngine(FingerprintWorkers(request.models), workers, cancellation) as engine:
            progress.stage("looking", len(side.images))
            seen = fingerprint_dataset(
                side, iter_fingerprints(side, partial(fingerprint_in_workers, engine, progress)), folder
            )
        write_fingerprint_index(seen, folder, models)
    return seen


def _open_datasets(request: OverlapRequest, models: Models) -> tuple[Dataset | DatasetFingerprint, ...]:
    if request.table is not None and request.images is not None:
        splits = datasets_from_splits(request.table, request.images, request.columns)
        return tuple(one.of_kind(request.kind) for one in splits)
    titles = map(chr, range(ord("A"), ord("A") + len(request.paths)))
    return tuple(
        load_fingerprint_index(path, title, models)
        if labels is None and is_fingerprint_index(path)
        else open_dataset(path, title, labels, request.columns).of_kind(request.kind)
        for path, title, labels in zip(request.paths, titles, request.labels, strict=True)
    )


def _require_outside(output: Path, dataset: Path) -> None:
    # An output inside a dataset would be read as part of it by the next comparison.
    if output.resolve().is_relative_to(dataset.resolve()):
        raise UsageError("The output folder is inside a dataset", "Choose a folder elsewhere")


def _make_output(output: Path) -> None:
    """Create the output folder before the long computation."""
    try:
        with storage_errors():
            # mode 0700: pairs and embeddings show patients.
            output.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        raise UsageError("The output folder cannot be created", "Choose one in an existing folder") from None


def _write(found: Overlap, models: ModelPaths, output: Path) -> None:
    write_pairs(found, output / PAIRS)
    write_pair_gallery(found, models, output / GALLERY)
    write_atomic(output / RESULT, document_json(result_json(found)))


def open_dataset(path: Path, title: str, labels: Path | None, columns: LabelColumns) -> Dataset:
    """Open a release by its manifest, or every file of a folder.

    Parameters
    ----------
    path : Path
        Release or folder.
    title : str
        Its name in messages.
    labels : Path or None
        Table of files and patients of a folder; without it, DICOM headers state the patients.
    columns : LabelColumns
        Column names of the table.

    Raises
    ------
    UsageError
        The path is not a folder, or a table is given for a release.
    IntegrityError
        The manifest is damaged.
    """
    if not path.is_dir():
        raise UsageError(f"{title} is not a folder", "Give a release or a folder of images")
    if is_fingerprint_index(path):
        raise UsageError(
            f"{title} is an index, which contains its patient names already",
            "Give its source instead, or omit the table",
        )
    if not is_release(path):
        return _folder(path, title, labels, columns)
    if labels is not None:
        raise UsageError(
            f"{title} is a release, whose manifest identifies the patients",
            f"Leave out --labels-{title.lower()}",
        )
    return dataset_from_release(path, title)


def _folder(root: Path, title: str, labels: Path | None, columns: LabelColumns) -> Dataset:
    """List every file of a folder; which ones are images is decided when they are read."""
    unread: Counter[str] = Counter()
    rows_by_path: dict[Path, tuple[str, Modality | None, str]] = {}
    if labels is not None:
        table = read_labels(labels, root, columns)
        rows = zip(table.patients, table.kinds, table.series, strict=True)
        rows_by_path = dict(zip(table.paths, rows, strict=True))
        unread.update({why: count for why, count in table.excluded.items() if why not in _HARMLESS_PROBLEMS})
    home = Path(os.path.realpath(root))
    images = []
    for found in walk((root,)):
        if found.sort != "file":
            unread[_UNREAD_KINDS[found.sort]] += 1
            continue
        path = Path(os.fsdecode(found.path))
        parts = tuple(Path(os.fsdecode(part.path)) for part in found.parts)
        patient, kind, series = rows_by_path.get(path, ("", None, ""))
        name = path.relative_to(home).as_posix()
        images.append(ImageFile(path, name, patient, parts, kind=kind, series=series))
    return Dataset(title, tuple(images), dict(unread))
