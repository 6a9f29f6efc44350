"""The value with which an area is blanked: that of the ground around it.

A page that is punched with black where its ground is blue is unpleasant to see and teaches a model where text
was. The value comes only from samples just outside *all* blanked areas, which are released as they are. It is
therefore a function of what is released anyway and cannot depend on the ink that is removed; and it is one
value for each area, so that no shape of a letter remains.
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
) -> Samples:
    """Return a copy in which each group of areas has the value of the flat ground around it.

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
    """
    blanked = mask_of(areas, samples.shape)
    hidden = blanked if withheld is None else blanked | withheld
    new = samples.copy()
    for group in touching_groups(areas):
        window = _window(group)
        ring = mask_of(group, samples.shape, _RING)[window] & ~hidden[window]
        value = flat_value(samples[window][ring], tolerance)
        for left, top, right, bottom in group:
            new[top:bottom, left:right] = fallback if value is None else value
    return new


def _window(group: Sequence[Area]) -> tuple[slice, slice]:
    """Rows and columns of a group and its ring."""
    lefts, tops, rights, bottoms = zip(*group, strict=True)
    rows = slice(max(min(tops) - _RING, 0), max(bottoms) + _RING)
    return rows, slice(max(min(lefts) - _RING, 0), max(rights) + _RING)


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
