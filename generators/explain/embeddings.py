"""What a model sees in a catalogue, and how alike its images are to those that are to be explained."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UnreadablePicture, UsageError
from medsanitize.generators.diffusion.preprocess import preprocess_image
from medsanitize.generators.explain.catalogue import CatalogueEntry
from medsanitize.generators.quality.ssim import Structure, similarity, structure
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.images.read import read_image

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.verifiers.reid.models.protocols import Encoder
    from medsanitize.verifiers.reid.training.dataset import Cancellation, TrainingProgress
    from numpy.typing import NDArray

SIDE: Final = 256
"""Pixels of a side at which structure is compared."""
OTHER_KIND: Final = "not a radiograph"
_BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class EmbeddedCatalogue:
    """A catalogue beside some images.

    Attributes
    ----------
    entries
        Those that could be read.
    vectors
        What the model sees in each, ``(n, d)``.
    queries
        What it sees in the images that are to be explained, ``(q, d)``.
    alike
        Structural similarity of each of those with each entry, ``(q, n)``.
    excluded
        Objects of the catalogue that are not in it, by reason.
    """

    entries: tuple[CatalogueEntry, ...]
    vectors: NDArray[np.float32]
    queries: NDArray[np.float32]
    alike: NDArray[np.float64]
    excluded: Mapping[str, int]


def embed_catalogue(
    catalogue: Sequence[CatalogueEntry],
    images: Sequence[ImageArray],
    model: Encoder,
    hears: TrainingProgress,
    stops: Cancellation,
) -> EmbeddedCatalogue:
    """Read every image of a catalogue once, a few at a time.

    Raises
    ------
    UsageError
        If an image that is to be explained is no radiograph, or none of the catalogue is.
    """
    import numpy as np

    if any(image.modality is not Modality.RADIOGRAPH for image in images):
        raise UsageError(
            "An image to explain is a slide or in colour, and explanations are made for radiographs",
            "Give a grey image",
        )
    asked = [_structure(image) for image in images]
    hears.stage("catalogue", len(catalogue))
    chunks = [catalogue[start : start + _BATCH] for start in range(0, len(catalogue), _BATCH)]
    entries: list[CatalogueEntry] = []
    vectors: list[NDArray[np.float32]] = []
    alike: list[list[float]] = []
    excluded: Counter[str] = Counter()
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
    try:
        for chunk, part in zip(chunks, pool.map(lambda one: _part(one, asked, model), chunks), strict=True):
            entries += part.entries
            vectors.append(part.vectors)
            alike += part.alike
            excluded += part.excluded
            hears.advance(len(chunk))
            stops.check()
    finally:
        pool.shutdown(cancel_futures=True)
    if not entries:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(excluded.items()))
        raise UsageError(f"No image of the catalogue can be compared ({reasons})", "Name another catalogue")
    return EmbeddedCatalogue(
        tuple(entries),
        np.concatenate(vectors),
        model.embed(images),
        np.array(alike).T,
        dict(sorted(excluded.items())),
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """What was found of a few entries; ``alike`` has a row an entry."""

    entries: list[CatalogueEntry]
    vectors: NDArray[np.float32]
    alike: list[list[float]]
    excluded: Counter[str]


def _part(chunk: Sequence[CatalogueEntry], asked: Sequence[Structure], model: Encoder) -> _Part:
    entries, pictures, excluded = [], [], Counter[str]()
    for entry in chunk:
        try:
            picture = read_image(entry.file)
        except UnreadablePicture as refused:
            excluded[f"not readable: {refused.rule}"] += 1
            continue
        if picture.modality is not Modality.RADIOGRAPH:
            excluded[OTHER_KIND] += 1
            continue
        entries.append(entry)
        pictures.append(picture)
    alike = [[similarity(one, other) for one in asked] for other in map(_structure, pictures)]
    return _Part(entries, model.embed(pictures), alike, excluded)


def _structure(picture: ImageArray) -> Structure:
    import numpy as np

    return structure(np.asarray(preprocess_image(picture, SIDE) / np.float32(255), np.float32))
