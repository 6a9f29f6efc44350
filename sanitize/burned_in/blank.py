"""Blanking: areas are set to one value, nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry, snap_area
from medsanitize.sanitize.formats.dicom.native import is_422
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

Samples = NDArray[Any]


def blank_areas(
    samples: Samples, areas: Sequence[Area], geometry: Geometry, model: str, darkest: int | None = None
) -> Samples:
    """A copy of one frame with every area set to what is shown black.

    Parameters
    ----------
    samples : array
        One frame as `codecs.decode` gives it.
    areas : sequence of Area
    geometry : Geometry
        Of the stored frame.
    model : str
        Photometric Interpretation of ``samples``.
    darkest : int, optional
        Index of the darkest colour of the palette, where there is one.

    Raises
    ------
    Refused
        ``pixels-not-rewritten`` unless the copy is flat inside the areas and equal everywhere else.
    """
    value = fill_value(samples, geometry, model, darkest)
    halved = is_422(geometry) and samples.shape[-1] == 4
    new = samples.copy()
    mask = np.zeros(samples.shape[:2], bool)
    for area in areas:
        left, top, right, bottom = snap_area(area, (geometry.rows, geometry.columns), 2 if halved else 1, 1)
        columns = slice(left // 2, right // 2) if halved else slice(left, right)
        new[top:bottom, columns] = value
        mask[top:bottom, columns] = True
    differs = new != samples
    if samples.dtype.kind == "f":
        differs &= ~(np.isnan(new) & np.isnan(samples))
    if differs.ndim == 3:
        differs = differs.any(axis=-1)
    if bool((differs & ~mask).any()) or bool((new[mask] != value).any()):
        raise Quarantined("pixels-not-rewritten", "pixels")
    return new


def fill_value(samples: Samples, geometry: Geometry, model: str, darkest: int | None) -> Samples:
    """The sample values that are shown black: the frame's own extreme where its values have none fixed."""
    kind = samples.dtype
    if darkest is not None:
        return np.asarray(darkest).astype(kind)
    if samples.ndim == 2:
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
