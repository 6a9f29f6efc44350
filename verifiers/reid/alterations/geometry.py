"""Geometric alterations: copies that were moved, mirrored, cropped, turned, zoomed or bent.

Every function maps ``(n, size, size)`` to copies of the same shape. What is drawn at random depends on the
index of the image only, so that the same images give the same copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The largest rotation in degrees; shifts, scales and contrasts are shares. As in training augmentation.
TURN: Final = 4.0
SHIFT: Final = 0.04
SCALE: Final = 0.06
CONTRAST: Final = 0.1
# Share of each side that a crop keeps, and that a zoomed out image fills.
CROP: Final = 0.8
ZOOM: Final = 0.85
# Degrees.
ROTATION: Final = 10.0
# Largest displacement of a point and width of the displacements, as shares of the side (Simard et al. 2003).
BEND: Final = 0.03
BEND_WIDTH: Final = 0.12
# Outside the range of usual seeds, so that no copy equals a generated image.
SEEDS: Final = 1 << 61


def moved(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Rotate, scale, shift and change the contrast of images at random, within the range of training.

    A generator trained on augmented images memorizes augmented images. Edges are repeated.
    """
    import numpy as np

    found = np.empty_like(squares)
    for place, one in enumerate(squares):
        change = np.random.default_rng([SEEDS, place]).uniform(-1, 1, 6)
        seen = _affine(one, change[0] * TURN, 1 + change[1] * SCALE, change[2:4] * SHIFT)
        # Into [-1, 1], the range in which training changes the contrast.
        seen = (seen / 127.5 - 1) * (1 + change[4] * CONTRAST) + change[5] * CONTRAST
        found[place] = np.rint((np.clip(seen, -1, 1) + 1) * 127.5)
    return found


def mirrored(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Swap left and right."""
    return squares[:, :, ::-1].copy()


def cropped(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Keep the middle and scale it to the full size."""
    return _each(squares, lambda one, _: _affine(one, 0.0, CROP, (0.0, 0.0)))


def cropped_off_center(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Keep one of the four corners, by index, and scale it to the full size."""
    reach = (1 - CROP) / 2
    corners = [(down, across) for down in (-reach, reach) for across in (-reach, reach)]
    return _each(squares, lambda one, place: _affine(one, 0.0, CROP, corners[place % len(corners)]))


def rotated(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Rotate to either side, by index; edges are repeated."""
    return _each(
        squares, lambda one, place: _affine(one, -ROTATION if place % 2 else ROTATION, 1.0, (0.0, 0.0))
    )


def zoomed_out(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Make images smaller; edges are repeated."""
    return _each(squares, lambda one, _: _affine(one, 0.0, 1 / ZOOM, (0.0, 0.0)))


def elastic(squares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Displace points at random and smoothly, as in other breath or posture."""
    import numpy as np
    from scipy.ndimage import gaussian_filter, map_coordinates  # type: ignore[import-untyped]

    side = squares.shape[-1]
    places = np.mgrid[:side, :side].astype(np.float64)

    def bent(one: NDArray[np.uint8], place: int) -> NDArray[np.float64]:
        draw = np.random.default_rng([SEEDS, place, 1])
        shifts = gaussian_filter(draw.normal(size=(2, side, side)), (0, BEND_WIDTH * side, BEND_WIDTH * side))
        shifts *= BEND * side / np.abs(shifts).max()
        return np.asarray(map_coordinates(one.astype(np.float64), places + shifts, order=1, mode="nearest"))

    return _each(squares, bent)


def _each(
    squares: NDArray[np.uint8], change: Callable[[NDArray[np.uint8], int], NDArray[np.float64]]
) -> NDArray[np.uint8]:
    import numpy as np

    found = np.empty_like(squares)
    for place, one in enumerate(squares):
        found[place] = np.rint(np.clip(change(one, place), 0, 255))
    return found


def _affine(
    one: NDArray[np.uint8], degrees: float, scale: float, shift: Sequence[float] | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rotate about the middle, scale (less than 1 enlarges) and shift by shares of the side."""
    import numpy as np
    from scipy.ndimage import affine_transform

    side, angle = one.shape[-1], np.radians(degrees)
    middle = np.full(2, (side - 1) / 2)
    matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * scale
    offset = middle - matrix @ middle + np.asarray(shift) * side
    return np.asarray(affine_transform(one.astype(np.float64), matrix, offset, order=1, mode="nearest"))
