"""Resampling of slices of any orientation to a coarse volume along the axes of the patient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from medsanitize.sanitize.faces.slice_geometry import Plane

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

STEP = 4.0
"""mm between voxels of a coarse volume, in every direction."""
# 1.5 cubic meters: malformed positions must not exhaust the memory.
_MOST_VOXELS = 24_000_000


class VolumeTooLarge(Exception):
    """The slices extend beyond any body."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A coarse volume along the axes of the patient.

    Attributes
    ----------
    values : array of float32, shape (planes, rows, columns)
        ``values[i, j, k]`` is at z = top - i, y = front + j and x = left + k, in units of `STEP`: plane 0 is
        the uppermost, row 0 the foremost.
    inside : array of bool, shape (planes, rows, columns)
        Where slices are; elsewhere ``values`` has no meaning.
    left, front, top : float
        LPS coordinates of the center of the first voxel, in mm.
    """

    values: Floats
    inside: Mask
    left: float
    front: float
    top: float


def needed_slices(planes: Sequence[Plane]) -> list[int]:
    """Return the indices of the slices of an ascending stack that are at least about one step apart."""
    kept: list[int] = []
    for index, plane in enumerate(planes):
        if not kept or plane.height - planes[kept[-1]].height >= STEP - 0.5:
            kept.append(index)
    return kept


def coarse_volume(planes: Sequence[Plane], image: Callable[[int], npt.NDArray[Any]]) -> Volume:
    """Resample a stack of slices to a coarse volume.

    Parameters
    ----------
    planes : sequence of Plane
        In ascending order of position.
    image : callable
        Returns the values of the slice with an index, shape (rows, columns).

    Returns
    -------
    Volume

    Raises
    ------
    VolumeTooLarge
        The slices extend beyond any body.
    """
    kept = needed_slices(planes)
    used = [planes[index] for index in kept]
    # Each slice is reduced when it is read, so that only one is in memory in full resolution.
    pooled = [_pooled(image(index), plane) for index, plane in zip(kept, used, strict=True)]
    points = np.array([corner for plane in used for corner in plane.corners()])
    low, high = points.min(axis=0), points.max(axis=0)
    counts = np.floor((high - low) / STEP).astype(int) + 1
    if float(np.prod(counts.astype(float))) > _MOST_VOXELS:
        raise VolumeTooLarge
    nx, ny, nz = (int(count) for count in counts)
    values = np.zeros((nz, ny, nx), np.float32)
    inside = np.zeros((nz, ny, nx), bool)
    stack = _Stack(used, pooled)
    x, y = np.meshgrid(low[0] + STEP * np.arange(nx), low[1] + STEP * np.arange(ny))
    for i in range(nz):
        stack.sample(x, y, high[2] - STEP * i, values[i], inside[i])
    return Volume(values, inside, float(low[0]), float(low[1]), float(high[2]))


def _block(plane: Plane) -> tuple[int, int]:
    """Rows and columns of the pixel blocks that are averaged: about the size of a step."""
    tall = max(1, min(plane.rows, int(STEP / plane.pitch[1] + 0.25)))
    return tall, max(1, min(plane.columns, int(STEP / plane.pitch[0] + 0.25)))


def _pooled(pixels: npt.NDArray[Any], plane: Plane) -> Floats:
    tall, wide = _block(plane)
    rows, columns = pixels.shape
    cut = np.asarray(pixels[: rows // tall * tall, : columns // wide * wide], np.float32)
    pooled: Floats = cut.reshape(rows // tall, tall, columns // wide, wide).mean(
        axis=(1, 3), dtype=np.float32
    )
    return pooled


class _Stack:
    """Reduced slices and their geometry as arrays."""

    def __init__(self, planes: Sequence[Plane], pooled: Sequence[Floats]) -> None:
        first = planes[0]
        self.normal, self.across, self.down = (
            np.array(axis) for axis in (first.normal, first.across, first.down)
        )
        self.origins = np.array([plane.position for plane in planes])
        self.heights = np.array([plane.height for plane in planes])
        self.images = np.stack(pooled)
        tall, wide = _block(first)
        self.pitch = (first.pitch[0] * wide, first.pitch[1] * tall)
        # The center of a block is not that of its first pixel.
        self.shift = ((self.pitch[0] - first.pitch[0]) / 2, (self.pitch[1] - first.pitch[1]) / 2)
        gaps = np.diff(self.heights)
        # Distance (mm) up to which a slice fills the gap to the next; the rest of the gap is outside.
        self.reach = min(12.0, max(STEP, float(np.median(gaps)) if len(gaps) else STEP)) * 0.75

    def sample(
        self, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], z: float, values: Floats, inside: Mask
    ) -> None:
        """Fill one horizontal plane by nearest-neighbor interpolation."""
        height = x * self.normal[0] + y * self.normal[1] + z * self.normal[2]
        above = np.clip(np.searchsorted(self.heights, height), 1, max(1, len(self.heights) - 1))
        below = above - 1
        above = np.minimum(above, len(self.heights) - 1)
        nearer = np.abs(self.heights[above] - height) < np.abs(self.heights[below] - height)
        slices = np.where(nearer, above, below)
        start = self.origins[slices]
        away = (x - start[..., 0], y - start[..., 1], z - start[..., 2])
        column = (sum(a * b for a, b in zip(away, self.across, strict=True)) - self.shift[0]) / self.pitch[0]
        row = (sum(a * b for a, b in zip(away, self.down, strict=True)) - self.shift[1]) / self.pitch[1]
        column, row = np.rint(column).astype(int), np.rint(row).astype(int)
        rows, columns = self.images.shape[1:]
        there = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        there &= np.abs(self.heights[slices] - height) <= self.reach
        inside[...] = there
        values[there] = self.images[slices[there], row[there], column[there]]
