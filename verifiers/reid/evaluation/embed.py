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
from medsanitize.verifiers.reid.images.kinds import (
    OTHER_SLICE,
    STATE_IT,
    UNKNOWN,
    one_of_each_series,
    reason_of,
)
from medsanitize.verifiers.reid.images.read import ImageRegion, read_image

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Encoder
    from numpy.typing import NDArray

_BATCH: Final = 16
_SAMPLE: Final = 25

OnBatch = Callable[[int], None]
Slice = tuple[str, float]


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
    slices
        Series and position of the image of each row; empty and 0 for images that are no slices.
    """

    vectors: tuple[NDArray[np.float32], ...]
    places: NDArray[np.intp]
    excluded: Mapping[str, int]
    slices: tuple[Slice, ...] = ()


def embed_files(
    paths: Sequence[Path],
    encoders: Sequence[Encoder],
    *,
    kinds: Sequence[Modality | None] | None = None,
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
    kinds : sequence of Modality or None, optional
        The stated kind of each image, for files that do not state it.
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

    modality, kinds = _one_modality(encoders), kinds or [None] * len(paths)
    chunks = [range(start, min(start + _BATCH, len(paths))) for start in range(0, len(paths), _BATCH)]

    def work(chunk: range) -> tuple[list[int], list[NDArray[np.float32]], Counter[str], list[Slice]]:
        read = [(place, _read(paths[place], part, modality, kinds[place])) for place in chunk]
        kept = [(place, one) for place, one in read if isinstance(one, ImageArray)]
        reasons = Counter(one for _, one in read if isinstance(one, str))
        pictures = [one for _, one in kept]
        slices = [(one.series, one.position) for one in pictures]
        return [place for place, _ in kept], [one.embed(pictures) for one in encoders], reasons, slices

    places: list[int] = []
    slices: list[Slice] = []
    parts: list[list[NDArray[np.float32]]] = []
    excluded: Counter[str] = Counter()
    # process_cpu_count (Python 3.13) respects the CPU affinity, cpu_count does not.
    threads = min(os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1, 8)
    # Threads suffice: ONNX Runtime and most decoders release the GIL.
    pool = ThreadPoolExecutor(threads)
    try:
        for chunk, (kept, vectors, reasons, seen) in zip(chunks, pool.map(work, chunks), strict=True):
            slices += seen
            places += kept
            parts.append(vectors)
            excluded += reasons
            done(len(chunk))
    finally:
        # On cancellation, images that are queued must not be read first.
        pool.shutdown(cancel_futures=True)
    if not places:
        reasons_told = ", ".join(f"{reason}: {count}" for reason, count in sorted(excluded.items()))
        remedy = STATE_IT if any(UNKNOWN in one for one in excluded) else "Check the images and the model"
        raise UsageError(f"No image can be compared ({reasons_told})", remedy)
    return EmbeddedImages(
        tuple(np.concatenate([part[n] for part in parts]) for n in range(len(encoders))),
        np.array(places, dtype=np.intp),
        dict(sorted(excluded.items())),
        tuple(slices),
    )


def middle_slices(embedded: EmbeddedImages, patients: Sequence[str], series: Sequence[str]) -> EmbeddedImages:
    """Keep one slice of each series; see `medsanitize.verifiers.reid.images.kinds.one_of_each_series`.

    Parameters
    ----------
    embedded : EmbeddedImages
        Slices of one kind, such as CT of the head.
    patients, series : sequence of str
        Of each image, as the table states them; the series of a header is used where the table has none.
    """
    rows = one_of_each_series(
        [patients[place] for place in embedded.places],
        [series[place] or seen for place, (seen, _) in zip(embedded.places, embedded.slices, strict=True)],
        [position for _, position in embedded.slices],
    )
    left = len(embedded.places) - len(rows)
    return EmbeddedImages(
        tuple(one[rows] for one in embedded.vectors),
        embedded.places[rows],
        dict(sorted({**embedded.excluded, **({OTHER_SLICE: left} if left else {})}.items())),
        tuple(embedded.slices[row] for row in rows),
    )


def modality_of(paths: Sequence[Path], kinds: Sequence[Modality | None] | None = None) -> Modality:
    """Return the most frequent kind of the first 25 readable images, for folders without a model.

    Raises
    ------
    UsageError
        If no image can be read, or none states its kind.
    """
    read = (_read(path, ImageRegion.WHOLE, None, kind) for path, kind in _stated(paths, kinds))
    seen = list(islice((one for one in read if isinstance(one, ImageArray)), _SAMPLE))
    found = Counter(one.modality for one in seen if one.modality is not None)
    if not seen:
        raise UsageError("None of the images can be read", "Use DICOM, whole-slide, PNG, JPEG or TIFF files")
    if not found:
        raise UsageError("The images are of unknown kind", STATE_IT)
    return found.most_common(1)[0][0]


def _stated(
    paths: Sequence[Path], kinds: Sequence[Modality | None] | None
) -> Iterator[tuple[Path, Modality | None]]:
    return zip(paths, kinds or [None] * len(paths), strict=True)


def _read(
    path: Path, part: ImageRegion, modality: Modality | None, kind: Modality | None
) -> ImageArray | str:
    """An image, or the reason why there is none."""
    try:
        picture = read_image(path, kind=kind, part=part)
    except UnreadablePicture as refused:
        return f"not readable: {refused.rule}"
    return picture if modality is None else reason_of(picture, modality) or picture


def _one_modality(encoders: Sequence[Encoder]) -> Modality:
    kinds = {one.modality for one in encoders}
    if len(kinds) != 1:
        raise UsageError(
            "The two models are for different modalities", "Use two models for the same modality"
        )
    return kinds.pop()
