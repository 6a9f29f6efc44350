"""Perceptual hash of an image: nearly constant under re-encoding, resizing and changes of the window.

The bits of the hash are the 16 x 16 lowest frequencies (discrete cosine transform) of the image at 64 x 64
pixels, each above the median or not. It identifies copies of one exposure, not two exposures of a patient.

Uniform borders are cut off before, and mirrored and turned copies are found by their bits (`turned`).

On 621 chest radiographs, the hashes of two patients always differed in at least 70 of 256 bits (192,028
pairs), mirrored or turned in at least 80. Copies of 69 of them differed in at most 20 (JPEG of quality 50) or
30 bits (mirrored, turned by quarters, half the size, black border of 40 pixels). Of copies in white borders
94 % were found, as some images end in white, and of those cropped by 1 % on each side 97 %. Further cropping
and other angles are left to the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BITS: Final = 256
# Largest Hamming distance of near-duplicates: between copies (at most 30) and patients (at least 70).
MAX_HAMMING_DISTANCE: Final = 32
_SIDE: Final = 64
_LOW_FREQUENCIES: Final = 16
# Largest difference of gray values within a border.
_BORDER: Final = 6 / 255


def perceptual_hash(pixels: NDArray[np.float32]) -> bytes | None:
    """Compute the perceptual hash of an image.

    Parameters
    ----------
    pixels : array of float32, shape (rows, columns) or (rows, columns, 3)
        Values in [0, 1].

    Returns
    -------
    bytes or None
        32 bytes; None for a flat image, which would resemble every other flat image.
    """
    import numpy as np
    from PIL import Image

    gray = pixels if pixels.ndim == 2 else pixels @ np.array([0.299, 0.587, 0.114], np.float32)
    gray = without_border(gray)
    small = Image.fromarray(np.asarray(gray, np.float32)).resize((_SIDE, _SIDE), Image.Resampling.BOX)
    samples = np.asarray(small, np.float64)
    if np.ptp(samples) < 1 / 64:
        return None
    # Ranks instead of values: a window or gamma changes the values, but not their order.
    ranks = np.searchsorted(np.sort(samples, axis=None), samples, side="right")
    low = (_cosines() @ ranks @ _cosines().T).reshape(-1)
    bits = low > np.median(low)
    return np.packbits(bits).tobytes()


def without_border(gray: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cut off the uniform rows and columns at the edges; a flat image stays as it is.

    A row or column belongs to the border while it differs from the outermost one of its edge by at most
    `_BORDER`: JPEG leaves traces in what was uniform.
    """
    import numpy as np

    rows, columns = _inner(gray), _inner(gray.T)
    if rows is None or columns is None:
        return gray
    return np.ascontiguousarray(gray[rows, columns])


def _inner(gray: NDArray[np.float32]) -> slice | None:
    """Rows without those that are uniform at both ends; None if all are."""
    import numpy as np

    lowest, highest = gray.min(axis=1), gray.max(axis=1)
    ends = []
    for low, high in ((lowest, highest), (lowest[::-1], highest[::-1])):
        # Up to each row from the edge.
        uniform = np.maximum.accumulate(high) - np.minimum.accumulate(low) <= _BORDER
        ends.append(int(uniform.sum()))
    return slice(ends[0], len(gray) - ends[1]) if sum(ends) < len(gray) else None


def turned(hashes: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """Hashes of the same images mirrored and turned by quarters, eight in all; the first are those given.

    A mirror changes the sign of the odd frequencies in its direction, and a diagonal mirror exchanges rows
    and columns, so that the pixels are not needed. Where a frequency is near the median, its bit may differ.

    Parameters
    ----------
    hashes : array of uint8, shape (n, 32)
        Perceptual hashes.
    """
    import numpy as np

    bits = np.unpackbits(hashes, axis=1).reshape(-1, _LOW_FREQUENCIES, _LOW_FREQUENCIES)
    odd = (np.arange(1, _LOW_FREQUENCIES + 1) % 2).astype(np.uint8)
    masks = [np.zeros_like(odd)[:, None], odd[:, None], odd[None], odd[:, None] ^ odd[None]]
    return [
        np.packbits((one ^ mask).reshape(len(bits), -1), axis=1)
        for one in (bits, bits.transpose(0, 2, 1))
        for mask in masks
    ]


def _cosines() -> NDArray[np.float64]:
    """The first rows of the cosine transform without the constant one, shape (16, 64)."""
    import numpy as np

    places, orders = np.arange(_SIDE), np.arange(1, _LOW_FREQUENCIES + 1)
    return np.cos(np.pi * (2 * places[None] + 1) * orders[:, None] / (2 * _SIDE))


def near_duplicates(
    ours: NDArray[np.uint8], theirs: NDArray[np.uint8], most: int = MAX_HAMMING_DISTANCE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find the pairs of hashes with a Hamming distance of at most ``most``.

    Parameters
    ----------
    ours, theirs : array of uint8, shapes (n, 32) and (m, 32)
        Perceptual hashes.
    most : int
        Largest Hamming distance.

    Returns
    -------
    tuple of three arrays of int64
        Row of ``ours``, row of ``theirs`` and Hamming distance of each pair, sorted by row.
    """
    import faiss
    import numpy as np

    nothing = np.empty(0, np.int64)
    if not len(ours) or not len(theirs):
        return nothing, nothing, nothing
    index = faiss.IndexBinaryFlat(BITS)
    index.add(np.ascontiguousarray(theirs))
    # faiss returns distances strictly below the radius.
    limits, bits, rows = index.range_search(np.ascontiguousarray(ours), most + 1)
    first = np.repeat(np.arange(len(ours)), limits[1:].astype(np.int64) - limits[:-1].astype(np.int64))
    order = np.lexsort((rows, first))
    return first[order], rows[order].astype(np.int64), bits[order].astype(np.int64)
