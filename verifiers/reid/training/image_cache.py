"""On-disk cache of preprocessed images, so that every file is read once per training."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.read import read_image
from medsanitize.verifiers.reid.models.preprocess import Channels, Preprocessing, prepare
from medsanitize.verifiers.reid.training.training_dataset import TrainingDataset
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

CHUNK = 64


@dataclass(frozen=True, slots=True)
class PreprocessedImages:
    """Preprocessed images as bytes, with their patients.

    Attributes
    ----------
    values
        Shape (n, channels, size, size), memory-mapped; one channel for gray.
    patients
        Number of the patient of each image.
    how
        The preprocessing; mean and deviation are applied later.
    """

    values: NDArray[np.uint8]
    patients: NDArray[np.int64]
    how: Preprocessing

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, places: NDArray[np.intp], device: torch.device) -> Tensor:
        """Return images in [0, 1], float32, shape (len(places), channels, size, size)."""
        chosen = torch.from_numpy(np.ascontiguousarray(self.values[places]))
        return chosen.to(device, non_blocking=True).float() / 255

    def normalized(self, images: Tensor) -> Tensor:
        """Expand to three channels and normalize by mean and deviation."""
        mean, deviation = (
            torch.tensor(one, device=images.device).reshape(1, 3, 1, 1)
            for one in (self.how.mean, self.how.deviation)
        )
        return (images.expand(-1, 3, -1, -1) - mean) / deviation


def preprocess_images(
    examples: TrainingDataset, how: Preprocessing, file: Path, progress: Progress, cancellation: Cancellation
) -> PreprocessedImages:
    """Preprocess all images into a file, or use the file if it is complete.

    Parameters
    ----------
    examples : TrainingDataset
        The images.
    how : Preprocessing
        The preprocessing.
    file : Path
        The cache, in the folder of the unfinished training.
    progress : Progress
        Receives the progress.
    cancellation : Cancellation
        Checked regularly.
    """
    # Gray images are stored once and expanded in use: a third of the disk space.
    channels = 1 if how.channels is Channels.GRAY else 3
    shape = (len(examples), channels, how.size, how.size)
    if not (file.is_file() and file.stat().st_size == int(np.prod(shape))):
        partial = file.with_name(file.name + ".part")
        values = np.memmap(partial, np.uint8, "w+", shape=shape)
        progress.stage("prepare images", len(examples))
        for start, squares in _prepared(examples, how, channels):
            cancellation.check()
            values[start : start + len(squares)] = squares
            progress.advance(len(squares))
        values.flush()
        del values
        partial.replace(file)
    return PreprocessedImages(np.memmap(file, np.uint8, "r", shape=shape), examples.patients, how)


def _prepared(
    examples: TrainingDataset, how: Preprocessing, channels: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield chunks of preprocessed images in order; with many images, from several processes."""
    paths, kind = examples.paths, examples.modality
    chunks = [
        (start, paths[start : start + CHUNK], kind, how, channels) for start in range(0, len(paths), CHUNK)
    ]
    processes = min(os.cpu_count() or 1, 16)
    if len(chunks) < 16 or processes < 2:
        yield from map(_chunk, chunks)
        return
    # Not fork, which can deadlock once torch has started threads.
    with ProcessPoolExecutor(processes, get_context("forkserver"), _single_threaded) as pool:
        yield from pool.map(_chunk, chunks)


def _single_threaded() -> None:
    """Limit a process to one thread, as there is a process for every core."""
    threadpool_limits(1)


def _chunk(
    task: tuple[int, Sequence[Path], Modality, Preprocessing, int],
) -> tuple[int, NDArray[np.uint8]]:
    start, paths, kind, how, channels = task
    # Mean 0 and deviation 1: normalization comes after augmentation, which needs values in [0, 1].
    plain = Preprocessing(how.size, how.fit, how.channels, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    squares = [prepare(read_image(path, kind=kind), plain)[:channels] for path in paths]
    return start, np.rint(np.clip(np.stack(squares), 0, 1) * 255).astype(np.uint8)
