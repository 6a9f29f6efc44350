"""Letters that have the gray value of their ground: they are seen by their color only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from medsanitize.sanitize.burned_in.areas import join_overlapping
from medsanitize.sanitize.burned_in.rendering import (
    LEAST_SIDE,
    Palette,
    Picture,
    Samples,
    mixed,
    shown_colors,
)
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from numpy.typing import NDArray

# Step of a channel that is seen as an edge, and part of it up to which the gray values show none.
_COLOR_STEP, _HIDDEN = 24, 4
# Window (pixels) with so many steps, as three letters of 8 pixels or a side of a large one have.
_WINDOW, _FEWEST = 33, 48
# Number of planes that are searched, and axes of color without gray from which each is chosen.
_MOST_PLANES = 2
_ANGLES = np.pi / 12 * np.arange(12)[:, None]
_AXES = np.asarray(
    np.cos(_ANGLES) * np.array([1, -1, 0]) / 2**0.5 + np.sin(_ANGLES) * np.array([1, 1, -2]) / 6**0.5,
    np.float32,
)
# Side of the blocks in which steps are looked for, and part of a frame from which it is searched whole.
_BLOCK, _MOST = 32, 0.6


@dataclass(frozen=True, slots=True)
class HiddenPlane:
    """Colors along one axis, shape (rows, columns), and the areas in which the gray values hide edges."""

    values: NDArray[np.float32]
    areas: tuple[Area, ...]


def hidden_colors(
    samples: Samples, geometry: Geometry, model: str, palette: Palette | None
) -> list[HiddenPlane]:
    """Return planes of values in which letters are seen that have the gray value of their ground.

    Parameters
    ----------
    samples, geometry, model, palette
        As for `render_frame`.

    Returns
    -------
    list of HiddenPlane
        Colors along the axes that show most edges which the gray values do not; empty for gray frames,
        and if gray values show every edge.
    """
    import cv2

    colors = shown_colors(samples, geometry, model, palette)
    if colors is None or min(colors.shape[:2]) < LEAST_SIDE:
        return []
    planes: list[HiddenPlane] = []
    steps, places = _hidden_steps(colors)
    while len(planes) < _MOST_PLANES and len(steps):
        dense = _dense(places, colors.shape[:2])
        near = dense[places[:, 0], places[:, 1]]
        if not near.any():
            break
        steps, places = steps[near], places[near]
        shown = np.abs(steps @ _AXES.T) > _COLOR_STEP // _HIDDEN
        most = int(shown.sum(axis=0).argmax())
        values = cv2.transform(colors.astype(np.float32), _AXES[most : most + 1])
        planes.append(HiddenPlane(np.asarray(values, np.float32), _areas_of(dense)))
        # What this plane shows is not looked for again.
        steps, places = steps[~shown[:, most]], places[~shown[:, most]]
    return planes


def _hidden_steps(colors: Picture) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Steps of color that gray values do not show, without their gray part, and their rows and columns."""
    import cv2

    gray = mixed(colors)
    found, places = [], []
    for near, far in ((np.s_[:, :-2], np.s_[:, 2:]), (np.s_[:-2], np.s_[2:])):
        red, green, blue = cv2.split(cv2.absdiff(colors[far], colors[near]))
        seen = cv2.max(cv2.max(red, green), blue) >= _COLOR_STEP
        seen &= cv2.absdiff(gray[far], gray[near]) <= _COLOR_STEP // _HIDDEN
        found.append(colors[far][seen].astype(np.float32) - colors[near][seen])
        places.append(np.argwhere(seen))
    differences = np.concatenate(found)
    return np.asarray(differences - differences.mean(axis=1, keepdims=True), np.float32), np.concatenate(
        places
    )


def _dense(places: NDArray[np.intp], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Pixels around which there are as many steps as letters have."""
    import cv2

    count = np.zeros(shape, np.float32)
    np.add.at(count, (places[:, 0], places[:, 1]), 1)
    around = cv2.boxFilter(count, -1, (_WINDOW, _WINDOW), normalize=False, borderType=cv2.BORDER_CONSTANT)
    # Sums of whole numbers, which rounding must not decide.
    return np.asarray(around >= _FEWEST - 0.5)


def _areas_of(dense: NDArray[np.bool_]) -> tuple[Area, ...]:
    """Areas of whole blocks that hold pixels, with a block around them; the frame, if they are most of it."""
    import cv2

    rows, columns = dense.shape
    padded = np.pad(dense, ((0, -rows % _BLOCK), (0, -columns % _BLOCK)))
    squares = padded.reshape(padded.shape[0] // _BLOCK, _BLOCK, -1, _BLOCK)
    blocks = np.asarray(squares.any(axis=(1, 3)), np.uint8)
    marked = cv2.dilate(blocks, np.ones((3, 3), np.uint8))
    _, _, stats, _ = cv2.connectedComponentsWithStats(marked, connectivity=8)
    boxes = (
        (_BLOCK * x, _BLOCK * y, min(columns, _BLOCK * (x + width)), min(rows, _BLOCK * (y + height)))
        for x, y, width, height, _ in stats[1:].tolist()
    )
    areas = join_overlapping(boxes)
    searched = sum((right - left) * (bottom - top) for left, top, right, bottom in areas)
    return areas if searched < _MOST * dense.size else ((0, 0, columns, rows),)
