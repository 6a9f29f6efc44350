"""Near comparisons by two processes of SPU, as two hospitals run them, on sockets in one folder."""

from __future__ import annotations

import asyncio
import platform
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.near.install import SPU
from medsanitize.federation.near.process import NearPlan, Opened, open_spu
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.federation.transport.https_server import Near, serve
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
    with open_spu(library) as asking, open_spu(library) as answering:
        own, other = both_processes(
            lambda sockets: asking.compare(plan, ours, rank=0, sockets=sockets),
            lambda sockets: answering.compare(plan, theirs, rank=1, sockets=sockets),
        )
        return asking.open(plan, own, other)


def both_processes(
    asking: Callable[[tuple[Path, Path]], list[bytes]], answering: Callable[[tuple[Path, Path]], list[bytes]]
) -> tuple[list[bytes], list[bytes]]:
    """Run the steps of both parties at once, on sockets in one folder; their shares."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as both:
        sockets = Path(folder) / "asking", Path(folder) / "answering"
        own = both.submit(asking, sockets)
        other = both.submit(answering, (sockets[1], sockets[0]))
        return own.result(), other.result()


@contextmanager
def serving_line(party: LocalParty, partner: Identity, near: Callable[[], Near]) -> Iterator[str]:
    """Serve in a thread what ``near`` (called in the loop) does with a connection; yields its address."""
    ports, ready, ends = list[int](), threading.Event(), list[Any]()

    def started(port: int) -> None:
        ports.append(port)
        ready.set()

    async def served() -> None:
        stop = asyncio.Event()
        ends.extend([asyncio.get_running_loop(), stop])
        await serve(
            party,
            {partner.name: partner},
            ("127.0.0.1", 0),
            lambda _, __: b"",
            most_bytes=1 << 20,
            started=started,
            stop=stop,
            near=near(),
        )

    thread = threading.Thread(target=lambda: asyncio.run(served()))
    thread.start()
    try:
        assert ready.wait(30)
        yield f"https://127.0.0.1:{ports[0]}"
    finally:
        ends[0].call_soon_threadsafe(ends[1].set)
        thread.join(60)


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
