"""Embeddings of a catalog, and its structural similarity to the images to be explained."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UnreadablePicture, UsageError
from medsanitize.generators.diffusion.preprocess import preprocess_image
from medsanitize.generators.explain.catalog import CatalogEntry
from medsanitize.generators.quality.ssim import Structure, similarity, structure
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.images.read import read_image

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.models.protocols import Encoder
    from numpy.typing import NDArray

# SSIM is computed at 256 px, so that images of all sizes compare.
SIDE: Final = 256
# Width and height of the pictures by which near-identical images are found.
SMALL: Final = 32
OTHER_KIND: Final = "not a radiograph"
# Small, so that a cancellation takes effect soon.
_BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class EmbeddedCatalog:
    """Embeddings of a catalog and of the images to be explained.

    Attributes
    ----------
    entries
        The readable entries.
    vectors
        Their embeddings, ``(n, d)``.
    queries
        Embeddings of the images to be explained, ``(q, d)``.
    alike
        SSIM of each of those with each entry, ``(q, n)``.
    excluded
        Number of excluded entries by reason.
    small
        Small pictures of the entries, ``(n, SMALL ** 2)``, of mean 0 and norm 1: their inner product is the
        correlation of two pictures.
    """

    entries: tuple[CatalogEntry, ...]
    vectors: NDArray[np.float32]
    queries: NDArray[np.float32]
    alike: NDArray[np.float64]
    excluded: Mapping[str, int]
    small: NDArray[np.float32]


def embed_catalog(
    catalog: Sequence[CatalogEntry],
    images: Sequence[ImageArray],
    model: Encoder,
    progress: Progress,
    cancellation: Cancellation,
) -> EmbeddedCatalog:
    """Read and embed every image of a catalog once, in batches.

    Parameters
    ----------
    catalog
        The entries.
    images
        The images to be explained.
    model
        Its embeddings are compared.
    progress, cancellation
        Progress and cancellation.

    Raises
    ------
    UsageError
        If an image to be explained is not a radiograph, or no catalog entry is one.
    """
    import numpy as np

    if any(image.modality is not Modality.RADIOGRAPH for image in images):
        raise UsageError(
            "An image to explain is of another kind; only radiographs are supported",
            "Pass a radiograph",
        )
    structures = [_structure(image) for image in images]
    progress.stage("catalog", len(catalog))
    chunks = [catalog[start : start + _BATCH] for start in range(0, len(catalog), _BATCH)]
    entries: list[CatalogEntry] = []
    vectors: list[NDArray[np.float32]] = []
    alike: list[list[float]] = []
    small: list[NDArray[np.float32]] = []
    excluded: Counter[str] = Counter()
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 8))
    try:
        # map() keeps the order of the catalog, which decides between equal distances.
        for chunk, part in zip(
            chunks, pool.map(lambda one: _part(one, structures, model), chunks), strict=True
        ):
            entries += part.entries
            vectors.append(part.vectors)
            alike += part.alike
            small += part.small
            excluded += part.excluded
            progress.advance(len(chunk))
            cancellation.check()
    finally:
        pool.shutdown(cancel_futures=True)
    if not entries:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(excluded.items()))
        raise UsageError(f"No image of the catalog can be compared ({reasons})", "Pass another catalog")
    return EmbeddedCatalog(
        tuple(entries),
        np.concatenate(vectors),
        model.embed(images),
        np.array(alike).T,
        dict(sorted(excluded.items())),
        np.stack(small),
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Results of a batch of entries; ``alike`` and ``small`` have one row per entry."""

    entries: list[CatalogEntry]
    vectors: NDArray[np.float32]
    alike: list[list[float]]
    excluded: Counter[str]
    small: list[NDArray[np.float32]]


def _part(chunk: Sequence[CatalogEntry], structures: Sequence[Structure], model: Encoder) -> _Part:
    entries, pictures, excluded = [], [], Counter[str]()
    for entry in chunk:
        try:
            picture = read_image(entry.file, kind=Modality.RADIOGRAPH)
        except UnreadablePicture as refused:
            excluded[f"not readable: {refused.rule}"] += 1
            continue
        if picture.modality is not Modality.RADIOGRAPH:
            excluded[OTHER_KIND] += 1
            continue
        entries.append(entry)
        pictures.append(picture)
    squares = [_square(picture) for picture in pictures]
    alike = [[similarity(one, other) for one in structures] for other in map(structure, squares)]
    return _Part(entries, model.embed(pictures), alike, excluded, [small_picture(one) for one in squares])


def _structure(picture: ImageArray) -> Structure:
    return structure(_square(picture))


def _square(picture: ImageArray) -> NDArray[np.float32]:
    import numpy as np

    return np.asarray(preprocess_image(picture, SIDE) / np.float32(255), np.float32)


def small_picture(square: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale a square of ``SIDE`` pixels down to ``SMALL`` by block means; flat, of mean 0 and norm 1."""
    import numpy as np

    block = SIDE // SMALL
    flat = square.reshape(SMALL, block, SMALL, block).mean((1, 3)).ravel()
    flat = flat - flat.mean()
    # A blank picture correlates with nothing.
    return np.asarray(flat / max(float(np.linalg.norm(flat)), 1e-6), np.float32)
