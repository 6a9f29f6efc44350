"""Text that no reading acquits: it looks like text and was not read with certainty as harmless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from medsanitize.sanitize.burned_in.areas import covered_fraction, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.strokes import StrokeLine, TextPiece, find_lines, text_pieces
from medsanitize.sanitize.burned_in.text_map import CELL, Chances
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

# Letters that were read per height of the line along its length: with fewer, only a part of it was read.
_READ = 0.7
# Part of a slanted line that a reading must cover, and letters from which a reading may cover less of others.
_WHOLE, _SEVERAL = 0.9, 3
# Part of a harmless line that may be blanked: with more, it is blanked whole.
_TOUCHED = 0.2
# Margin around a harmless line (of its height), in which the text map still shows it.
_AROUND = 0.35
# Most times that lines next to blanked ones are looked for.
_ROUNDS = 3
# Margin (letter sizes), which contains dots and accents; sides (letter sizes) of a group on one line.
_MARGIN, _FLAT = 0.35, 2.2
# Gap (letter sizes) between letters in which another one may be; rows of pixels of an area of a slanted line.
_NEIGHBOR = 1.5
_STEP = 4

Bounds = NDArray[np.int64]


def unread_areas(
    values: NDArray[np.float32], chances: Chances, harmless: Sequence[TextBox], blanked: Sequence[Area]
) -> tuple[Area, ...]:
    """Return the areas to blank: unread text, and harmless lines of which a part is blanked.

    Parameters
    ----------
    values : array of float32, shape (rows, columns)
        Stored gray values of the frame.
    chances : Chances
        Text map of the frame.
    harmless : sequence of TextBox
        Lines that were read with certainty and do not identify.
    blanked : sequence of Area
        Areas that are blanked anyway.
    """
    shape = values.shape[0], values.shape[1]
    pieces = list(text_pieces(chances))
    acquitted = [box for box in harmless if is_read(box, pieces)]
    found: tuple[Area, ...] = ()
    # A line that is blanked may cut the one beside it.
    for turn in range(_ROUNDS):
        cutting = [*blanked, *found]
        whole = [box for box in acquitted if not _is_cut(box, cutting)]
        if turn and len(whole) == len(acquitted):
            break
        acquitted = whole
        lines = unread_lines(values, chances, acquitted)
        found = merge_areas(area for line in lines for area in areas_of_line(line, shape))
    return found


def unread_lines(
    values: NDArray[np.float32], chances: Chances, acquitted: Sequence[TextBox]
) -> tuple[StrokeLine, ...]:
    """Return the lines of a frame outside those that a reading acquits.

    Parameters
    ----------
    values, chances
        As for `unread_areas`.
    acquitted : sequence of TextBox
    """
    rest = chances.copy()
    for box in acquitted:
        left, top, right, bottom = (side // CELL for side in _grown(box))
        rest[top:bottom, left:right] = 0
    return find_lines(values, rest)


def is_read(box: TextBox, pieces: Sequence[TextPiece]) -> bool:
    """Return whether a line has as many letters as its length and the text found in it need.

    Parameters
    ----------
    box : TextBox
    pieces : sequence of TextPiece
        Text found in the frame.
    """
    around, letters = _grown(box), sum(map(str.isalnum, box.text))
    length = max(box.right - box.left, box.bottom - box.top)
    needed = max(1.0, _READ * length / max(box.height, 1))
    for piece in pieces:
        inside = piece.letters_in(around)
        # A slanted line is read as a whole or not at all, because no box of OCR follows it; and so is a line
        # of which single letters are read, because signs of other scripts look like single letters.
        whole = inside >= _WHOLE * piece.length / piece.size
        if inside and not whole and (piece.is_slanted or letters < _SEVERAL):
            return False
        needed = max(needed, _READ * inside)
    return letters >= needed


def _grown(box: TextBox) -> Area:
    """The bounds of a line with the margin in which the text map still shows it, in whole cells."""
    margin = round(_AROUND * box.height) + CELL
    left, top = (max(0, side - margin) // CELL * CELL for side in (box.left, box.top))
    return left, top, -(-(box.right + margin) // CELL) * CELL, -(-(box.bottom + margin) // CELL) * CELL


def _is_cut(box: TextBox, blanked: Sequence[Area]) -> bool:
    bounds = box.left, box.top, box.right, box.bottom
    return any(covered_fraction(bounds, area) > _TOUCHED for area in blanked)


def areas_of_line(line: StrokeLine, shape: tuple[int, ...]) -> Iterator[Area]:
    """Yield areas with a margin: one for a horizontal or vertical line, else several that follow it.

    Parameters
    ----------
    line : StrokeLine
    shape : tuple of int
        Rows and columns of the frame.
    """
    letters = np.array((*line.letters, *line.doubtful))
    left, top = letters[:, :2].min(axis=0).tolist()
    right, bottom = letters[:, 2:].max(axis=0).tolist()
    margin = max(2, round(_MARGIN * line.size))
    around = (
        max(0, left - margin),
        max(0, top - margin),
        min(shape[1], right + margin),
        min(shape[0], bottom + margin),
    )
    if min(right - left, bottom - top) <= _FLAT * line.size and _is_dense(letters, line.size):
        yield around
    else:
        yield from _along(letters, line.size, margin, around)


def _along(letters: Bounds, size: float, margin: int, around: Area) -> Iterator[Area]:
    """Areas that cover letters with a margin, and the gaps between neighbors."""
    import cv2

    left, top, right, bottom = around
    mask = np.zeros((bottom - top, right - left), np.uint8)
    for x0, y0, x1, y1 in (letters - (left, top, left, top)).tolist():
        mask[max(0, y0 - margin) : y1 + margin, max(0, x0 - margin) : x1 + margin] = 1
    # A letter between two others may have been missed.
    gap = max(1, round(_NEIGHBOR * size))
    padded = cv2.copyMakeBorder(mask, gap, gap, gap, gap, cv2.BORDER_CONSTANT, value=0)
    window = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (gap, gap))
    closed = np.asarray(cv2.morphologyEx(padded, cv2.MORPH_CLOSE, window))[gap:-gap, gap:-gap]
    for y in range(0, len(closed), _STEP):
        ends = np.flatnonzero(np.diff(np.pad(closed[y : y + _STEP].any(axis=0), 1).astype(np.int8)))
        for start, end in ends.reshape(-1, 2).tolist():
            yield left + start, top + y, left + end, min(bottom, top + y + _STEP)


def _is_dense(letters: Bounds, size: float) -> bool:
    """Whether no harmless text fits between the letters."""
    across = letters[:, 2:].max(axis=0) - letters[:, :2].min(axis=0)
    along = 0 if across[0] >= across[1] else 1
    order = letters[np.argsort(letters[:, along])]
    ends = np.maximum.accumulate(order[:, along + 2])
    return bool((order[1:, along] - ends[:-1] <= 2 * size).all())
