"""The value with which an area is blanked: that of the ground around it.

A page that is punched with black where its ground is blue is unpleasant to see and teaches a model where text
was. The values come only from samples just outside *all* blanked areas, which are released as they are. They
are therefore a function of what is released anyway and cannot depend on the ink that is removed: no shape of
a letter can remain. Blanking the result once more changes nothing, which is how it is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medsanitize.sanitize.formats.dicom.image_pixel import Area

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Samples = NDArray[Any]
    Mask = NDArray[np.bool_]

# Width of the ring around an area, in samples.
_RING = 2
# Where two grounds meet: samples beside a row of an area, and least rows beside one of them.
_BESIDE, _LEAST_ROWS = 4, 4
# Smooth anatomy has many grounds, and is not filled by what lies beside it.
_EXACTER = 4
MOST_GROUNDS = 2
"""Most grounds that meet in an area."""
# Least part of the ring that has the value of the ground: a letter of a neighbor may stand in the rest.
_MOST = 0.75
SPREAD = 8
"""Largest difference from the ground in samples of 8 bits: what lossy compression leaves of a flat ground."""


def tolerance_of(bits: int, *, indexed: bool) -> int:
    """Return the largest difference of samples of a flat ground.

    Parameters
    ----------
    bits : int
        Bits of a sample. Grounds that a device draws into samples of other depths are exact.
    indexed : bool
        Whether samples are indices of a palette, which have no order.
    """
    return SPREAD if bits == 8 and not indexed else 0


def touching_groups(areas: Sequence[Area]) -> list[list[Area]]:
    """Group areas that overlap or touch: each group gets one value.

    Parameters
    ----------
    areas : sequence of Area
    """
    groups: list[list[Area]] = []
    for area in sorted(set(areas)):
        beside = [group for group in groups if any(_touch(area, one) for one in group)]
        groups = [group for group in groups if group not in beside]
        groups.append([area, *(one for group in beside for one in group)])
    return sorted(sorted(group) for group in groups)


def _touch(one: Area, other: Area) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def mask_of(areas: Sequence[Area], shape: tuple[int, ...], reach: int = 0) -> Mask:
    """Return the mask of areas, each extended by ``reach`` on all sides.

    Parameters
    ----------
    areas : sequence of Area
    shape : tuple of int
        Rows and columns; further sides are ignored.
    reach : int, optional
    """
    import numpy as np

    mask = np.zeros(shape[:2], bool)
    for left, top, right, bottom in areas:
        mask[max(top - reach, 0) : bottom + reach, max(left - reach, 0) : right + reach] = True
    return mask


def fill_with_ground(
    samples: Samples,
    areas: Sequence[Area],
    fallback: Any,
    *,
    tolerance: int,
    withheld: Mask | None = None,
    split: bool = True,
) -> Samples:
    """Return a copy in which each group of areas has the value of the flat ground around it.

    Where two grounds meet, such as that of a header and that of the image, the rows or columns of a group get
    the value of the ground beside them.

    Parameters
    ----------
    samples : array, shape (rows, columns) or (rows, columns, channels)
    areas : sequence of Area
        Within the array.
    fallback : scalar or array
        Value where the surroundings are not flat (anatomy) or everything is blanked.
    tolerance : int
        As `tolerance_of` returns it.
    withheld : array of bool, shape (rows, columns), optional
        Samples that are not released for other reasons; the value does not depend on them either.
    split : bool, optional
        Whether a group may have more than one value, where two grounds meet.
    """
    blanked = mask_of(areas, samples.shape)
    hidden = blanked if withheld is None else blanked | withheld
    new = samples.copy()
    for group in touching_groups(areas):
        window = _window(group)
        own = [_moved(area, window) for area in group]
        inside, around, near = (mask_of(own, hidden[window].shape, reach) for reach in (0, _RING, _BESIDE))
        value = flat_value(samples[window][around & ~hidden[window]], tolerance)
        if value is not None:
            new[window][inside] = value
            continue
        new[window][inside] = fallback
        if not split:
            continue
        near &= ~hidden[window]
        along = _bands(samples[window], inside, near, tolerance)
        across = _bands(samples[window].swapaxes(0, 1), inside.T, near.T, tolerance)
        # The direction in which more of the group has a ground.
        if _extent(along) * inside.shape[1] >= _extent(across) * inside.shape[0]:
            target, mine, found = new[window], inside, along
        else:
            target, mine, found = new[window].swapaxes(0, 1), inside.T, across
        for first, last, level in found:
            target[first:last][mine[first:last]] = level
    return new


def _bands(samples: Samples, inside: Mask, near: Mask, tolerance: int) -> list[tuple[int, int, Samples]]:
    """Return the bands of rows (half open) beside which a flat ground of one value lies, with its value.

    Empty for more bands than grounds meet.
    """
    import numpy as np

    tolerance //= _EXACTER
    levels, flat = _flat_rows(samples, near, tolerance)
    found: list[tuple[int, int, Samples]] = []
    for row in np.flatnonzero(flat & inside.any(axis=1)).tolist():
        value = levels[row]
        first, last, level = found[-1] if found else (row, row, value)
        if found and last == row and _is_near(level, value, tolerance):
            found[-1] = (first, row + 1, level)
        else:
            found.append((row, row + 1, value))
            if len(found) > MOST_GROUNDS:
                return []
    return [band for band in found if band[1] - band[0] >= _LEAST_ROWS]


def _flat_rows(samples: Samples, near: Mask, tolerance: int) -> tuple[Samples, Mask]:
    """Return `flat_value` of the marked samples of every row at once, and the rows that have one."""
    import numpy as np

    floating = samples.dtype.kind == "f"
    values = samples.astype(np.float64 if floating else np.int64)
    values = values[:, :, None] if samples.ndim == 2 else values
    # What is not marked sorts last, as NaN does.
    nothing = np.nan if floating else np.iinfo(np.int64).max
    ordered = np.sort(np.where(near[:, :, None], values, nothing), axis=1)
    count = near.sum(axis=1)
    middle = ordered[np.arange(len(near)), np.minimum(count // 2, near.shape[1] - 1)]
    alike = values == middle[:, None]
    if tolerance:
        alike = np.abs(values - np.where(count, middle.T, 0).T[:, None]) <= tolerance
    flat = (count > 0) & ((alike.all(axis=2) & near).sum(axis=1) >= _MOST * count)
    levels = np.where(flat, middle.T, 0).T.astype(samples.dtype)
    return levels[:, 0] if samples.ndim == 2 else levels, flat


def _extent(bands: list[tuple[int, int, Samples]]) -> int:
    return sum(last - first for first, last, _ in bands)


def _is_near(one: Samples, other: Samples, tolerance: int) -> bool:
    """Whether two values are of one ground."""
    import numpy as np

    if not tolerance:
        return np.array_equal(one, other)
    return bool((np.abs(one.astype(np.int64) - other.astype(np.int64)) <= tolerance).all())


def _window(group: Sequence[Area]) -> tuple[slice, slice]:
    """Rows and columns of a group and its ring."""
    lefts, tops, rights, bottoms = zip(*group, strict=True)
    rows = slice(max(min(tops) - _BESIDE, 0), max(bottoms) + _BESIDE)
    return rows, slice(max(min(lefts) - _BESIDE, 0), max(rights) + _BESIDE)


def _moved(area: Area, window: tuple[slice, slice]) -> Area:
    """An area of the samples as one of their window."""
    (top, left) = (part.start for part in window)
    return area[0] - left, area[1] - top, area[2] - left, area[3] - top


def flat_value(ring: Samples, tolerance: int) -> Samples | None:
    """Return the median of a flat ring, by channel; None if it is empty or not flat.

    Parameters
    ----------
    ring : array, shape (samples,) or (samples, channels)
    tolerance : int
    """
    import numpy as np

    if not len(ring):
        return None
    # The middle of the sorted samples: a value that occurs, in integers as in floats.
    middle: Samples = np.sort(ring, axis=0)[len(ring) // 2]
    near = (
        np.abs(ring.astype(np.int64) - middle.astype(np.int64)) <= tolerance if tolerance else ring == middle
    )
    if near.ndim == 2:
        near = near.all(axis=1)
    return middle if float(near.mean()) >= _MOST else None


def is_uniform(samples: Samples, areas: Sequence[Area]) -> bool:
    """Return whether each group of areas has one value.

    Parameters
    ----------
    samples : array, shape (rows, columns) or (rows, columns, channels)
    areas : sequence of Area
    """
    for group in touching_groups(areas):
        inside = samples[mask_of(group, samples.shape)]
        if bool((inside != inside[:1]).any()):
            return False
    return True
