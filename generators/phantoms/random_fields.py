"""Smooth random fields, soft shapes and resampling, with NumPy only."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# An image or a layer of one.
Field = NDArray[np.floating[Any]]

# The canvas spans -1.2 to 1.2 in both directions, so that no pose shows its border.
_CANVAS_LIMIT = 1.2


def stream(*numbers: int) -> np.random.Generator:
    """PRNG seeded by ``numbers`` (0 or more each)."""
    # PCG64 named explicitly: default_rng() may change its algorithm between NumPy versions.
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(numbers)))


def grid(size: int) -> tuple[Field, Field]:
    """Coordinates x ``(1, size)`` and y ``(size, 1)`` of the pixels of a canvas."""
    line = np.linspace(-_CANVAS_LIMIT, _CANVAS_LIMIT, size, dtype=np.float32)
    return line[None, :], line[:, None]


@lru_cache(maxsize=64)
def _weights(cells: int, size: int) -> Field:
    """Cubic B-spline weights of ``cells`` + 3 knots at ``size`` pixels, ``(size, cells + 3)``."""
    at = np.linspace(0, cells, size, endpoint=False)
    first = at.astype(int)
    t = at - first
    taps = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]) / 6
    weights = np.zeros((size, cells + 3), np.float32)
    for knot, tap in enumerate(taps):
        weights[np.arange(size), first + knot] = tap
    return weights


def noise(random: np.random.Generator, cells: int, size: int) -> Field:
    """Smooth noise of standard deviation about 1 with features ``size / cells`` pixels wide."""
    weights = _weights(cells, size)
    knots = random.standard_normal((cells + 3, cells + 3), np.float32)
    # 2.1 restores the standard deviation that spline smoothing removes.
    field: Field = (weights @ knots @ weights.T) * np.float32(2.1)
    return field


def soft(values: NDArray[Any], width: float) -> Field:
    """Smooth step from 0 to 1 at zero, with width ``width``."""
    step: Field = np.asarray(np.tanh(values * np.float32(1 / width)) * np.float32(0.5) + np.float32(0.5))
    return step


def bump(values: NDArray[Any]) -> Field:
    """Gaussian with standard deviation 1 and peak 1."""
    curve: Field = np.exp(values * values * np.float32(-0.5))
    return curve


def blur(image: Field, times: int = 1) -> Field:
    """Apply a binomial filter of five taps in both directions, ``times`` times."""
    taps = np.array([1, 4, 6, 4, 1], np.float32) / 16
    for _ in range(times):
        for axis in (0, 1):
            padded = np.pad(image, [(2, 2) if one == axis else (0, 0) for one in range(image.ndim)], "edge")
            length = image.shape[axis]
            shifted = (np.take(padded, range(k, k + length), axis=axis) * tap for k, tap in enumerate(taps))
            image = sum(shifted, np.zeros((), np.float32))
    return image


def splat(points: NDArray[Any], weights: NDArray[Any], size: int) -> Field:
    """Accumulate points ``(n, 2)``, x and y in canvas coordinates; points outside the canvas are dropped."""
    at = (points + _CANVAS_LIMIT) * ((size - 1) / (2 * _CANVAS_LIMIT))
    inside = ((at >= 0) & (at < size - 1)).all(axis=1)
    at, weights = at[inside], weights[inside]
    whole = at.astype(int)
    part = at - whole
    canvas = np.zeros(size * size, np.float64)
    for right in (0, 1):
        for down in (0, 1):
            share = np.abs(1 - right - part[:, 0]) * np.abs(1 - down - part[:, 1]) * weights
            place = (whole[:, 1] + down) * size + whole[:, 0] + right
            canvas += np.bincount(place, share, size * size)
    return canvas.reshape(size, size).astype(np.float32)


def sample_canvas(canvas: Field, x: Field, y: Field) -> Field:
    """Interpolate the canvas linearly at canvas coordinates; its border is repeated."""
    size = canvas.shape[0]
    scale = np.float32((size - 1) / (2 * _CANVAS_LIMIT))
    # Below size - 1, so that the right and lower neighbor of each point exist.
    across = np.clip((x + np.float32(_CANVAS_LIMIT)) * scale, 0, size - 1.001)
    down = np.clip((y + np.float32(_CANVAS_LIMIT)) * scale, 0, size - 1.001)
    left, top = across.astype(np.int32), down.astype(np.int32)
    across, down = across - left, down - top
    if canvas.ndim == 3:
        across, down = across[..., None], down[..., None]
    flat = canvas.reshape(size * size, *canvas.shape[2:])
    place = top * size + left
    upper = flat[place] * (1 - across) + flat[place + 1] * across
    lower = flat[place + size] * (1 - across) + flat[place + size + 1] * across
    result: Field = (upper * (1 - down) + lower * down).astype(np.float32)
    return result
