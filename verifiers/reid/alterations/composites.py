"""Composites: images that show a part of a patient, joined with the image of another one.

Every function maps originals and images of others, ``(n, size, size)`` each, to composites of the same shape;
the place of a patch depends on the index of the image only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Share of the side: a quarter of the area, about one lung.
PATCH: Final = 0.5
# Share of the original in a blend.
BLEND: Final = 0.5


def left_half(squares: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Left half of the original, right half of the other."""
    return _joined(squares, others, slice(None), slice(None, squares.shape[2] // 2))


def right_half(squares: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Right half of the original, left half of the other."""
    return _joined(squares, others, slice(None), slice(squares.shape[2] // 2, None))


def upper_half(squares: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Upper half of the original, lower half of the other."""
    return _joined(squares, others, slice(None, squares.shape[1] // 2), slice(None))


def lower_half(squares: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lower half of the original, upper half of the other."""
    return _joined(squares, others, slice(squares.shape[1] // 2, None), slice(None))


def blended(squares: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Average of original and other, of which the one with more contrast is reduced to that of the other.

    Half of a faint image under half of a strong one is no half: it contributes a tenth of what differs.
    """
    import numpy as np

    images = [one.astype(np.float64) for one in (squares, others)]
    means = [one.mean((1, 2), keepdims=True) for one in images]
    contrasts = [np.maximum(one.std((1, 2), keepdims=True), 1e-6) for one in images]
    lower = np.minimum(*contrasts)
    first, second = (
        mean + (one - mean) * lower / contrast
        for one, mean, contrast in zip(images, means, contrasts, strict=True)
    )
    return np.asarray(np.rint(BLEND * first + (1 - BLEND) * second), np.uint8)


def patch(squares: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """One of five parts of the original (corners and middle, by index) in the image of the other."""
    side = squares.shape[-1]
    width = round(PATCH * side)
    starts = [(0, 0), (0, side - width), (side - width, 0), (side - width, side - width)]
    starts.append(((side - width) // 2,) * 2)
    found = others.copy()
    for place, one in enumerate(squares):
        top, left = starts[place % len(starts)]
        part = slice(top, top + width), slice(left, left + width)
        found[place][part] = one[part]
    return found


def others_of(patients: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row of an image of another patient for each image; its own row if there is one patient only.

    Parameters
    ----------
    patients
        Patient of each image, ``(n,)``.
    """
    import numpy as np

    # In order of patients, the row half the cohort further; from there, the first of another patient.
    order = np.argsort(patients, kind="stable")
    found = np.arange(len(patients), dtype=np.int64)
    for place, row in enumerate(order):
        further = np.roll(order, -(place + len(order) // 2))
        apart = further[patients[further] != patients[row]]
        found[row] = apart[0] if len(apart) else row
    return found


def _joined(
    squares: NDArray[np.uint8], others: NDArray[np.uint8], rows: slice, columns: slice
) -> NDArray[np.uint8]:
    found = others.copy()
    found[:, rows, columns] = squares[:, rows, columns]
    return found
