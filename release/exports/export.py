"""Export of a published release into another form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, get_args

from medsanitize.progress import Cancellation, Progress
from medsanitize.release.exports.export_folder import finish, open_folder
from medsanitize.release.exports.huggingface import write_card, write_parquet
from medsanitize.release.exports.nifti import require_dcm2niix, write_volumes
from medsanitize.release.exports.released_objects import ReleasedObject, released_objects
from medsanitize.release.exports.shards import write_shards
from medsanitize.release.exports.webdataset import write_tar

Form = Literal["huggingface", "nifti", "webdataset"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

_PARTS: Final = "objects of several files"
_NO_DICOM_IMAGE: Final = "objects that are not DICOM images"
_UNCONVERTED: Final = "images of series that dcm2niix does not convert"


@dataclass(frozen=True, slots=True)
class Export:
    """What was written: objects of the release in the export, files, and objects left out, by reason."""

    objects: int
    files: int
    left_out: dict[str, int]


def export_release(
    release: Path, output: Path, form: Form, progress: Progress, cancellation: Cancellation
) -> Export:
    """Export a release; after an interruption, the same call goes on.

    The same release gives the same bytes. ``EXPORT.json``, written last, names the release with its digests.

    Parameters
    ----------
    release : Path
        Folder of a published release, which is only read.
    output : Path
        A new or empty folder.
    form : str
        ``webdataset``: tar files of objects and JSON; ``huggingface``: Parquet files with the objects in
        them; ``nifti``: a volume with BIDS sidecar for each series.
    progress, cancellation
        Counts objects; stops where nothing is half done.

    Raises
    ------
    UsageError
        There is no release, the folder contains something else, or dcm2niix is not installed.
    IntegrityError
        The release is damaged.
    EnvironmentFailure
        The disk is full or fails.
    """
    if form == "nifti":
        require_dcm2niix()
    folder = open_folder(release, output, form)
    left_out: dict[str, int] = {}
    total = sum(1 for _ in released_objects(release))
    progress.stage("export", total)
    chosen = _chosen(release, form, left_out, progress)
    if form == "nifti":
        if unconverted := write_volumes(release, folder, chosen, progress, cancellation):
            left_out[_UNCONVERTED] = unconverted
    elif form == "huggingface":
        write_card(folder)
        write = partial(write_parquet, release=release, cancellation=cancellation)
        write_shards(chosen, lambda number: output / f"data/part-{number:05d}.parquet", write, progress)
    else:
        write = partial(write_tar, release=release, cancellation=cancellation)
        write_shards(chosen, lambda number: output / f"shard-{number:06d}.tar", write, progress)
    files = finish(folder, left_out)
    return Export(total - sum(left_out.values()), files, dict(sorted(left_out.items())))


def _chosen(
    release: Path, form: Form, left_out: dict[str, int], progress: Progress
) -> Iterator[ReleasedObject]:
    """Yield the objects that have a place in a form, and count the others."""
    for row in released_objects(release):
        image = row.described["kind"] == "dicom" and "Rows" in row.described
        reason = _PARTS if row.has_parts else _NO_DICOM_IMAGE if form == "nifti" and not image else ""
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
            progress.advance(1)
        else:
            yield row
