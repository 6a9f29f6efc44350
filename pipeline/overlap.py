"""The command ``overlap``: sides visited by worker processes, the outcome written for the holder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline.engine import Died, Engine, LocalEngine
from medsanitize.pipeline.extras import check_extra
from medsanitize.pipeline.overlap_sides import side_of
from medsanitize.pipeline.progress import Progress
from medsanitize.pipeline.stop import Stop
from medsanitize.release.canonical import document_json
from medsanitize.release.store import storage, write_atomic
from medsanitize.verifiers.calibration import Calibration
from medsanitize.verifiers.labels import Columns
from medsanitize.verifiers.overlap.figure import FIGURE, write_figure
from medsanitize.verifiers.overlap.given import read_given
from medsanitize.verifiers.overlap.kept import is_kept, keep, new_index, open_kept
from medsanitize.verifiers.overlap.look import Look, look_at
from medsanitize.verifiers.overlap.models import Models, Paths, open_models
from medsanitize.verifiers.overlap.overlap import TARGET, Overlap, looks_of, overlap
from medsanitize.verifiers.overlap.seen import Seen, gather
from medsanitize.verifiers.overlap.side import Image, Side, split_sides
from medsanitize.verifiers.overlap.told import PAIRS, result_json, write_pairs
from medsanitize.verifiers.pictures.picture import Modality

RESULT = "overlap.json"
DIED = "decoder-died"
"""Of an image whose decoder took its process with it, twice."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be compared; see the command ``overlap``.

    Attributes
    ----------
    paths, labels
        Releases, folders or indexes, and for each a table of who is who, or None.
    table, images
        A table of splits, and the folder its files are in, in place of ``paths``.
    models, calibration
        Folders of models, and the file of a calibration of the score that decides, or None.
    output
        Folder of the holder's for pairs, figure and result; None writes nothing.
    """

    paths: tuple[Path, ...] = ()
    labels: tuple[Path | None, ...] = ()
    table: Path | None = None
    images: Path | None = None
    columns: Columns = field(default_factory=Columns)
    models: Paths = field(default_factory=Paths)
    calibration: Path | None = None
    target: float = TARGET
    output: Path | None = None


@dataclass(frozen=True, slots=True)
class Lookers:
    """What each worker is equipped with."""

    paths: Paths

    def worker(self) -> Models:
        """The models, opened once a process."""
        return open_models(self.paths)


def run_overlap(asked: Asked, progress: Progress, stop: Stop, *, workers: int) -> Overlap:
    """Compare, and write what was found.

    Raises
    ------
    UsageError
        When the sides cannot be compared, a model or calibration is not for them, or a library is missing.
    IntegrityError
        When a model, a manifest or a calibration was changed.
    """
    check_extra("verify")
    models = open_models(asked.models)
    sides = _sides(asked, models)
    given = calibrations_of(asked.calibration, models)
    if asked.output is not None:
        for path in (*asked.paths, *([asked.images] if asked.images is not None else [])):
            _require_outside(asked.output, path)
        _make(asked.output)
    with LocalEngine(Lookers(asked.models), workers, stop) as engine:
        progress.stage("looking", sum(len(side.images) for side in sides if isinstance(side, Side)))
        found = overlap(
            *sides,
            models=models,
            calibrations=given,
            target=asked.target,
            same_ids=asked.table is not None,
            visit=partial(visit, engine, progress),
            scratch=asked.output,
        )
    if unseen := unseen_by(asked.models, models, found):
        raise UsageError(
            f"A model is for images of a kind that no side holds ({', '.join(unseen)}), and packaged features"
            " would have answered for it",
            "Leave it out, or name one for the images there are",
        )
    if asked.output is not None:
        _write(found, asked.models, asked.output)
    return found


@dataclass(frozen=True, slots=True)
class ToIndex:
    """What is to be looked at once and for all; see the command ``index``."""

    path: Path
    labels: Path | None
    columns: Columns
    models: Paths
    output: Path


def run_index(asked: ToIndex, progress: Progress, stop: Stop, *, workers: int) -> Seen:
    """Look at a dataset and keep what was seen.

    Raises
    ------
    UsageError
        When the dataset or the place for the index cannot be used, or a library is missing.
    IntegrityError
        When a model or a manifest was changed.
    EnvironmentFailure
        When the disk is full or fails.
    """
    check_extra("verify")
    models = open_models(asked.models)
    side = side_of(asked.path, "The dataset", asked.labels, asked.columns)
    _require_outside(asked.output, asked.path)
    with new_index(asked.output) as folder:
        with LocalEngine(Lookers(asked.models), workers, stop) as engine:
            progress.stage("looking", len(side.images))
            seen = gather(side, looks_of(side, partial(visit, engine, progress)), folder)
        keep(seen, folder, models)
    return seen


def calibrations_of(path: Path | None, models: Models) -> dict[Modality, Calibration]:
    """A calibration from a file that ``evaluate --output`` wrote.

    Raises
    ------
    UsageError
        When the file cannot be read, or is of other models than those of the comparison.
    IntegrityError
        When it is damaged.
    """
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError("The calibration cannot be read", "Name the file that holds it") from None
    given = read_given(text)
    if given.models != models.digest(given.modality):
        raise UsageError(
            "The calibration is of scores that other models gave, or of distances where a verifier decides",
            "Name the models it was made with, or make one by medsanitize evaluate --output with these",
        )
    return {given.modality: given.calibration}


def unseen_by(paths: Paths, models: Models, found: Overlap) -> tuple[Modality, ...]:
    """Kinds of image that a named model is for and no side holds, where packaged features make a claim."""
    named = {*list(models.retrieval)[: len(paths.retrieval)], *models.verification}
    seen = {modality for side in found.sides for modality in side.vectors}
    claimed = found.result == "exclusive" and seen - named
    return tuple(sorted(named - seen)) if claimed else ()


def visit(engine: Engine, progress: Progress, batches: Iterable[Sequence[Image]]) -> Iterator[Sequence[Look]]:
    """Look at batches of images in processes apart: a decoder that crashes is no news of the others."""
    for result in engine.map(look_batch, batches, isolate=True):
        looks = [Look(trouble=DIED)] if isinstance(result, Died) else result
        progress.advance(len(looks))
        yield looks


def look_batch(models: Models, batch: Sequence[Image]) -> list[Look]:
    """Look at images; one that fails in an unforeseen way fails alone."""
    try:
        return look_at(batch, models)
    except Exception:  # noqa: BLE001  whatever a decoder raises, the image was not compared, and that is said
        if len(batch) == 1:
            return [Look(trouble="decoder-failed")]
        return [look for image in batch for look in look_batch(models, [image])]


def _sides(asked: Asked, models: Models) -> tuple[Side | Seen, ...]:
    if asked.table is not None and asked.images is not None:
        return split_sides(asked.table, asked.images, asked.columns)
    titles = map(chr, range(ord("A"), ord("A") + len(asked.paths)))
    return tuple(
        open_kept(path, title, models)
        if labels is None and is_kept(path)
        else side_of(path, title, labels, asked.columns)
        for path, title, labels in zip(asked.paths, titles, asked.labels, strict=True)
    )


def _require_outside(output: Path, dataset: Path) -> None:
    if output.resolve().is_relative_to(dataset.resolve()):
        raise UsageError("What is written would lie in a dataset", "Name a folder elsewhere")


def _make(output: Path) -> None:
    """Make the folder of the holder's before the long work, not after it."""
    try:
        with storage():
            output.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        raise UsageError("The folder for the output cannot be made", "Name one within a folder") from None


def _write(found: Overlap, models: Paths, output: Path) -> None:
    write_pairs(found, output / PAIRS)
    write_figure(found, models, output / FIGURE)
    write_atomic(output / RESULT, document_json(result_json(found)))
