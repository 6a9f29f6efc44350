"""Text in the frames of one object: what did not change since it was last looked at is not read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.ocr import Bounds, Frame, TextReader, is_known_patch
from numpy.typing import NDArray

_AROUND = 32
_CHANGED = 6
_MOST = 0.6


def read_frames(reader: TextReader, frames: Iterable[Frame]) -> Iterator[tuple[TextBox, ...]]:
    """Read every frame of an object.

    The first frame is read whole. Of each later frame the area around everything that changed is looked
    at again, with the lines that reach into it, and lines in which something changed are read; the rest
    keeps its text. Every pixel is compared with what it showed when it last changed, so slow changes add up.

    Parameters
    ----------
    reader : TextReader
    frames : iterable of arrays of uint8, shape (rows, columns)
        In order; a change of shape begins anew.

    Yields
    ------
    tuple of TextBox
        The text of each frame, as `TextReader.read` gives it.
    """
    seen: Frame | None = None
    boxes: tuple[TextBox, ...] = ()
    for frame in frames:
        if seen is None or seen.shape != frame.shape:
            seen, boxes = frame.copy(), reader.read(frame)
        else:
            differs = np.maximum(seen, frame) - np.minimum(seen, frame) > _CHANGED
            if differs.any():
                boxes = _reread(reader, frame, differs, boxes)
                seen[differs] = frame[differs]
        yield boxes


def _area(differs: NDArray[np.bool_], boxes: tuple[TextBox, ...]) -> Bounds:
    """The area of all changes, with a margin for the letters they belong to and the lines they cut whole."""
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
    left, top, right, bottom = max(0, area[0]), max(0, area[1]), min(columns, area[2]), min(rows, area[3])
    if (right - left) * (bottom - top) > _MOST * differs.size:
        return 0, 0, columns, rows
    return left, top, right, bottom


def _reread(
    reader: TextReader, frame: Frame, differs: NDArray[np.bool_], boxes: tuple[TextBox, ...]
) -> tuple[TextBox, ...]:
    """The text of the frame: lines in which nothing changed, and what is read beside them where it did."""
    kept = [box for box in boxes if not differs[box.top : box.bottom, box.left : box.right].any()]
    known = [(box.left, box.top, box.right, box.bottom) for box in kept]
    for box in reader.read_changes(frame, _area(differs, boxes), differs):
        if not is_known_patch((box.left, box.top, box.right, box.bottom), known):
            kept.append(box)
    return tuple(sorted(kept, key=lambda box: (box.top, box.left, box.bottom, box.right)))


def _meets(box: TextBox, area: Bounds) -> bool:
    return box.left < area[2] and area[0] < box.right and box.top < area[3] and area[1] < box.bottom


def _joined(one: Bounds, other: Bounds) -> Bounds:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])
