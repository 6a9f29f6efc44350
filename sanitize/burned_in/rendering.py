"""Rendering of the samples of a frame as gray images for OCR.

Text may be burned in with any value or color, often at the ends of the range, so a frame may have more than
one rendering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from numpy.typing import NDArray

LEAST_SIDE = 8
"""Smaller images (pixels) cannot contain legible text."""

Picture = NDArray[np.uint8]
Samples = NDArray[Any]

_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)
# Percent at either end that are clipped, if the rest is less than an eighth of the range.
_TAIL = 0.5
_OUTLIERS = 8
# Faint text: distance from the background in 1/255 of the range, and least part of background pixels.
_STEPS = 3.0
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class Palette:
    """Palette (PS3.3 C.7.6.3.1.5): RGB colors of 8 bits, shape (entries, 3), and the first mapped index."""

    colors: NDArray[np.uint8]
    first: int

    def darkest(self) -> int:
        """Return the index of the darkest color."""
        return self.first + int((self.colors.astype(np.float32) @ _LUMINANCE).argmin())

    def shown(self, indices: Samples) -> Picture:
        """Return the colors of a frame of indices, shape (rows, columns, 3)."""
        # Indices outside the table have the color of its first or last entry (PS3.3 C.7.6.3.1.5).
        at = np.clip(indices.astype(np.int64) - self.first, 0, len(self.colors) - 1)
        shown: Picture = self.colors[at]
        return shown


def render_frame(samples: Samples, geometry: Geometry, model: str, palette: Palette | None) -> list[Picture]:
    """Render one frame for OCR.

    Parameters
    ----------
    samples : array
        One frame as returned by `decode_frame`.
    geometry : Geometry
    model : str
        Photometric Interpretation of ``samples``.
    palette : Palette or None
        For ``PALETTE COLOR``.

    Returns
    -------
    list of arrays of uint8, shape (rows, columns)
        First what a viewer would display, then renderings in which hidden text is visible. Empty if the frame
        is too small or has one value only.
    """
    if min(geometry.rows, geometry.columns) < LEAST_SIDE or samples.size == 0:
        return []
    colors = shown_colors(samples, geometry, model, palette)
    if colors is None:
        pictures = [*_gray(samples, inverted=model == "MONOCHROME1"), *_faint(samples)]
    else:
        pictures = [mixed(colors), *_faint(colors)]
    return [one for one in pictures if one.min() != one.max()]


def stored_gray(
    samples: Samples, geometry: Geometry, model: str, palette: Palette | None
) -> NDArray[np.float32]:
    """Return the gray values of a frame in units of its stored values, without any window.

    Parameters
    ----------
    samples, geometry, model, palette
        As for `render_frame`.

    Returns
    -------
    array of float32, shape (rows, columns)
        Floating-point samples are scaled to the range of 16 bits; colors are converted to gray.
    """
    colors = shown_colors(samples, geometry, model, palette)
    if colors is not None:
        return mixed(colors).astype(np.float32)
    values = samples.astype(np.float32)
    if samples.dtype.kind == "f":
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        values = (values - values.min()) * np.float32(65535 / max(float(np.ptp(values)), 1e-30))
    return values


def shown_colors(samples: Samples, geometry: Geometry, model: str, palette: Palette | None) -> Picture | None:
    """Return the colors of a frame, 8 bits, shape (rows, columns, 3); None if it is gray.

    Parameters
    ----------
    samples, geometry, model, palette
        As for `render_frame`.
    """
    if samples.ndim == 2:
        return palette.shown(samples) if palette else None
    return _colors(samples, geometry, model)


def _gray(samples: Samples, *, inverted: bool) -> list[Picture]:
    """Scale from lowest to highest value; if outliers take most of the range, also without them."""
    values = samples.astype(np.float32)
    if samples.dtype.kind == "f":
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    pictures = [_scaled(values, low, high)]
    if samples.dtype.itemsize > 1:
        inner_low, inner_high = (float(one) for one in np.percentile(values, (_TAIL, 100 - _TAIL)))
        if 0 < inner_high - inner_low < (high - low) / _OUTLIERS:
            pictures.append(_scaled(values, inner_low, inner_high))
    return [255 - one for one in pictures] if inverted else pictures


def _faint(samples: Samples) -> list[Picture]:
    """Amplify values that differ little from a uniform background.

    Such text is invisible to the eye, but legible to any program. Larger differences are left out: they are
    visible in the other renderings.
    """
    if samples.dtype.kind == "f":
        return []
    values = samples.astype(np.float32)
    reach = max(_STEPS, _STEPS / 255 * float(values.max() - values.min()))
    if samples.ndim == 3:
        values, reach = values.sum(axis=2), reach * samples.shape[2]
    above = values - np.median(values)
    near = np.abs(above) <= reach
    if float((above == 0).mean()) < _MOSTLY or not above[near].any():
        return []
    return [_scaled(np.where(near, above, 0), -reach, reach)]


def _scaled(values: NDArray[np.float32], low: float, high: float) -> Picture:
    if high <= low:
        return np.zeros(values.shape, np.uint8)
    scale = np.float32(255.0 / (high - low))
    return np.asarray(np.clip((values - low) * scale + 0.5, 0, 255), np.uint8)


def mixed(colors: Picture) -> Picture:
    """Return the gray values of colors: the mean of luminance and brightest channel."""
    # With luminance only, text in a color of the same luminance as its background would vanish.
    red, green, blue = (colors[..., channel].astype(np.uint16) for channel in range(3))
    luminance = (77 * red + 150 * green + 29 * blue + 128) >> 8
    gray: Picture = ((luminance + np.maximum(np.maximum(red, green), blue) + 1) >> 1).astype(np.uint8)
    return gray


def _colors(samples: Samples, geometry: Geometry, model: str) -> Picture:
    """Convert samples to RGB of 8 bits, shape (rows, columns, 3)."""
    # YBR_FULL_422: two luminance and two chroma samples for each pair of columns.
    if samples.shape[-1] == 4 and samples.shape[1] * 2 == geometry.columns:
        luma = samples[..., :2].reshape(geometry.rows, geometry.columns)
        chroma = np.repeat(samples[..., 2:], 2, axis=1)
        samples = np.dstack([luma, chroma])
    if samples.dtype == np.uint8 and not model.startswith("YBR"):
        return samples[..., :3]
    values = samples[..., :3].astype(np.float32)
    if samples.dtype.itemsize > 1:
        values *= 255.0 / max(2 ** min(geometry.bits_stored, 32) - 1, 1)
    if not model.startswith("YBR"):
        return np.asarray(np.clip(values + 0.5, 0, 255), np.uint8)
    # YBR_FULL to RGB (PS3.3 C.7.6.3.1.2).
    luma, blue, red = values[..., 0], values[..., 1] - 128, values[..., 2] - 128
    channels = (luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue)
    return np.asarray(np.clip(np.stack(channels, axis=-1) + 0.5, 0, 255), np.uint8)
