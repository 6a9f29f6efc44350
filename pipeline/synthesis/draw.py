"""Drawing synthetic images, letting the gate judge them, and drawing again in place of what it removes.

What is drawn is kept as it comes, so that a command that was stopped goes on where it was. An image is
named by its class and its place among the draws of that class; both and the key give its seed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches

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
MOST_AGAIN: Final = 10
"""Images are drawn again at most so many times as often as were asked for."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One image to draw: number of its class, place among the draws of the class, and seed."""

    label: int
    index: int
    seed: int


class SampleStore(Protocol):
    """Keeps what was drawn until all of it is done."""

    def get(self, name: str) -> bytes | None:
        """What was kept under a name."""

    def put(self, name: str, data: bytes) -> None:
        """Keep it."""


@dataclass(frozen=True, slots=True, repr=False)
class SamplingResult:
    """What came of it.

    Attributes
    ----------
    wanted
        Images asked for, by class.
    first, images, judged
        The draws that the verdict is about, fixed in number beforehand, their pixels, and the verdict.
    chosen, pixels
        Those that may stand for what was asked, by class and place, and their pixels.
    again, refused
        Images drawn in place of removed ones, and those of these that matched somebody.
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
        """How many images are missing."""
        return sum(self.wanted) - len(self.chosen)


Sampler = Callable[[Sequence[SampleRequest]], "NDArray[np.uint8]"]
"""Makes the images of some draws, ``(n, size, size)``, in their order."""


def machine_memory() -> int:
    """Bytes of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(images: int, generator: Generator, finds: Retrieval, scores: Verification) -> None:
    """Refuse images that cannot be held at once: pixels, drawn and chosen, and what models see of them.

    Raises
    ------
    UsageError
        When the machine's memory is smaller than that.
    """
    # Vectors are 32 bits a number; those of all images are put together from parts.
    each = 2 * generator.size**2 + 2 * 4 * (finds.dimension + scores.dimension)
    needed, there = images * each, machine_memory()
    if needed > there:
        raise UsageError(
            f"{images:,} synthetic images take at least {needed / 1e9:.1f} GB of memory, and this machine has"
            f" {there / 1e9:.1f} GB",
            "Ask for fewer images, or use a machine with more memory",
        )


def sample_images(
    wanted: Sequence[int],
    gate: PrivacyGate,
    sampler: Sampler,
    seed: Callable[[int, int], int],
    *,
    most: float,
) -> SamplingResult:
    """Draw as many images of each class as are wanted, that match nobody.

    Parameters
    ----------
    wanted : sequence of int
        Images by class; at least one in all.
    gate : PrivacyGate
        See `medsanitize.generators.privacy_gate.gate`.
    sampler : callable
    seed : callable
        The seed of a class and a place.
    most : float
        Upper bound of the match rate that the gate asks for: it fixes how many images are judged.
    """
    import numpy as np
    from medsanitize.generators.privacy_gate.parameters import images_needed

    first = _first(wanted, images_needed(most), seed)
    images = sampler(first)
    judged = gate.judge(images)
    kept: list[list[tuple[SampleRequest, Any]]] = [[] for _ in wanted]
    for one, image, keep in zip(first, images, judged.kept, strict=True):
        if keep and len(kept[one.label]) < wanted[one.label]:
            kept[one.label].append((one, image))
    again = refused = 0
    begun = [sum(one.label == label for one in first) for label in range(len(wanted))]
    # Without a threshold nobody can say of an image that it is better than the one it stands for.
    while judged.verdict.state != "failed" and not judged.verdict.threshold.needed:
        lacking = [number - len(held) for number, held in zip(wanted, kept, strict=True)]
        more = [
            SampleRequest(label, begun[label] + place, seed(label, begun[label] + place))
            for label, lack in enumerate(lacking)
            for place in range(lack)
        ]
        if not more or again + len(more) > MOST_AGAIN * sum(wanted):
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
    """The draws that are judged: at least so many, in the shares that are wanted."""
    counts = [max(pair) for pair in zip(wanted, apportion(least, wanted), strict=True)]
    return tuple(
        SampleRequest(label, index, seed(label, index))
        for label, number in enumerate(counts)
        for index in range(number)
    )


def apportion(total: int, shares: Sequence[int]) -> list[int]:
    """Whole numbers that add up to ``total``, in proportion to shares (largest remainders)."""
    whole = sum(shares)
    exact = [total * share / whole for share in shares]
    counts = [int(one) for one in exact]
    order = sorted(range(len(shares)), key=lambda place: (counts[place] - exact[place], place))
    for place in order[: total - sum(counts)]:
        counts[place] += 1
    return counts


def sampling_counts(drawn: SamplingResult) -> tuple[tuple[str, str], ...]:
    """The few numbers that come first on the holder's page."""
    verdict = drawn.judged.verdict
    return (
        ("Verdict", verdict.state),
        ("Generated (n)", f"{verdict.images:,}"),
        ("Match (k)", f"{verdict.matches:,}"),
        ("Bound (U)", f"{verdict.upper:.3%}"),
        ("Copies generated, at most", f"{verdict.copy_rate:.3%}"),
        ("Copies remaining, at most", f"{verdict.residual:.1e}"),
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
    """Quality beside the holdout, whom the generator never saw.

    Of the images that are given away, or of all that were drawn where those are fewer than can be measured:
    who must first find patients to calibrate on wants to know whether the generator is worth it.
    """
    import numpy as np
    from medsanitize.generators.quality.evaluate import measure
    from medsanitize.generators.quality.metrics import FEWEST, Sample

    of_all = drawn.judged.verdict.state == "failed" or len(drawn.chosen) < FEWEST
    of, pixels = (drawn.first, drawn.images) if of_all else (drawn.chosen, drawn.pixels)
    classes = np.array([one.label for one in of], np.int64) if generator.classes else None
    return measure(Sample(pixels, classes), holdout, progress, cancellation, of_all=of_all, nearest=nearest)


# -- making the images ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SamplerWorkers:
    """What each process that makes images is equipped with."""

    folder: Path
    device: str

    def worker(self) -> SamplerWorkers:
        """Itself: the generator is opened when it is first asked for an image."""
        return self


def worker_sampler(
    engine: Engine,
    task: Callable[[Any, Sequence[SampleRequest]], bytes],
    generator: Generator,
    store: SampleStore,
    on_images: Callable[[int], None],
) -> Sampler:
    """A sampler whose images are made by worker processes, and kept."""
    import numpy as np

    def key(part: Sequence[SampleRequest]) -> str:
        text = "\n".join(f"{one.label} {one.seed}" for one in part)
        return hashlib.sha256(f"{generator.digest}\n{text}".encode()).hexdigest()

    def sample(draws: Sequence[SampleRequest]) -> NDArray[np.uint8]:
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
    """Pixels of a batch, so many bytes; where its worker died, they come image by image."""
    content = b""
    while len(content) < size:
        one = next(results)
        if isinstance(one, WorkerCrashed):
            raise EnvironmentFailure(
                "A process that makes images died",
                "Use fewer workers or more memory, then run the command again",
            )
        content += one
    return content


def sample_batch(maker: SamplerWorkers, part: Sequence[SampleRequest]) -> bytes:
    """Make images: their pixels, one after another."""
    return generate_pixels(maker.folder, maker.device, part)


def generate_pixels(folder: Path, device: str, part: Sequence[SampleRequest]) -> bytes:
    """Pixels of some draws by the generator in a folder, on one thread where a CPU makes them."""
    import torch

    generator = open_generator_once(folder, device)
    threads = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        images = generator.sample([one.label for one in part], [one.seed for one in part])
    finally:
        torch.set_num_threads(threads)
    return images.tobytes()


@lru_cache(maxsize=1)
def open_generator_once(folder: Path, device: str) -> Generator:
    """The generator in a folder, opened once a process; errors as ``open_generator``."""
    from medsanitize.generators.diffusion.generator import open_generator

    return open_generator(folder, device)
