"""Connected regions of coarse masks in each plane, in plain NumPy.

All masks have shape (planes, rows, columns).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.int64]


def spread_seeds(seeds: npt.NDArray[Any], mask: Mask) -> npt.NDArray[Any]:
    """Propagate the largest seed through each 4-connected region of every plane (axes 1 and 2).

    Parameters
    ----------
    seeds : array
        Labels; 0 where there is none.
    mask : array of bool
        The regions.
    """
    now = np.where(mask, seeds, 0)
    while True:
        after = _along(_along(now, mask, 2), mask, 1)
        if np.array_equal(after, now):
            return after
        now = after


def _along(labels: npt.NDArray[Any], mask: Mask, axis: int) -> npt.NDArray[Any]:
    """Set each run of the mask along one axis to its largest label."""
    padding = [(0, 0), (0, 0), (0, 0)]
    padding[axis] = (0, 1)  # separates the runs of adjacent lines in the flattened array
    order = (0, 1, 2) if axis == 2 else (0, 2, 1)
    held = np.pad(mask, padding).transpose(order)
    flat = np.ascontiguousarray(np.pad(labels, padding).transpose(order)).ravel()
    there = np.ascontiguousarray(held).ravel()
    edges = np.diff(np.concatenate(([False], there, [False])).astype(np.int8))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    if not len(starts):
        return labels
    largest = np.maximum.reduceat(flat, starts)
    flat[there] = np.repeat(largest, ends - starts)
    result = flat.reshape(held.shape).transpose(order)
    return result[:, : mask.shape[1], : mask.shape[2]]


def fill_enclosed(walls: Mask) -> Mask:
    """Return the areas that walls enclose within each plane, without the walls."""
    free = ~walls
    border = np.zeros_like(walls)
    border[:, [0, -1], :] = True
    border[:, :, [0, -1]] = True
    outside = spread_seeds((border & free).astype(np.int8), free) > 0
    return free & ~outside


def label_regions(mask: Mask) -> Labels:
    """Return a different number for every region of every plane; 0 outside the regions."""
    return np.asarray(spread_seeds(np.arange(1, mask.size + 1).reshape(mask.shape), mask), np.int64)


def largest_two(mask: Mask) -> tuple[Mask, npt.NDArray[np.int64]]:
    """Return the largest region of every plane, and the sizes of the largest two.

    Returns
    -------
    array of bool
        Mask of the largest regions.
    array of int64, shape (planes, 2)
        Voxels in the largest and the second largest region.
    """
    labels = label_regions(mask)
    best = np.zeros_like(mask)
    sizes = np.zeros((mask.shape[0], 2), np.int64)
    for i, plane in enumerate(labels):
        names, counts = np.unique(plane[plane > 0], return_counts=True)
        if len(names):
            order = np.argsort(-counts, kind="stable")
            best[i] = plane == names[order[0]]
            sizes[i, : min(2, len(order))] = counts[order[:2]]
    return best, sizes


def dilate(mask: Mask, times: int = 1) -> Mask:
    """Dilate a mask within each plane, ``times`` times."""
    # 4 and 8 neighbors in turn approximate a disk.
    for turn in range(times):
        out = mask.copy()
        out[:, 1:] |= mask[:, :-1]
        out[:, :-1] |= mask[:, 1:]
        wide = out if turn % 2 else mask
        out = out.copy()
        out[:, :, 1:] |= wide[:, :, :-1]
        out[:, :, :-1] |= wide[:, :, 1:]
        mask = out
    return mask


def erode(mask: Mask, times: int = 1) -> Mask:
    """Erode a mask within each plane; voxels beyond the border count as part of the mask."""
    return ~dilate(~mask, times)
