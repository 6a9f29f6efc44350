"""Near comparisons by two processes of SPU, as two hospitals run them, on sockets in one folder."""

from __future__ import annotations

import platform
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.near.install import SPU
from medsanitize.federation.near.process import NearPlan, Opened, open_spu
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.index.search import VectorSearch
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings
from numpy.typing import NDArray


def installed_spu(folder: Path) -> Path:
    """Install the library of near comparisons as `party install --near` does; skips where it has no wheel."""
    system = (sys.platform, platform.machine())
    if sys.version_info[:2] != (3, 11) or system not in {("linux", "x86_64"), ("darwin", "arm64")}:
        pytest.skip("SPU has wheels for Python 3.11 on Linux (x86-64) and macOS (arm64) only")
    install_library(SPU, folder, None)
    return SPU.of(folder)


def compared(library: Path, plan: NearPlan, ours: NDArray[np.int16], theirs: NDArray[np.int16]) -> Opened:
    """Compare the embeddings of two parties, each in its own process, and open the result."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as both:
        sockets = Path(folder) / "asking", Path(folder) / "answering"
        with open_spu(library) as asking, open_spu(library) as answering:
            own = both.submit(asking.compare, plan, ours, rank=0, sockets=sockets)
            other = both.submit(answering.compare, plan, theirs, rank=1, sockets=(sockets[1], sockets[0]))
            return asking.open(plan, own.result(), other.result())


def fingerprint(people: NDArray[np.float64], images: int, *, noise: float, seed: int) -> DatasetFingerprint:
    """A dataset of radiographs: for each person ``images`` embeddings around that person's own."""
    draw = np.random.default_rng(seed)
    vectors = np.repeat(people, images, axis=0)
    vectors = vectors + noise * draw.normal(size=vectors.shape) / np.sqrt(vectors.shape[1])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    count, numbers = len(vectors), np.repeat(np.arange(len(people)), images)
    nothing = (None,) * count
    search = VectorSearch(vectors.astype(np.float32))
    return DatasetFingerprint(
        title="The release",
        images=(),
        patients=numbers,
        names=tuple(f"p{number}" for number in range(len(people))),
        digests=nothing,
        pixels=nothing,
        perceptual_hashes=nothing,
        stamps=("",) * count,
        vectors={Modality.RADIOGRAPH: Embeddings(np.arange(count), numbers, search, None)},
        unread={},
        non_images=0,
    )
