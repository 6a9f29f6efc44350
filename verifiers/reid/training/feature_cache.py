"""What a network sees in many images, kept on disk as it comes: a stopped training goes on where it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from medsanitize.release.atomic_io import storage_errors
from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingDataset, TrainingProgress
from numpy.typing import NDArray

_NUMBER = np.dtype(np.float32).itemsize


def name_of(examples: TrainingDataset, *facts: object) -> str:
    """A name for rows of these images, in this order, made by what the facts say."""
    told = "\n".join((examples.digest, *map(str, examples.paths), *map(repr, facts)))
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def cached_features(
    file: Path,
    shape: tuple[int, int],
    batch: int,
    compute: Callable[[range], NDArray[np.float32]],
    hears: TrainingProgress,
    stops: Cancellation,
) -> NDArray[np.float32]:
    """Compute rows a batch at a time into a file; those that an earlier call left there are taken from it.

    Parameters
    ----------
    file : Path
        It lies in the folder of the unfinished training and goes with it; it is for its owner alone.
    shape : tuple of int
        How many rows, and how long each is.
    compute : callable
        Gives the rows of a range of places, ``(len, length)`` float32.

    Raises
    ------
    EnvironmentFailure
        If the disk is full or fails.
    """
    count, length = shape
    with storage_errors():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "r+b") as kept:
        whole = min(os.fstat(descriptor).st_size // (_NUMBER * length), count)
        done = whole if whole == count else whole // batch * batch
        kept.truncate(done * _NUMBER * length)
        kept.seek(0, os.SEEK_END)
        hears.advance(done)
        for start in range(done, count, batch):
            stops.check()
            places = range(start, min(start + batch, count))
            rows = compute(places).astype(np.float32).tobytes()
            with storage_errors():
                kept.write(rows)
                kept.flush()
            hears.advance(len(places))
    return np.fromfile(file, np.float32).reshape(shape)
