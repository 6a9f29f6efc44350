"""A release as WebDataset: tar files with each object and a JSON of what its header says."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Final

from medsanitize.progress import Cancellation
from medsanitize.release.canonical_json import document_json
from medsanitize.release.exports.released_objects import ReleasedObject, VerifiedFile

# The size of a slide of more than 8 GiB does not fit into the header of USTAR; smaller files are as in it.
_FORMAT: Final = tarfile.PAX_FORMAT


def write_tar(
    path: Path, members: Iterable[ReleasedObject], release: Path, cancellation: Cancellation
) -> None:
    """Write one tar file; a sample is ``<object_id>.<suffix>`` and ``<object_id>.json``.

    Parameters
    ----------
    path : Path
        The file to write.
    members : iterable of ReleasedObject
        Each has one file.
    release : Path
        Folder of the release.
    cancellation : Cancellation
        Stops between two objects.

    Raises
    ------
    IntegrityError
        A released file is missing or changed.
    """
    with tarfile.open(path, "w", format=_FORMAT) as tar:
        for row in members:
            cancellation.check()
            _add(tar, release, row)


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
