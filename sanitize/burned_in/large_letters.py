"""Large letters, which the text map does not show: they are small ones in the reduced frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.strokes import StrokeLine, TextPiece, text_pieces
from medsanitize.sanitize.burned_in.text_map import Chances, text_chances
from medsanitize.sanitize.burned_in.unread import areas_of_line, is_read, unread_lines
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from medsanitize.sanitize.formats.ground import mask_of
from numpy.typing import NDArray

Values = NDArray[np.float32]
Mask = NDArray[np.bool_]

# How much the frame is reduced, and the least side (pixels) of the result, with several letters.
_REDUCED, _SMALLEST = (8, 4), 32
# Least size (pixels of the reduced frame) of letters: smaller ones are found in the frame itself.
_LEAST = 8
# Further reductions of the reduced frame: letters of up to 500 pixels.
_AGAIN = (1, 2)
# Of the outline of drawn ink, least part with a sharp step, and how high (part of the contrast) a step is.
_SHARP, _STEP = 0.6, 0.5
# Least drawn letters of a line, the part of a letter that is blanked from which it is known, and that from
# which the line is known in part.
_FEWEST, _COVERED, _TOUCHED = 2, 0.8, 0.2
# Largest shorter side of a letter of a known line, in sizes of its letters.
_ALIKE = 1.5
# Percentiles of the values of ground and ink.
_ENDS = (5, 95)


def large_unread_areas(
    values: Values, found: Chances, harmless: Sequence[TextBox], blanked: Sequence[Area] = ()
) -> tuple[Area, ...]:
    """Return the areas of large letters that no reading acquits.

    Parameters
    ----------
    values : array of float32, shape (rows, columns)
        Stored gray values of the frame.
    found : array of float32, shape (ceil(rows / 4), ceil(columns / 4))
        As returned by `text_chances` for ``values``.
    harmless : sequence of TextBox
        Lines that were read with certainty and do not identify.
    blanked : sequence of Area
        Areas that are blanked anyway.
    """
    areas: list[Area] = []
    whole = list(text_pieces(found))
    for reduced in _REDUCED:
        small = _smaller_frame(values, reduced)
        if small is not None:
            areas += _areas_at(reduced, small, values, whole, harmless, [*blanked, *areas])
    return tuple(areas)


def _areas_at(
    reduced: int,
    small: Values,
    values: Values,
    whole: Sequence[TextPiece],
    harmless: Sequence[TextBox],
    blanked: Sequence[Area],
) -> Iterator[Area]:
    """Yield the areas of letters that are small in the frame reduced so much."""
    chances = text_chances(small, _AGAIN)
    shown = list(text_pieces(chances))
    acquitted = [
        smaller
        for box in harmless
        if is_read(smaller := _smaller(box, reduced), shown) or (_is_word(box) and is_read(box, whole))
    ]
    lines = [
        line
        for line in unread_lines(small, chances, acquitted)
        if line.size >= _LEAST and not (reduced < max(_REDUCED) and _crosses(line, small.shape[1]))
    ]
    rows, columns = values.shape
    known = mask_of(blanked if lines else (), (rows, columns))
    for line in lines:
        for left, top, right, bottom in _areas(line, values, known, small.shape, reduced):
            yield left * reduced, top * reduced, min(columns, right * reduced), min(rows, bottom * reduced)


def _crosses(line: StrokeLine, columns: int) -> bool:
    """Whether a line reaches both sides of the frame, as the slices in a row of a mosaic do."""
    left, right = min(one[0] for one in line.letters), max(one[2] for one in line.letters)
    return left < line.size / 2 and columns - right < line.size / 2


def _is_word(box: TextBox) -> bool:
    return sum(map(str.isalnum, box.text)) >= _FEWEST


def _areas(
    line: StrokeLine, values: Values, known: Mask, shape: tuple[int, ...], reduced: int
) -> Iterator[Area]:
    """Areas, in pixels of the reduced frame, of the letters of a drawn line that are not blanked yet."""
    drawn = [one for one in line.letters if _is_drawn(one, values, reduced)]
    if len(drawn) < max(_FEWEST, len(line.letters) / 2):
        return
    # Letters that touch what is behind them have no sharp outline; what is larger is no letter.
    small = [one for one in line.letters if one not in drawn and _shorter_side(one) <= _ALIKE * line.size]
    blanked = {one: float(known[_whole(one, reduced)].mean()) for one in (*drawn, *small)}
    left = tuple(one for one, part in blanked.items() if part < _COVERED)
    if max(blanked.values()) > _TOUCHED:
        # Beside letters that were found before, only ink of their size is one that was missed.
        left = tuple(one for one in left if _shorter_side(one) <= _ALIKE * line.size)
    if left:
        yield from areas_of_line(replace(line, letters=left, doubtful=()), shape)


def _shorter_side(area: Area) -> int:
    left, top, right, bottom = area
    return min(right - left, bottom - top)


def _whole(area: Area, reduced: int) -> tuple[slice, slice]:
    """Rows and columns of the frame that an area of the reduced frame covers."""
    left, top, right, bottom = (reduced * side for side in area)
    return slice(top, bottom), slice(left, right)


def _smaller_frame(values: Values, reduced: int) -> Values | None:
    """The frame at a resolution at which large letters are small; None if it is too small for any."""
    import cv2

    # Rows and columns that no whole cell covers belong to the last one.
    rows, columns = (-(-side // reduced) for side in values.shape)
    if min(rows, columns) < _SMALLEST:
        return None
    below, right = rows * reduced - values.shape[0], columns * reduced - values.shape[1]
    padded = cv2.copyMakeBorder(values, 0, below, 0, right, cv2.BORDER_REPLICATE)
    return np.asarray(cv2.resize(padded, (columns, rows), interpolation=cv2.INTER_AREA), np.float32)


def _smaller(box: TextBox, reduced: int) -> TextBox:
    left, top = box.left // reduced, box.top // reduced
    return replace(box, left=left, top=top, right=-(-box.right // reduced), bottom=-(-box.bottom // reduced))


def _is_drawn(letter: Area, values: Values, reduced: int) -> bool:
    """Whether most of the outline of ink is sharp in the frame itself: that of organs is not."""
    import cv2

    left, top, right, bottom = letter
    around = max(0, left - 1), max(0, top - 1), right + 1, bottom + 1
    part = np.ascontiguousarray(values[_whole(around, reduced)])
    low, high = (float(one) for one in np.percentile(part, _ENDS))
    if high <= low:
        return False
    window = np.ones((3, 3), np.uint8)
    smooth = np.asarray(cv2.medianBlur(part, 5))
    ink = (smooth > (low + high) / 2).astype(np.uint8)
    outline = cv2.dilate(ink, window) != cv2.erode(ink, window)
    steps = cv2.morphologyEx(smooth, cv2.MORPH_GRADIENT, np.ones((5, 5), np.uint8))
    return bool(outline.any()) and float((steps[outline] >= _STEP * (high - low)).mean()) >= _SHARP
