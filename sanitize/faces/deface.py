"""Planning and verification of the removal of a face.

The volume in front of a coronal grid of coarse blocks is removed. Each block is cut at one depth: its deepest
skin plus a margin. The remaining front is a staircase with the resolution of the blocks, from which no face
can be reconstructed. Nothing above the brow is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from medsanitize.sanitize.context import FaceCut
from medsanitize.sanitize.faces.detect import Head, face_planes, first_hits, visible_skin
from medsanitize.sanitize.faces.slice_geometry import Plane
from medsanitize.sanitize.faces.volume import STEP, Mask, Volume

Depths = npt.NDArray[np.int64]
Reals = npt.NDArray[np.floating[Any]]

# Side of a block in voxels: 16 mm, about the breadth of a nose.
_BLOCK = 4
# Rows of blocks of that breadth; those below are twice as broad.
_ROWS_AT_BROW = 2
# Voxels between the possible depths of a cut: 12 mm, so that depths do not follow the relief of the face.
_TERRACE = 3
# Depth below the skin, as a fraction of the length of the head: 16 mm in an adult.
_DEPTH = 0.09
# Voxels by which the new surface must be behind the former skin: 8 mm.
_REMOVED_DEPTH = 2
# Largest fraction of skin that may remain, and largest correlation of the relief before and after.
_MOST_SKIN_LEFT = 0.02
_MOST_LIKENESS = 0.35


def plan_cut(volume: Volume, tissue: Mask, head: Head) -> FaceCut | None:
    """Plan the cut; return None when no skin is visible from the front.

    Parameters
    ----------
    volume : Volume
    tissue : array of bool
        As returned by `segment_tissue`.
    head : Head
    """
    planes, columns, limit = _sector(tissue, head)
    hits = first_hits(tissue)[planes, columns]
    depth = int(np.ceil(min(16.0, max(12.0, _DEPTH * head.length * STEP)) / STEP))
    rows = []
    for number, i in enumerate(range(0, hits.shape[0], _BLOCK)):
        # At the brow narrow blocks spare the brain behind it; below, wide ones leave no step at the nose.
        wide = _BLOCK if number < _ROWS_AT_BROW else 2 * _BLOCK
        row: list[float | None] = []
        for k in range(0, -(-hits.shape[1] // (2 * _BLOCK)) * 2 * _BLOCK, wide):
            block = hits[i : i + _BLOCK, k : k + wide]
            skin = block[(block >= 0) & (block < limit)]
            end = min(-(-(int(skin.max()) + depth) // _TERRACE) * _TERRACE, limit) if skin.size else None
            y = None if end is None else round(volume.front + (end - 0.5) * STEP, 3)
            row += [y] * (wide // _BLOCK)
        rows.append(tuple(row))
    if not any(depth is not None for row in rows for depth in row):
        return None
    left = volume.left + (columns.start - 0.5) * STEP
    top = volume.top - (planes.start - 0.5) * STEP
    return FaceCut(round(left, 3), round(top, 3), _BLOCK * STEP, tuple(rows))


def _sector(tissue: Mask, head: Head) -> tuple[slice, slice, int]:
    """Planes from brow to chin, columns of the head, and the row behind which nothing is cut."""
    planes = face_planes(head, len(tissue))
    half = 0.46 * head.length
    # An odd number of blocks to either side, so that the nose is in the middle of a wide block.
    start = round(head.x) - _BLOCK * (int(half / _BLOCK) | 1)
    start += -min(0, start // (2 * _BLOCK)) * 2 * _BLOCK
    columns = slice(start, min(tissue.shape[2], int(head.x + half) + 1))
    middle = slice(max(0, int(head.x - 0.15 * head.length)), int(head.x + 0.15 * head.length) + 1)
    central = first_hits(tissue)[planes, middle]
    forward = (central >= 0) & (central <= head.front + 40 / STEP)
    lowest = np.flatnonzero(forward.any(axis=1))
    if len(lowest):
        planes = slice(planes.start, min(planes.stop, planes.start + int(lowest[-1]) + 2))
    return planes, columns, max(1, round(head.y))


def removes_face(volume: Volume, tissue: Mask, head: Head, cut: FaceCut) -> bool:
    """Return whether a cut removes the face, from renderings from the front and the sides.

    The foremost surface must be behind the former skin almost everywhere, at most a tenth of the former outer
    surface may remain, and the new relief must not correlate with the former one.

    Parameters
    ----------
    volume : Volume
    tissue : array of bool
        As returned by `segment_tissue`.
    head : Head
    cut : FaceCut
    """
    planes, columns, limit = _sector(tissue, head)
    removed = _cut_away(volume, cut)
    before, after = first_hits(tissue), first_hits(tissue & ~removed)
    skin = np.zeros_like(before, bool)
    skin[planes, columns] = visible_skin(volume, tissue)[planes, columns]
    skin &= before < limit - _REMOVED_DEPTH
    if not skin.any():  # nothing to compare proves nothing
        return False
    left = skin & (after >= 0) & (after < before + _REMOVED_DEPTH)
    surface = _outer_surface(tissue)
    face = np.zeros_like(surface)
    face[planes, : limit - int(0.15 * head.length), columns] = True
    surface &= face
    remaining = int((surface & ~removed).sum())
    return (
        int(left.sum()) <= _MOST_SKIN_LEFT * int(skin.sum())
        and remaining <= 0.1 * max(1, int(surface.sum()))
        and relief_correlation(before, after, skin) < _MOST_LIKENESS
    )


def _cut_away(volume: Volume, cut: FaceCut) -> Mask:
    """Mask of the voxels of the coarse volume that the cut removes."""
    planes, rows, columns = volume.inside.shape
    x = volume.left + STEP * np.arange(columns)
    y = volume.front + STEP * np.arange(rows)
    z = volume.top - STEP * np.arange(planes)
    return y[None, :, None] < _limits(cut, x[None, :], z[:, None])[:, None, :]


def _outer_surface(tissue: Mask) -> Mask:
    """Tissue that is visible from the front, the left or the right."""
    seen = np.zeros_like(tissue)
    for axis, backwards in ((1, False), (2, False), (2, True)):
        way = np.flip(tissue, axis) if backwards else tissue
        first = way & (np.cumsum(way, axis=axis) == 1)
        seen |= np.flip(first, axis) if backwards else first
    return seen


def relief_correlation(before: Depths, after: Depths, there: Mask) -> float:
    """Return the Pearson correlation of the relief of two depth maps.

    Parameters
    ----------
    before, after : array of int, shape (planes, columns)
        Foremost row of tissue, or -1 (see `first_hits`).
    there : array of bool, shape (planes, columns)
        Where to compare.
    """
    both = there & (after >= 0)
    # Too few points for a correlation.
    if int(both.sum()) < 30:
        return 0.0
    one, other = _relief(before, both), _relief(after, both)
    spread = float(one.std() * other.std())
    return 0.0 if spread == 0 else float(((one - one.mean()) * (other - other.mean())).mean()) / spread


def _relief(depths: Depths, there: Mask) -> Reals:
    """Depths minus their mean within 28 mm; steps such as that from chin to throat are clipped."""
    total, count = np.where(there, depths, 0).astype(float), there.astype(float)
    relief = (depths - _boxed(total) / np.maximum(1, _boxed(count)))[there]
    return np.clip(relief, -_TERRACE, _TERRACE)


def _boxed(values: Reals, reach: int = 3) -> Reals:
    for axis in (0, 1):
        padding = [(0, 0), (0, 0)]
        padding[axis] = (reach + 1, reach)
        sums = np.cumsum(np.pad(values, padding), axis=axis)
        wide = 2 * reach + 1
        values = np.take(sums, np.arange(wide, sums.shape[axis]), axis) - np.take(
            sums, np.arange(sums.shape[axis] - wide), axis
        )
    return values


def _limits(cut: FaceCut, x: Reals, z: Reals) -> Reals:
    """The y in front of which everything is removed at points (x, z); minus infinity where nothing is."""
    table = np.array(
        [[-np.inf if depth is None else depth for depth in row] for row in cut.depths], dtype=float
    )
    i, j = np.floor((cut.top - z) / cut.block), np.floor((x - cut.left) / cut.block)
    there = (i >= 0) & (i < table.shape[0]) & (j >= 0) & (j < table.shape[1])
    i, j = np.where(there, i, 0).astype(int), np.where(there, j, 0).astype(int)
    return np.where(there, table[i, j], -np.inf)


def pixels_to_blank(cuts: Sequence[FaceCut], plane: Plane) -> Mask | None:
    """Return the pixels of a slice that any cut removes.

    Parameters
    ----------
    cuts : sequence of FaceCut
    plane : Plane

    Returns
    -------
    array of bool, shape (rows, columns), or None
        None when no pixel is removed.
    """
    heights = [corner[2] for corner in plane.corners()]
    near = [
        cut
        for cut in cuts
        if min(heights) <= cut.top and max(heights) >= cut.top - cut.block * len(cut.depths)
    ]
    if not near:
        return None
    across, down = np.array(plane.across), np.array(plane.down)
    columns = np.arange(plane.columns) * plane.pitch[0]
    rows = np.arange(plane.rows) * plane.pitch[1]
    x, y, z = (
        plane.position[axis] + rows[:, None] * down[axis] + columns[None, :] * across[axis]
        for axis in range(3)
    )
    mask = np.zeros((plane.rows, plane.columns), bool)
    for cut in near:
        mask |= y < _limits(cut, x, z)
    return mask if mask.any() else None
