"""Blanking: areas get the value of the ground around them, other pixels do not change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry, snap_area
from medsanitize.sanitize.formats.dicom.native import is_422
from medsanitize.sanitize.formats.ground import fill_with_ground, mask_of, tolerance_of
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

Samples = NDArray[Any]


def blank_areas(
    samples: Samples, areas: Sequence[Area], geometry: Geometry, model: str, darkest: int | None = None
) -> Samples:
    """Return a copy of one frame in which areas have the value of the ground, or of black on anatomy.

    Parameters
    ----------
    samples : array
        One frame as returned by `decode_frame`.
    areas : sequence of Area
    geometry : Geometry
        Of the stored frame.
    model : str
        Photometric Interpretation of ``samples``.
    darkest : int or None
        Index of the darkest color of a palette.

    Raises
    ------
    Quarantined
        ``pixels-not-rewritten`` unless the copy is equal outside the areas, and decided by it inside.
    """
    halved = is_422(geometry) and samples.shape[-1] == 4
    # With 4:2:2 subsampling two columns share their chroma: areas are widened to even columns.
    cells = [snap_area(area, (geometry.rows, geometry.columns), 2 if halved else 1, 1) for area in areas]
    cells = [
        (left // 2, top, right // 2, bottom) if halved else (left, top, right, bottom)
        for left, top, right, bottom in cells
    ]
    mask = mask_of(cells, samples.shape)

    def filled(before: Samples) -> Samples:
        outside = before[~mask] if not mask.all() else before.reshape(-1, *before.shape[2:])
        after = fill_with_ground(
            before,
            cells,
            fill_value(outside, geometry, model, darkest),
            tolerance=tolerance_of(geometry.bits_stored, indexed=darkest is not None),
        )
        if halved:
            after[mask, 1] = after[mask, 0]  # both luminances of a pair
        return after

    new = filled(samples)
    differs = new != samples
    if samples.dtype.kind == "f":
        differs &= ~(np.isnan(new) & np.isnan(samples))  # NaN differs from itself
    if differs.ndim == 3:
        differs = differs.any(axis=-1)
    # What is inside depends on what is outside only: blanking again changes nothing.
    same = np.array_equal(filled(new), new, equal_nan=samples.dtype.kind == "f")
    if bool((differs & ~mask).any()) or not same:
        raise Quarantined("pixels-not-rewritten", "pixels")
    return new


def fill_value(samples: Samples, geometry: Geometry, model: str, darkest: int | None) -> Samples:
    """Return the sample values that are displayed black; for gray frames the darkest value of the samples.

    Parameters
    ----------
    samples : array, shape (samples,) or (samples, channels)
        Those that are not blanked.
    geometry : Geometry
    model : str
        Photometric Interpretation of ``samples``.
    darkest : int or None
        Index of the darkest color of a palette.
    """
    kind = samples.dtype
    if darkest is not None:
        return np.asarray(darkest).astype(kind)
    # Gray values have no fixed black (modality LUT, window), so the darkest value of the frame is used.
    if samples.ndim == 1:
        finite = samples[np.isfinite(samples)] if kind.kind == "f" else samples
        if not finite.size:
            return np.zeros((), kind)
        return np.asarray(finite.max() if model == "MONOCHROME1" else finite.min(), kind)
    middle = 1 << (min(geometry.bits_stored, 8 * kind.itemsize) - 1)
    if samples.shape[-1] == 4 and is_422(geometry):
        return np.array([0, 0, middle, middle], kind)
    if model.startswith("YBR") and samples.shape[-1] == 3:
        return np.array([0, middle, middle], kind)
    return np.zeros(samples.shape[-1], kind)
