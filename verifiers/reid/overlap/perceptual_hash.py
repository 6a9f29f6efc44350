"""A fingerprint of how a picture looks: almost the same after re-encoding, resizing or another window.

The lowest 16 x 16 frequencies of the picture at 64 x 64 pixels (discrete cosine transform), each a bit: above
the median or not. It says that two files show one exposure, not that two exposures show one patient.

On 621 chest radiographs no two of different patients differed in fewer than 70 of the 256 bits (192,028
pairs), and copies (JPEG of quality 50, half the size, gamma 0.6) in no more than 18; a crop of 2 % on each
dataset changed 42 and is left to the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BITS: Final = 256
MAX_HAMMING_DISTANCE: Final = 32
"""Bits in which two copies of one exposure may differ."""
_SIDE: Final = 64
_LOW: Final = 16


def perceptual_hash(pixels: NDArray[np.float32]) -> bytes | None:
    """Return the 32 bytes of a picture, ``(rows, columns)`` or ``(rows, columns, 3)`` in [0, 1].

    None where the picture is flat: it looks like every other flat picture.
    """
    import numpy as np
    from PIL import Image

    grey = pixels if pixels.ndim == 2 else pixels @ np.array([0.299, 0.587, 0.114], np.float32)
    small = Image.fromarray(np.asarray(grey, np.float32)).resize((_SIDE, _SIDE), Image.Resampling.BOX)
    samples = np.asarray(small, np.float64)
    if np.ptp(samples) < 1 / 64:
        return None
    # Ranks in place of values: a window or gamma changes the values, not their order.
    ranks = np.searchsorted(np.sort(samples, axis=None), samples, side="right")
    low = (_cosines() @ ranks @ _cosines().T).reshape(-1)
    bits = low > np.median(low)
    return np.packbits(bits).tobytes()


def _cosines() -> NDArray[np.float64]:
    """The first rows of the cosine transform, the constant one left out: ``(16, 64)``."""
    import numpy as np

    places, orders = np.arange(_SIDE), np.arange(1, _LOW + 1)
    return np.cos(np.pi * (2 * places[None] + 1) * orders[:, None] / (2 * _SIDE))


def near_duplicates(
    ours: NDArray[np.uint8], theirs: NDArray[np.uint8], most: int = MAX_HAMMING_DISTANCE
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find the pairs that differ in at most ``most`` bits.

    Parameters
    ----------
    ours, theirs : array of uint8, (n, 32) and (m, 32)
        Fingerprints.

    Returns
    -------
    tuple of array
        Row of ours, row of theirs and bits that differ, of every such pair, in that order.
    """
    import faiss
    import numpy as np

    nothing = np.empty(0, np.int64)
    if not len(ours) or not len(theirs):
        return nothing, nothing, nothing
    index = faiss.IndexBinaryFlat(BITS)
    index.add(np.ascontiguousarray(theirs))
    limits, bits, rows = index.range_search(np.ascontiguousarray(ours), most + 1)
    first = np.repeat(np.arange(len(ours)), limits[1:].astype(np.int64) - limits[:-1].astype(np.int64))
    order = np.lexsort((rows, first))
    return first[order], rows[order].astype(np.int64), bits[order].astype(np.int64)
