"""The images of a training, prepared once and kept as bytes on disk, so that an epoch reads no file twice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from medsanitize.verifiers.reid.images.read import read_image
from medsanitize.verifiers.reid.models.preprocess import Channels, Preprocessing, prepare
from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingDataset, TrainingProgress
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

CHUNK = 64


@dataclass(frozen=True, slots=True)
class PreprocessedImages:
    """Images as ``(n, channels, size, size)`` bytes, one channel for grey, with their patients.

    Attributes
    ----------
    values
        Mapped from a file where there are too many for the memory.
    patients
        Number of each image's patient.
    how
        What made the squares and what is still to be done: mean and deviation.
    """

    values: NDArray[np.uint8]
    patients: NDArray[np.int64]
    how: Preprocessing

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, places: NDArray[np.intp], device: torch.device) -> Tensor:
        """Images in [0, 1], ``(len(places), channels, size, size)`` float32."""
        chosen = torch.from_numpy(np.ascontiguousarray(self.values[places]))
        return chosen.to(device, non_blocking=True).float() / 255

    def normalised(self, images: Tensor) -> Tensor:
        """Three channels, less the mean, by the deviation."""
        mean, deviation = (
            torch.tensor(one, device=images.device).reshape(1, 3, 1, 1)
            for one in (self.how.mean, self.how.deviation)
        )
        return (images.expand(-1, 3, -1, -1) - mean) / deviation


def preprocess_images(
    examples: TrainingDataset, how: Preprocessing, file: Path, hears: TrainingProgress, stops: Cancellation
) -> PreprocessedImages:
    """Prepare all images into a file, or take the file where it is complete.

    The file lies in the folder of the unfinished training and goes with it.
    """
    channels = 1 if how.channels is Channels.GREY else 3
    shape = (len(examples), channels, how.size, how.size)
    if not (file.is_file() and file.stat().st_size == int(np.prod(shape))):
        partial = file.with_name(file.name + ".part")
        values = np.memmap(partial, np.uint8, "w+", shape=shape)
        hears.stage("prepare images", len(examples))
        for start, squares in _prepared(examples.paths, how, channels):
            stops.check()
            values[start : start + len(squares)] = squares
            hears.advance(len(squares))
        values.flush()
        del values
        partial.replace(file)
    return PreprocessedImages(np.memmap(file, np.uint8, "r", shape=shape), examples.patients, how)


def _prepared(
    paths: Sequence[Path], how: Preprocessing, channels: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Squares of chunks of images in order; by several processes where there are images enough."""
    chunks = [(start, paths[start : start + CHUNK], how, channels) for start in range(0, len(paths), CHUNK)]
    processes = min(os.cpu_count() or 1, 16)
    if len(chunks) < 16 or processes < 2:
        yield from map(_chunk, chunks)
        return
    with ProcessPoolExecutor(processes, get_context("forkserver"), _alone) as pool:
        yield from pool.map(_chunk, chunks)


def _alone() -> None:
    """One thread in a process for every core: more would only wait for one another."""
    threadpool_limits(1)


def _chunk(
    task: tuple[int, Sequence[Path], Preprocessing, int],
) -> tuple[int, NDArray[np.uint8]]:
    start, paths, how, channels = task
    plain = Preprocessing(how.size, how.fit, how.channels, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    squares = [prepare(read_image(path), plain)[:channels] for path in paths]
    return start, np.rint(np.clip(np.stack(squares), 0, 1) * 255).astype(np.uint8)
