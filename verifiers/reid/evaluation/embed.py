"""Reads images and computes their embeddings in threads; images that cannot be read are counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UnreadablePicture, UsageError
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.images.read import ImageRegion, read_image

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Encoder
    from numpy.typing import NDArray

_BATCH: Final = 16
_SAMPLE: Final = 25

OnBatch = Callable[[int], None]


def _silent(count: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class EmbeddedImages:
    """Embeddings of the images that could be read.

    Attributes
    ----------
    vectors
        One array per encoder, shape (len(places), dimension).
    places
        Index of the image of each row among the given ones.
    excluded
        Number of images without an embedding, by reason.
    """

    vectors: tuple[NDArray[np.float32], ...]
    places: NDArray[np.intp]
    excluded: Mapping[str, int]


def embed_files(
    paths: Sequence[Path],
    encoders: Sequence[Encoder],
    *,
    part: ImageRegion = ImageRegion.WHOLE,
    done: OnBatch = _silent,
) -> EmbeddedImages:
    """Embed images with one or more encoders, reading each image once.

    Images that cannot be read, or are not of the modality of the encoders, are counted in ``excluded``.

    Parameters
    ----------
    paths : sequence of Path
        The images.
    encoders : sequence of Encoder
        Models of one modality.
    part : ImageRegion
        Region of the images to embed.
    done : callable
        Called with the number of images finished since the last call; may raise to cancel.

    Raises
    ------
    UsageError
        If no image is left, or the encoders are for different modalities.
    """
    import numpy as np

    modality = _one_modality(encoders)
    chunks = [range(start, min(start + _BATCH, len(paths))) for start in range(0, len(paths), _BATCH)]

    def work(chunk: range) -> tuple[list[int], list[NDArray[np.float32]], Counter[str]]:
        read = [(place, _read(paths[place], part, modality)) for place in chunk]
        kept = [(place, one) for place, one in read if isinstance(one, ImageArray)]
        reasons = Counter(one for _, one in read if isinstance(one, str))
        pictures = [one for _, one in kept]
        return [place for place, _ in kept], [one.embed(pictures) for one in encoders], reasons

    places: list[int] = []
    parts: list[list[NDArray[np.float32]]] = []
    excluded: Counter[str] = Counter()
    # process_cpu_count (Python 3.13) respects the CPU affinity, cpu_count does not.
    threads = min(os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1, 8)
    # Threads suffice: ONNX Runtime and most decoders release the GIL.
    pool = ThreadPoolExecutor(threads)
    try:
        for chunk, (kept, vectors, reasons) in zip(chunks, pool.map(work, chunks), strict=True):
            places += kept
            parts.append(vectors)
            excluded += reasons
            done(len(chunk))
    finally:
        # On cancellation, images that are queued must not be read first.
        pool.shutdown(cancel_futures=True)
    if not places:
        reasons_told = ", ".join(f"{reason}: {count}" for reason, count in sorted(excluded.items()))
        raise UsageError(f"No image can be compared ({reasons_told})", "Check the images and the model")
    return EmbeddedImages(
        tuple(np.concatenate([part[n] for part in parts]) for n in range(len(encoders))),
        np.array(places, dtype=np.intp),
        dict(sorted(excluded.items())),
    )


def modality_of(paths: Sequence[Path]) -> Modality:
    """Return the most frequent modality of the first 25 readable images, for folders without a model.

    Raises
    ------
    UsageError
        If no image can be read.
    """
    found = Counter(one.modality for one in islice(_readable(paths), _SAMPLE))
    if not found:
        raise UsageError("None of the images can be read", "Use DICOM, whole-slide, PNG, JPEG or TIFF files")
    return found.most_common(1)[0][0]


def _readable(paths: Sequence[Path]) -> Iterator[ImageArray]:
    for path in paths:
        one = _read(path, ImageRegion.WHOLE, None)
        if isinstance(one, ImageArray):
            yield one


def _read(path: Path, part: ImageRegion, modality: Modality | None) -> ImageArray | str:
    """An image, or the reason why there is none."""
    try:
        picture = read_image(path, part=part)
    except UnreadablePicture as refused:
        return f"not readable: {refused.rule}"
    if modality is not None and picture.modality is not modality:
        return f"a {picture.modality}, and the model is for a {modality}"
    return picture


def _one_modality(encoders: Sequence[Encoder]) -> Modality:
    kinds = {one.modality for one in encoders}
    if len(kinds) != 1:
        raise UsageError(
            "The two models are for different modalities", "Use two models for the same modality"
        )
    return kinds.pop()
