"""On-disk cache of features, from which an interrupted training continues."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray

_NUMBER = np.dtype(np.float32).itemsize


def name_of(examples: TrainingDataset, *facts: object) -> str:
    """Return the cache name for features of these images, in this order, computed as ``facts`` describe."""
    facts_text = "\n".join((examples.digest, *map(str, examples.paths), *map(repr, facts)))
    return hashlib.sha256(facts_text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def cached_features(
    file: Path,
    shape: tuple[int, int],
    batch: int,
    compute: Callable[[range], NDArray[np.float32]],
    progress: Progress,
    cancellation: Cancellation,
) -> NDArray[np.float32]:
    """Compute features in batches into a file, continuing after those that it already holds.

    Parameters
    ----------
    file : Path
        The cache, readable by its owner only; in the folder of the unfinished training.
    shape : (int, int)
        Number and length of the rows.
    batch : int
        Rows per call of ``compute``.
    compute : callable
        Computes the rows of a range, float32, shape (len, length).
    progress : Progress
        Receives the number of finished rows.
    cancellation : Cancellation
        Checked before every batch.

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
        # An interrupted write may have left part of a row.
        whole = min(os.fstat(descriptor).st_size // (_NUMBER * length), count)
        # Rows of an unfinished batch are computed again, so that batches equal those of an uninterrupted run.
        done = whole if whole == count else whole // batch * batch
        kept.truncate(done * _NUMBER * length)
        kept.seek(0, os.SEEK_END)
        progress.advance(done)
        for start in range(done, count, batch):
            cancellation.check()
            places = range(start, min(start + batch, count))
            rows = compute(places).astype(np.float32).tobytes()
            with storage_errors():
                kept.write(rows)
                kept.flush()
            progress.advance(len(places))
    return np.fromfile(file, np.float32).reshape(shape)
