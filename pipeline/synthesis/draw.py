"""Sampling of synthetic images, with a privacy gate and resampling in place of images that it removes.

Batches are stored as they finish, so an interrupted command resumes. An image is identified by its class and
its index within the class, from which, with the key, its seed is derived.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches
from medsanitize.pipeline.runtime.machine import machine_memory

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.generator import Generator
    from medsanitize.generators.privacy_gate.gate import GateResult, PrivacyGate
    from medsanitize.generators.privacy_gate.splits import Split
    from medsanitize.generators.quality.evaluate import QualityResult
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.models.protocols import Retrieval, Verification
    from numpy.typing import NDArray

BATCH: Final = 16
MAX_RESAMPLED: Final = 10
"""Limit of resampled images, as a multiple of the requested images."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """An image to sample: number of its class, index within the class, and seed."""

    label: int
    index: int
    seed: int


class SampleStore(Protocol):
    """Stores sampled batches until the command is done."""

    def get(self, name: str) -> bytes | None:
        """Return the batch of this name, or None."""

    def put(self, name: str, data: bytes) -> None:
        """Store a batch."""


@dataclass(frozen=True, slots=True, repr=False)
class SamplingResult:
    """The sampled images and the result of the privacy gate.

    Attributes
    ----------
    wanted : tuple of int
        Requested images by class.
    first, images, judged
        The samples that the verdict rests on, whose number is fixed beforehand; their pixels; the verdict.
    chosen, pixels
        The accepted samples, ordered by class and index, and their pixels.
    again, refused : int
        Images resampled in place of removed ones, and how many of these matched a patient.
    """

    wanted: tuple[int, ...]
    first: tuple[SampleRequest, ...]
    images: NDArray[np.uint8]
    judged: GateResult
    chosen: tuple[SampleRequest, ...]
    pixels: NDArray[np.uint8]
    again: int
    refused: int

    @property
    def shortfall(self) -> int:
        """Number of requested images that are missing."""
        return sum(self.wanted) - len(self.chosen)


Sampler = Callable[[Sequence[SampleRequest]], "NDArray[np.uint8]"]
"""Generates the images of requests, uint8 of shape ``(n, size, size)``, in their order."""


def require_memory(images: int, generator: Generator, finds: Retrieval, scores: Verification) -> None:
    """Refuse a number of images whose pixels and embeddings do not fit into memory.

    Parameters
    ----------
    images : int
        Number of images.
    generator : Generator
        Gives the size of an image.
    finds, scores
        Retrieval and verification model; they give the dimensions of the embeddings.

    Raises
    ------
    UsageError
        The machine has too little memory.
    """
    # Twice: all and accepted pixels; float32 vectors in parts and concatenated.
    each = 2 * generator.size**2 + 2 * 4 * (finds.dimension + scores.dimension)
    needed, there = images * each, machine_memory()
    if needed > there:
        raise UsageError(
            f"{images:,} synthetic images take at least {needed / 1e9:.1f} GB of memory, and this machine has"
            f" {there / 1e9:.1f} GB",
            "Ask for fewer images, or use a machine with more memory",
        )


def sample_images(
    wanted: Sequence[int], gate: PrivacyGate, sampler: Sampler, seed: Callable[[int, int], int]
) -> SamplingResult:
    """Sample the wanted number of images of each class that match no training patient.

    Parameters
    ----------
    wanted : sequence of int
        Requested images by class; the sum is at least one.
    gate : PrivacyGate
        See `medsanitize.generators.privacy_gate.gate`; its plan has the number of images to judge.
    sampler : callable
        Generates the images of requests.
    seed : callable
        Returns the seed of a class and an index.
    """
    import numpy as np

    # Fixed before any image is seen: a number that depended on the matches would void the bound.
    # Images that cannot pass are judged for the record, in the number that is wanted.
    first = _first(wanted, 0 if gate.needed else gate.plan.images, seed)
    images = sampler(first)
    judged = gate.judge(images)
    kept: list[list[tuple[SampleRequest, Any]]] = [[] for _ in wanted]
    for one, image, keep in zip(first, images, judged.kept, strict=True):
        if keep and len(kept[one.label]) < wanted[one.label]:
            kept[one.label].append((one, image))
    again = refused = 0
    begun = [sum(one.label == label for one in first) for label in range(len(wanted))]
    # Images that are not released need no replacement.
    while judged.verdict.passed:
        lacking = [number - len(held) for number, held in zip(wanted, kept, strict=True)]
        more = [
            SampleRequest(label, begun[label] + place, seed(label, begun[label] + place))
            for label, lack in enumerate(lacking)
            for place in range(lack)
        ]
        if not more or again + len(more) > MAX_RESAMPLED * sum(wanted):
            break
        fresh = sampler(more)
        for one, image, matched in zip(more, fresh, gate.match(fresh).matched, strict=True):
            begun[one.label] += 1
            refused += bool(matched)
            if not matched:
                kept[one.label].append((one, image))
        again += len(more)
    pairs = [pair for held in kept for pair in held]
    pixels = np.stack([image for _, image in pairs]) if pairs else images[:0]
    return SamplingResult(
        tuple(wanted), first, images, judged, tuple(one for one, _ in pairs), pixels, again, refused
    )


def _first(wanted: Sequence[int], least: int, seed: Callable[[int, int], int]) -> tuple[SampleRequest, ...]:
    """Return the requests that are judged: at least ``least``, in the proportions of ``wanted``."""
    counts = [max(pair) for pair in zip(wanted, apportion(least, wanted), strict=True)]
    return tuple(
        SampleRequest(label, index, seed(label, index))
        for label, number in enumerate(counts)
        for index in range(number)
    )


def apportion(total: int, shares: Sequence[int]) -> list[int]:
    """Divide ``total`` into integers in proportion to shares, by the largest remainder method."""
    whole = sum(shares)
    exact = [total * share / whole for share in shares]
    counts = [int(one) for one in exact]
    order = sorted(range(len(shares)), key=lambda place: (counts[place] - exact[place], place))
    for place in order[: total - sum(counts)]:
        counts[place] += 1
    return counts


def sampling_counts(drawn: SamplingResult) -> tuple[tuple[str, str], ...]:
    """Return name and value of the key figures at the top of the data controller's page."""
    verdict = drawn.judged.verdict
    return (
        ("Verdict", verdict.state),
        ("Generated (N)", f"{verdict.images:,}"),
        ("Match (k)", f"{verdict.matches:,}"),
        ("Bound of matches (U)", f"{verdict.upper:.3%}"),
        ("Calibration patients (n)", f"{verdict.threshold.patients:,}"),
        ("Missed, at most (beta)", f"{verdict.threshold.missed:.2%}"),
        ("Copies generated, at most", f"{verdict.copy_rate:.3%}"),
        ("Copies remaining, at most", f"{verdict.residual:.4%}"),
        ("Try", f"{verdict.terms.attempt:,}"),
        ("Requested", f"{sum(drawn.wanted):,}"),
        ("Accepted", f"{len(drawn.chosen):,}"),
    )


def measure_quality(
    drawn: SamplingResult,
    holdout: Split,
    generator: Generator,
    progress: Progress,
    cancellation: Cancellation,
    *,
    nearest: bool,
) -> QualityResult:
    """Measure the quality of sampled images against the holdout.

    The accepted images are measured, or all sampled ones if too few were accepted.

    Parameters
    ----------
    drawn : SamplingResult
        The sampled images.
    holdout : Split
        Patients that the generator was not trained on.
    generator : Generator
        Gives the classes.
    nearest : bool
        Whether to show the nearest real image of each synthetic one (contains PHI).
    """
    import numpy as np
    from medsanitize.generators.quality.evaluate import measure
    from medsanitize.generators.quality.metrics import MIN_IMAGES, Sample

    # Also without a verdict: whether calibrating is worth the effort depends on the quality of the generator.
    of_all = drawn.judged.verdict.state == "failed" or len(drawn.chosen) < MIN_IMAGES
    of, pixels = (drawn.first, drawn.images) if of_all else (drawn.chosen, drawn.pixels)
    classes = np.array([one.label for one in of], np.int64) if generator.classes else None
    return measure(Sample(pixels, classes), holdout, progress, cancellation, of_all=of_all, nearest=nearest)


# -- making the images ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SamplerWorkers:
    """Settings of the worker processes that generate images."""

    folder: Path
    device: str

    def worker(self) -> SamplerWorkers:
        """Return itself; the generator is opened by the first batch."""
        return self


def worker_sampler(
    engine: Engine,
    task: Callable[[Any, Sequence[SampleRequest]], bytes],
    generator: Generator,
    store: SampleStore,
    on_images: Callable[[int], None],
) -> Sampler:
    """Return a sampler that generates images in worker processes and stores finished batches.

    Parameters
    ----------
    engine : Engine
        Calls the workers.
    task : callable
        Generates the pixels of a batch in a worker.
    generator : Generator
        Gives digest and image size.
    store : SampleStore
        Keeps finished batches for a resumed command.
    on_images : callable
        Receives the number of images of each batch.
    """
    import numpy as np

    def key(part: Sequence[SampleRequest]) -> str:
        text = "\n".join(f"{one.label} {one.seed}" for one in part)
        return hashlib.sha256(f"{generator.digest}\n{text}".encode()).hexdigest()

    def sample(draws: Sequence[SampleRequest]) -> NDArray[np.uint8]:
        # Stored batches are skipped lazily, so the engine is only given what is missing.
        parts = list(batches(iter(draws), BATCH))
        missing = (part for part in parts if store.get(key(part)) is None)
        made = engine.map(task, missing)
        images = np.empty((len(draws), generator.size, generator.size), np.uint8)
        for start, part in zip(range(0, len(draws), BATCH), parts, strict=True):
            into = images[start : start + len(part)]
            held = store.get(key(part))
            if held is None:
                held = _made(made, into.nbytes)
                store.put(key(part), held)
            into[:] = np.frombuffer(held, np.uint8).reshape(into.shape)
            on_images(len(part))
        return images

    return sample


def _made(results: Iterator[bytes | WorkerCrashed[SampleRequest]], size: int) -> bytes:
    """Return ``size`` bytes of pixels; after a crash, the engine repeats a batch image by image."""
    content = b""
    while len(content) < size:
        one = next(results)
        if isinstance(one, WorkerCrashed):
            raise EnvironmentFailure(
                "A process that generates images ended unexpectedly",
                "Use fewer workers or more memory, then run the command again",
            )
        content += one
    return content


def sample_batch(maker: SamplerWorkers, part: Sequence[SampleRequest]) -> bytes:
    """Generate the pixels of a batch, concatenated."""
    return generate_pixels(maker.folder, maker.device, part)


def generate_pixels(folder: Path, device: str, part: Sequence[SampleRequest]) -> bytes:
    """Generate the pixels of requests with the generator in a folder, concatenated."""
    import torch

    generator = open_generator_once(folder, device)
    threads = torch.get_num_threads()
    # Several workers share the cores, so each of them uses one thread.
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        images = generator.sample([one.label for one in part], [one.seed for one in part])
    finally:
        torch.set_num_threads(threads)
    return images.tobytes()


@lru_cache(maxsize=1)
def open_generator_once(folder: Path, device: str) -> Generator:
    """Open the generator in a folder, once per process; raises what ``open_generator`` raises."""
    from medsanitize.generators.diffusion.generator import open_generator

    return open_generator(folder, device)
