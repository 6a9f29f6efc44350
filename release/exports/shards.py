"""Division of the objects of a release into files of about one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

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
