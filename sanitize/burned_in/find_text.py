"""Text in the frames of one object; areas that did not change are not read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.ocr import Bounds, Frame, TextReader, is_known_patch
from medsanitize.sanitize.burned_in.text_map import CELL, Chances
from numpy.typing import NDArray

# Pixels around a change that are read again, for the letters to which it belongs.
_AROUND = 32
# Gray values by which a pixel differs if it changed; smaller differences are noise.
_CHANGED = 6
# Part of a frame from which it is read as a whole.
_MOST = 0.6


def read_frames(reader: TextReader, frames: Iterable[tuple[Frame, Chances]]) -> Iterator[tuple[TextBox, ...]]:
    """Read every frame of an object.

    The first frame is read completely. In later frames only the area around all changes is read, with the
    lines that extend into it, and only lines with changed pixels are replaced.

    Parameters
    ----------
    reader : TextReader
    frames : iterable of (array of uint8, shape (rows, columns), Chances)
        Frames in order, with their text maps; after a change of shape a frame is read completely.

    Yields
    ------
    tuple of TextBox
        The text of each frame, as returned by `TextReader.read`.
    """
    seen: Frame | None = None
    boxes: tuple[TextBox, ...] = ()
    for frame, chances in frames:
        if seen is None or seen.shape != frame.shape:
            seen, boxes = frame.copy(), reader.read(frame, chances)
        else:
            differs = changed_pixels(seen, frame)
            if differs.any():
                boxes = read_again(reader, frame, chances, differs, boxes)
                # Only the changed pixels, so that slow changes add up until they are read.
                seen[differs] = frame[differs]
        yield boxes


def changed_pixels(before: Frame, after: Frame) -> NDArray[np.bool_]:
    """Return the pixels of two frames that differ by more than noise."""
    return np.asarray(np.maximum(before, after) - np.minimum(before, after) > _CHANGED)


def _area(differs: NDArray[np.bool_], boxes: tuple[TextBox, ...]) -> Bounds:
    """The area around all changes, with a margin for their letters, and extended to complete lines."""
    rows, columns = differs.shape
    lines, across = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    area = int(across[0]), int(lines[0]), int(across[-1]) + 1, int(lines[-1]) + 1
    area = area[0] - _AROUND, area[1] - _AROUND, area[2] + _AROUND, area[3] + _AROUND
    before = None
    while area != before:
        before = area
        for box in boxes:
            if _meets(box, area):
                area = _joined(area, (box.left, box.top, box.right, box.bottom))
    left, top = (max(0, side) // CELL * CELL for side in area[:2])
    right, bottom = min(columns, area[2]), min(rows, area[3])
    if (right - left) * (bottom - top) > _MOST * differs.size:
        return 0, 0, columns, rows
    return left, top, right, bottom


def read_again(
    reader: TextReader,
    frame: Frame,
    chances: Chances,
    differs: NDArray[np.bool_],
    boxes: tuple[TextBox, ...],
) -> tuple[TextBox, ...]:
    """Read a frame of which only some pixels changed since it was read.

    Parameters
    ----------
    reader : TextReader
    frame : array of uint8, shape (rows, columns)
    chances : Chances
        Text map of the frame.
    differs : array of bool, shape (rows, columns)
        Pixels that changed.
    boxes : tuple of TextBox
        The text before the change.

    Returns
    -------
    tuple of TextBox
        Unchanged lines, and newly read lines in the changed area.
    """
    kept = [box for box in boxes if not differs[box.top : box.bottom, box.left : box.right].any()]
    known = [(box.left, box.top, box.right, box.bottom) for box in kept]
    for box in reader.read_changes(frame, chances, _area(differs, boxes), differs):
        if not is_known_patch((box.left, box.top, box.right, box.bottom), known):
            kept.append(box)
    return tuple(sorted(kept, key=lambda box: (box.top, box.left, box.bottom, box.right)))


def _meets(box: TextBox, area: Bounds) -> bool:
    return box.left < area[2] and area[0] < box.right and box.top < area[3] and area[1] < box.bottom


def _joined(one: Bounds, other: Bounds) -> Bounds:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])
