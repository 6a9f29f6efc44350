"""Text on the glass: where a machine reads letters in the part of a macro that stays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from medsanitize.sanitize.burned_in.areas import is_inside, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.classify import LEGIBLE
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.rendering import render_frame
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from numpy.typing import NDArray

_FEW, _SEVERAL = 3, 5
_LARGE = 40
_SURE = 0.9


def text_areas(picture: NDArray[Any], part: Area, blanked: Sequence[Area]) -> list[Area]:
    """Areas of text in a part of a picture, each with a margin; those of ``blanked`` are not told again.

    Every line counts, whether it identifies or not. A large patch in which next to nothing was read, or a few
    letters not for sure, is tissue.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns, 3)
    part : Area
        Where to look.
    blanked : sequence of Area
        What was blanked before; text that is found all the same gets a margin twice as wide.
    """
    left, top, right, bottom = part
    crop = np.ascontiguousarray(picture[top:bottom, left:right])
    rows, columns = crop.shape[:2]
    geometry = Geometry(rows, columns, 3, 1, 8, 8, 7, False, "RGB")
    found: list[Area] = []
    for shown in render_frame(crop, geometry, "RGB", None):
        for box in _reader().read(shown):
            one = area_to_blank(box, (rows, columns))
            one = area_to_blank(one, (rows, columns)) if blanked else one
            area = (one.left + left, one.top + top, one.right + left, one.bottom + top)
            bounds = (box.left + left, box.top + top, box.right + left, box.bottom + top)
            if _is_text(box, min(picture.shape[:2])) and not any(
                is_inside(bounds, known) for known in blanked
            ):
                found.append(area)
    return list(merge_areas(found))


def _is_text(box: TextBox, side: int) -> bool:
    """Whether letters were read; large ones legibly, and none of them over half of the glass (``side``)."""
    letters = sum(char.isalnum() for char in box.text)
    if box.height <= _LARGE:
        return letters > 0
    if letters > _FEW:
        return letters >= _SEVERAL or box.score >= LEGIBLE
    return letters > 0 and box.score >= _SURE and 2 * box.height <= side


@cache
def _reader() -> TextReader:
    """One for the process: it holds nothing but the models."""
    return TextReader()
