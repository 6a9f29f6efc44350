"""Division of the objects of a release into files of about one size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from medsanitize.progress import Progress
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.exports.export_folder import TEMPORARY
from medsanitize.release.exports.released_objects import ReleasedObject

# Large enough to be read in sequence, small enough to be fetched again.
SHARD_BYTES: Final = 1_000_000_000


def shards(objects: Iterable[ReleasedObject], least: int) -> Iterator[list[ReleasedObject]]:
    """Divide objects in their order; a patient is in one shard unless it has more than ``least`` bytes.

    Parameters
    ----------
    objects : iterable of ReleasedObject
        In the order of the manifest.
    least : int
        Least number of bytes of a shard but the last.

    Yields
    ------
    list of ReleasedObject
        Not empty, of at most about twice ``least`` bytes.
    """
    shard: list[ReleasedObject] = []
    size = 0
    for row in objects:
        new_patient = bool(shard) and row.described["PatientID"] != shard[-1].described["PatientID"]
        if (size >= least and new_patient) or size >= 2 * least:
            yield shard
            shard, size = [], 0
        shard.append(row)
        size += row.bytes
    if shard:
        yield shard


def write_shards(
    objects: Iterable[ReleasedObject],
    name: Callable[[int], Path],
    write: Callable[[Path, Sequence[ReleasedObject]], None],
    progress: Progress,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write one file for each shard; complete ones of an interrupted export are kept.

    Parameters
    ----------
    objects : iterable of ReleasedObject
        In the order of the manifest; each has one file.
    name : callable
        Returns the path of the shard of a number.
    write : callable
        Writes objects to a path, which is renamed to that of the shard when it is complete.
    progress : Progress
        Counts objects.
    shard_bytes : int
        Least size of the objects of a file but the last.

    Raises
    ------
    EnvironmentFailure
        The disk is full or fails.
    """
    for number, members in enumerate(shards(objects, shard_bytes)):
        path = name(number)
        if not path.exists():
            temporary = path.with_name(path.name + TEMPORARY)
            with storage_errors():
                path.parent.mkdir(exist_ok=True)
                write(temporary, members)
                temporary.replace(path)
        progress.advance(len(members))
