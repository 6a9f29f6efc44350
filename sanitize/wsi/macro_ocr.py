"""Detection of text and codes in the kept region of a macro image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from medsanitize.sanitize.burned_in.areas import covered_fraction, is_inside, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.classify import LEGIBLE
from medsanitize.sanitize.burned_in.codes import find_codes
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.rendering import render_frame, stored_gray
from medsanitize.sanitize.burned_in.text_map import text_chances
from medsanitize.sanitize.burned_in.unread import unread_areas
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from numpy.typing import NDArray

_FEW_LETTERS, _CERTAIN_LETTERS = 3, 5
_LARGE_TEXT_HEIGHT = 40
_CONFIDENT_SCORE = 0.9
# Covered fraction from which a code counts as blanked.
_SAME_AREA_FRACTION = 0.7


def text_areas(picture: NDArray[Any], part: Area, blanked: Sequence[Area]) -> list[Area]:
    """Find areas of text and of bar and matrix codes in a region of an image.

    All text counts, identifying or not. A large box with almost no text, or with a few letters of low
    confidence, is taken for tissue.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns, 3)
    part : Area
        The region to search.
    blanked : sequence of Area
        Areas that were blanked before; they are not reported again.

    Returns
    -------
    list of Area
        Bounds in pixels of the whole image, each with a margin, overlapping ones merged.
    """
    left, top, right, bottom = part
    crop = np.ascontiguousarray(picture[top:bottom, left:right])
    rows, columns = crop.shape[:2]
    geometry = Geometry(rows, columns, 3, 1, 8, 8, 7, False, "RGB")
    found: list[Area] = []
    values = stored_gray(crop, geometry, "RGB", None)
    chances = text_chances(values)
    for x, y, x1, y1 in unread_areas(values, chances, (), ()):
        area = (x + left, y + top, x1 + left, y1 + top)
        if not any(covered_fraction(area, known) >= _SAME_AREA_FRACTION for known in blanked):
            found.append(area)
    for shown in render_frame(crop, geometry, "RGB", None):
        for box in _reader().read(shown, chances):
            one = area_to_blank(box, (rows, columns))
            # Text found after blanking is usually the edge of a box that was too tight: double the margin.
            one = area_to_blank(one, (rows, columns)) if blanked else one
            area = (one.left + left, one.top + top, one.right + left, one.bottom + top)
            bounds = (box.left + left, box.top + top, box.right + left, box.bottom + top)
            if _is_text(box, min(picture.shape[:2])) and not any(
                is_inside(bounds, known) for known in blanked
            ):
                found.append(area)
        for x, y, x1, y1 in find_codes(shown):
            area = (x + left, y + top, x1 + left, y1 + top)
            if not any(covered_fraction(area, known) >= _SAME_AREA_FRACTION for known in blanked):
                found.append(area)
    return list(merge_areas(found))


def _is_text(box: TextBox, side: int) -> bool:
    """Return whether a box holds text; ``side`` is the shorter side of the image, in pixels."""
    letters = sum(char.isalnum() for char in box.text)
    # Small boxes count with a single letter; in large ones the reader sees "letters" in tissue.
    if box.height <= _LARGE_TEXT_HEIGHT:
        return letters > 0
    if letters > _FEW_LETTERS:
        return letters >= _CERTAIN_LETTERS or box.score >= LEGIBLE
    return letters > 0 and box.score >= _CONFIDENT_SCORE and 2 * box.height <= side


@cache
def _reader() -> TextReader:

    return TextReader()
