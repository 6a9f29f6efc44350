"""Equal images: by bytes, by pixels and by perceptual hash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
from medsanitize.verifiers.reid.overlap.perceptual_hash import BITS, near_duplicates, turned

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IndexPair = tuple[int, int]
"""Number of an image of one dataset, number of an image of the other."""


def equal_digests(ours: Sequence[bytes | None], theirs: Sequence[bytes | None]) -> Iterator[IndexPair]:
    """Yield the index pairs of equal digests, in order."""
    where: dict[bytes, list[int]] = defaultdict(list)
    for place, digest in enumerate(theirs):
        if digest is not None:
            where[digest].append(place)
    for place, digest in enumerate(ours):
        if digest is not None:
            yield from ((place, other) for other in where.get(digest, ()))


def near_duplicate_pairs(one: DatasetFingerprint, other: DatasetFingerprint) -> dict[IndexPair, int]:
    """Find near-duplicates: index pairs with the Hamming distance of their perceptual hashes.

    Of an image that is mirrored or turned by quarters in one of the datasets, the least distance counts.
    """
    ours, ours_at = _prints(one)
    theirs, theirs_at = _prints(other)
    found: dict[IndexPair, int] = {}
    for hashes in turned(ours) if len(ours) else []:
        first, second, bits = near_duplicates(hashes, theirs)
        for i, j, apart in zip(first.tolist(), second.tolist(), bits.tolist(), strict=True):
            pair = int(ours_at[i]), int(theirs_at[j])
            found[pair] = min(found.get(pair, apart), apart)
    return dict(sorted(found.items()))


def is_hash_discriminative(dataset: DatasetFingerprint) -> bool:
    """Whether no two patients of a dataset have nearly equal perceptual hashes.

    Otherwise (slices of one machine, drawings) nearly equal hashes prove nothing. Images with equal pixels do
    not count, since they are copies under any patient ID, and neither do images of unknown patients, who may
    be the same.
    """
    for (one, other), _ in near_duplicate_pairs(dataset, dataset).items():
        known = dataset.names[dataset.patients[one]] and dataset.names[dataset.patients[other]]
        differ = dataset.patients[one] != dataset.patients[other]
        # None == None: images without decoded pixels are not equal.
        same = dataset.pixels[one] is not None and dataset.pixels[one] == dataset.pixels[other]
        if known and differ and not same:
            return False
    return True


def _prints(dataset: DatasetFingerprint) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    import numpy as np

    places = [place for place, found in enumerate(dataset.perceptual_hashes) if found is not None]
    joined = b"".join(found for found in dataset.perceptual_hashes if found is not None)
    return np.frombuffer(joined, np.uint8).reshape(len(places), BITS // 8), np.array(places, np.int64)
