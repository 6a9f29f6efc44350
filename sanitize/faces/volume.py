"""A coarse volume on the axes of the patient, from slices of any orientation."""

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
_MOST_VOXELS = 24_000_000


class VolumeTooLarge(Exception):
    """The slices span more than any body does."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A coarse volume: ``values[i, j, k]`` lies at z = top - i, y = front + j, x = left + k steps.

    Plane 0 is the uppermost, row 0 the foremost. ``inside`` says where slices lie; elsewhere values mean
    nothing. ``left``, ``front`` and ``top`` are LPS coordinates in mm of the first voxel's centre.
    """

    values: Floats
    inside: Mask
    left: float
    front: float
    top: float


def needed_slices(planes: Sequence[Plane]) -> list[int]:
    """Which slices of a rising stack are needed: no closer than the step."""
    kept: list[int] = []
    for index, plane in enumerate(planes):
        if not kept or plane.height - planes[kept[-1]].height >= STEP - 0.5:
            kept.append(index)
    return kept


def coarse_volume(planes: Sequence[Plane], image: Callable[[int], npt.NDArray[Any]]) -> Volume:
    """Read a rising stack into a coarse volume; no more than one full slice is held at a time.

    Parameters
    ----------
    planes : sequence of Plane
    image : callable
        Gives the values of the slice of an index, rows by columns.

    Raises
    ------
    TooLarge
        The slices span more than any body does.
    """
    kept = needed_slices(planes)
    used = [planes[index] for index in kept]
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
    """Rows and columns of the blocks whose means are taken: about the step's size."""
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
    """Pooled slices and where they lie, as arrays."""

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
        self.shift = ((self.pitch[0] - first.pitch[0]) / 2, (self.pitch[1] - first.pitch[1]) / 2)
        gaps = np.diff(self.heights)
        self.reach = min(12.0, max(STEP, float(np.median(gaps)) if len(gaps) else STEP)) * 0.75

    def sample(
        self, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], z: float, values: Floats, inside: Mask
    ) -> None:
        """Fill one horizontal plane: the nearest slice, the nearest block in it."""
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
