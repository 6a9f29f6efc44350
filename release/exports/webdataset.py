"""A release as WebDataset: tar files with each object and a JSON of what its header says."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Final

from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.canonical_json import document_json
from medsanitize.release.exports.export_folder import TEMPORARY, ExportFolder
from medsanitize.release.exports.released_objects import ReleasedObject, VerifiedFile
from medsanitize.release.exports.shards import SHARD_BYTES, shards

# The size of a slide of more than 8 GiB does not fit into the header of USTAR; smaller files are as in it.
_FORMAT: Final = tarfile.PAX_FORMAT


def write_shards(
    release: Path,
    folder: ExportFolder,
    objects: Iterable[ReleasedObject],
    progress: Progress,
    cancellation: Cancellation,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write ``shard-000000.tar`` and so on; complete ones of an interrupted export are kept.

    A sample is ``<object_id>.<suffix>`` and ``<object_id>.json``. A shard ends with a patient if it can: a
    patient of more than one shard follows in the next.

    Parameters
    ----------
    release : Path
        Folder of the release.
    folder : ExportFolder
    objects : iterable of ReleasedObject
        In the order of the manifest; each has one file.
    progress, cancellation
        Counts objects; stops between two shards and two objects.
    shard_bytes : int
        Least size of the files of a shard but the last.

    Raises
    ------
    IntegrityError
        A released file is missing or changed.
    EnvironmentFailure
        The disk is full or fails.
    """
    for number, members in enumerate(shards(objects, shard_bytes)):
        path = folder.path / f"shard-{number:06d}.tar"
        if not path.exists():
            temporary = path.with_name(path.name + TEMPORARY)
            with storage_errors():
                with tarfile.open(temporary, "w", format=_FORMAT) as tar:
                    for row in members:
                        cancellation.check()
                        _add(tar, release, row)
                temporary.replace(path)
        progress.advance(len(members))


def _add(tar: tarfile.TarFile, release: Path, row: ReleasedObject) -> None:
    suffix = PurePosixPath(row.path).suffix
    with VerifiedFile(release, row) as file:
        tar.addfile(_member(f"{row.object_id}{suffix}", row.bytes), file)
    said = document_json({**row.described, "sha256": row.sha256})
    tar.addfile(_member(f"{row.object_id}.json", len(said)), BytesIO(said))


def _member(name: str, size: int) -> tarfile.TarInfo:
    # No clock and no user of this machine: the same release gives the same bytes.
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member
