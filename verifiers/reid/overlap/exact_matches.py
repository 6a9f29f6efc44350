"""Images that are the same: by their bytes, by their pixels, by their perceptual hash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
from medsanitize.verifiers.reid.overlap.perceptual_hash import BITS, near_duplicates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IndexPair = tuple[int, int]
"""Image of one dataset, image of the other."""


def equal_digests(ours: Sequence[bytes | None], theirs: Sequence[bytes | None]) -> Iterator[IndexPair]:
    """Yield the places of equal digests, in order."""
    where: dict[bytes, list[int]] = defaultdict(list)
    for place, digest in enumerate(theirs):
        if digest is not None:
            where[digest].append(place)
    for place, digest in enumerate(ours):
        if digest is not None:
            yield from ((place, other) for other in where.get(digest, ()))


def near_duplicate_pairs(one: DatasetFingerprint, other: DatasetFingerprint) -> dict[IndexPair, int]:
    """Pairs whose fingerprints are those of copies of one exposure, and the bits that differ."""
    ours, ours_at = _prints(one)
    theirs, theirs_at = _prints(other)
    first, second, bits = near_duplicates(ours, theirs)
    return {
        (int(ours_at[i]), int(theirs_at[j])): int(apart)
        for i, j, apart in zip(first, second, bits, strict=True)
    }


def is_hash_discriminative(dataset: DatasetFingerprint) -> bool:
    """Whether fingerprints tell the images of this dataset apart: no two patients have almost the same one.

    Where they do not (slices of one machine, drawn pictures), a common look proves nothing. Copies by pixels
    do not count: they are copies whatever they are called. Images of unknown patients do not count either:
    they may be of one patient.
    """
    for (one, other), _ in near_duplicate_pairs(dataset, dataset).items():
        known = dataset.names[dataset.patients[one]] and dataset.names[dataset.patients[other]]
        differ = dataset.patients[one] != dataset.patients[other]
        same = dataset.pixels[one] is not None and dataset.pixels[one] == dataset.pixels[other]
        if known and differ and not same:
            return False
    return True


def _prints(dataset: DatasetFingerprint) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    import numpy as np

    places = [place for place, found in enumerate(dataset.perceptual_hashes) if found is not None]
    joined = b"".join(found for found in dataset.perceptual_hashes if found is not None)
    return np.frombuffer(joined, np.uint8).reshape(len(places), BITS // 8), np.array(places, np.int64)
