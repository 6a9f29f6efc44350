"""Detection of the skin of a face in a coarse volume; inconclusive cases count as a face.

A head is recognized in CT by the skull, a closed ring of bone directly below the skin, and otherwise by the
size of its cross section, which ends at the vertex or is cut off above. The face is in front, below the brow.
A volume without skin there (an extracted brain, a narrow field of view, slices above the orbits only) shows
no face.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from medsanitize.sanitize.faces.connected_regions import (
    dilate,
    erode,
    fill_enclosed,
    label_regions,
    largest_two,
)
from medsanitize.sanitize.faces.volume import STEP, Mask, Volume

FaceFinding = Literal["none", "unsure", "face"]
# Area of a voxel within its plane, in cm2.
_AREA = STEP * STEP / 100
# Values above are body, not air, and bone, not soft tissue.
_SKIN_HU, _BONE_HU = -300.0, 220.0


@dataclass(frozen=True, slots=True)
class Head:
    """Position of a head in voxels of the volume.

    Attributes
    ----------
    top, brow : int
        Uppermost plane, and first plane below the brow.
    x, y : float
        Middle from left to right and from front to back.
    length : float
        Extent from front to back.
    front : int
        Foremost row.
    """

    top: int
    brow: int
    x: float
    y: float
    length: float
    front: int


@dataclass(frozen=True, slots=True)
class FaceDetection:
    """Result for a volume; ``head`` is set whenever there may be a face."""

    finding: FaceFinding
    head: Head | None = None


NOTHING = FaceDetection("none")


def segment_tissue(volume: Volume, modality: str) -> Mask:
    """Return a mask of the body without air in it.

    Parameters
    ----------
    volume : Volume
    modality : str
        ``CT`` (threshold in HU), ``PT`` or ``MR`` (threshold from the histogram).

    Returns
    -------
    array of bool, shape (planes, rows, columns)
    """
    values = volume.values
    if modality == "CT":
        return volume.inside & (values > _SKIN_HU)
    seen = values[volume.inside]
    if not seen.size or float(seen.max()) <= float(seen.min()):
        return np.zeros_like(volume.inside)
    level = float(seen.min()) + (0.15 if modality == "PT" else 0.4) * (_otsu(seen) - float(seen.min()))
    return volume.inside & (values > level)


def _otsu(values: npt.NDArray[np.float32]) -> float:
    """Threshold that separates a histogram best (Otsu 1979), without outliers."""
    low, high = float(values.min()), float(np.percentile(values, 99.5))
    if high <= low:
        return low
    counts, edges = np.histogram(np.clip(values, low, high), 256)
    middles = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)
    sums = np.cumsum(counts * middles)
    above = below[-1] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (sums[-1] * below / below[-1] - sums) ** 2 / (below * above.astype(float))
    # Between two distant peaks many thresholds are equally good: the middle one is used.
    return float(middles[between >= 0.995 * np.nanmax(between)].mean())


def detect_face(volume: Volume, modality: str) -> FaceDetection:
    """Return whether a volume may show a face.

    Parameters
    ----------
    volume : Volume
    modality : str
        ``CT``, ``PT`` or ``MR``.
    """
    tissue = segment_tissue(volume, modality)
    if not tissue.any():
        return NOTHING
    skull = _brain_case(volume, tissue) if modality == "CT" else None
    if skull is not None:
        return FaceDetection("face", skull) if _has_facial_skin(volume, tissue, skull) else NOTHING
    return _by_shape(volume, tissue, modality)


# -- the brain case of a CT ---------------------------------------------------------------


def _brain_case(volume: Volume, tissue: Mask) -> Head | None:
    """The head around the longest run of planes in which bone close to the skin encloses brain."""
    regions = label_regions(fill_enclosed(dilate(volume.inside & (volume.values > _BONE_HU))))
    air = volume.inside & ~tissue
    cases = np.zeros_like(tissue)
    for i, plane in enumerate(regions):
        names, counts = np.unique(plane[plane > 0], return_counts=True)
        for name in names[(counts * _AREA >= 25) & (counts * _AREA <= 300)]:
            region = plane == name
            # Mean HU of brain with some margin, unlike that of cavities with air.
            if -60 < float(volume.values[i][region].mean()) < 130 and _near_air(region, air[i]):
                cases[i] |= region
    good = np.flatnonzero(cases.any(axis=(1, 2)))
    run = _longest_run(good)
    if len(run) < 3:
        return None
    areas = cases[run].sum(axis=(1, 2))
    widest = cases[run[int(areas.argmax())]]
    rows, columns = np.flatnonzero(widest.any(axis=1)), np.flatnonzero(widest.any(axis=0))
    # Bone and scalp add 14 mm at either end of the brain.
    length = rows[-1] - rows[0] + 1 + 28 / STEP
    whole = run[0] >= 2 and areas[0] <= 0.6 * areas.max()
    top = max(0, int(run[0] - 16 / STEP)) if whole else int(run[0])
    brow = int(run[-1]) + 1
    if whole:
        brow = int(min(max(brow, top + 0.4 * length), top + 0.55 * length))
    middle = (columns[0] + columns[-1]) / 2, (rows[0] + rows[-1]) / 2
    return Head(top, brow, *middle, float(length), max(0, int(rows[0] - 20 / STEP)))


def _near_air(region: Mask, air: Mask) -> bool:
    """Whether most of the surroundings at 28 mm are air, as around a skull and never around a pelvis."""
    near = dilate(np.pad(region, 8)[None], 6)[0]
    ring = dilate(near[None], 1)[0] & ~near
    around = ring[8:-8, 8:-8]
    beyond = int(ring.sum()) - int(around.sum())
    return int((around & air).sum()) + beyond // 2 >= 0.5 * int(ring.sum())


def _longest_run(numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    if not len(numbers):
        return numbers
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 3) + 1)
    return max(runs, key=len)


# -- any other volume, by its cross sections ----------------------------------------------


def _by_shape(volume: Volume, tissue: Mask, modality: str) -> FaceDetection:
    planes, _, _ = tissue.shape
    solid = tissue | (fill_enclosed(tissue) & volume.inside)
    body, sizes = largest_two(dilate(erode(solid)) & solid)
    large = np.flatnonzero(sizes[:, 0] * _AREA >= 10)
    if not len(large):
        return NOTHING
    top = int(large[0])
    upper = slice(top, min(planes, top + int(110 / STEP)))
    areas = sizes[upper, 0] * _AREA
    tops_out = bool(areas[0] <= (0.6 if top >= 1 and volume.inside[top - 1].any() else 0.35) * areas.max())
    head = _head_of(body[upper], top, tops_out)
    # More than half a meter of a body probably includes the head: only missing skin excludes a face.
    if modality != "CT" and planes * STEP > 500:
        return _unless_no_skin(volume, tissue, head)
    # Two regions of similar size are limbs.
    limbs = np.median(sizes[upper, 1] / np.maximum(1, sizes[upper, 0])) >= 0.5
    if limbs or not _head_sized(body[upper], volume.inside[upper]):
        return NOTHING
    if tops_out:
        return FaceDetection("face", head) if _has_facial_skin(volume, tissue, head) else NOTHING
    if _height_of_head_size(body[top:]) * STEP < 40:
        return NOTHING
    if modality == "CT" and not _has_airways(volume, tissue, body):
        return NOTHING
    return _unless_no_skin(volume, tissue, head)


def _head_of(body: Mask, top: int, tops_out: bool) -> Head:
    areas = body.sum(axis=(1, 2))
    widest = body[int(areas.argmax())]
    rows, columns = np.flatnonzero(widest.any(axis=1)), np.flatnonzero(widest.any(axis=0))
    length = float(rows[-1] - rows[0] + 1)
    brow = top + int(0.53 * length) if tops_out else top
    middle = (columns[0] + columns[-1]) / 2, (rows[0] + rows[-1]) / 2
    return Head(top, brow, *middle, length, int(rows[0]))


def _extents(body: Mask, inside: Mask) -> npt.NDArray[np.float64]:
    """Breadth and length of every plane in mm, shape (planes, 2); NaN where both sides are cut off."""
    found = np.full((len(body), 2), np.nan)
    for i, plane in enumerate(body):
        for axis in (0, 1):
            there, seen = np.flatnonzero(plane.any(axis=axis)), np.flatnonzero(inside[i].any(axis=axis))
            if len(there) and (there[0] > seen[0] or there[-1] < seen[-1]):
                found[i, axis] = (there[-1] - there[0] + 1) * STEP
    return found


def _head_sized(body: Mask, inside: Mask) -> bool:
    """Whether the largest cross section is that of a head, from a newborn to a large man with his ears."""
    extents = _extents(body, inside)
    for axis, (least, most) in enumerate(((60, 240), (70, 290))):
        known = extents[:, axis][~np.isnan(extents[:, axis])]
        if len(known) and not least <= float(np.percentile(known, 90)) <= most:
            return False
    return True


def _height_of_head_size(body: Mask) -> int:
    """Number of planes from the top before shoulders begin."""
    breadths = body.any(axis=1).sum(axis=1) * STEP
    wide = np.flatnonzero(breadths > 240)
    return int(wide[0]) if len(wide) else len(body)


def _has_airways(volume: Volume, tissue: Mask, body: Mask) -> bool:
    """Whether air is enclosed, as in nose, sinuses and throat, but never in a limb."""
    air = fill_enclosed(tissue) & dilate(body) & volume.inside
    return int((air.sum(axis=(1, 2)) * _AREA >= 1.5).sum()) >= 3


# -- the skin of the face -----------------------------------------------------------------


def first_hits(tissue: Mask) -> npt.NDArray[np.int64]:
    """Return the depth map from the front: the foremost row of tissue per plane and column, or -1."""
    return np.where(tissue.any(axis=1), tissue.argmax(axis=1), -1)


def visible_skin(volume: Volume, tissue: Mask) -> Mask:
    """Return where the foremost tissue is skin: it has air inside the field of view in front of it.

    Returns
    -------
    array of bool, shape (planes, columns)
    """
    hits = first_hits(tissue)
    before = np.take_along_axis(volume.inside, np.maximum(hits - 1, 0)[:, None, :], axis=1)[:, 0, :]
    return (hits > 0) & before


def face_planes(head: Head, planes: int) -> slice:
    """Return the range of planes from the brow to below the chin."""
    return slice(head.brow, min(planes, head.brow + int(0.85 * head.length)))


def _has_facial_skin(volume: Volume, tissue: Mask, head: Head) -> bool:
    """Whether at least 24 mm of height below the brow have skin about as far in front as the forehead."""
    planes = face_planes(head, len(tissue))
    low = max(0, int(head.x - 0.2 * head.length))
    columns = slice(low, int(head.x + 0.2 * head.length) + 1)
    hits = first_hits(tissue)[planes, columns]
    skin = visible_skin(volume, tissue)[planes, columns] & (hits <= head.front + 32 / STEP)
    if not skin.size:
        return False
    return int((skin.mean(axis=1) >= 0.4).sum()) * STEP >= 24


def _unless_no_skin(volume: Volume, tissue: Mask, head: Head) -> FaceDetection:
    """``unsure``, or ``none`` if almost no skin is visible from the front."""
    skin = visible_skin(volume, tissue)[head.top :]
    return FaceDetection("unsure", head) if int(skin.sum()) * _AREA >= 16 else NOTHING
