"""Detection of text and codes in the kept region of a macro image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from medsanitize.sanitize.burned_in.areas import covered_fraction, is_inside, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.classify import LEGIBLE
from medsanitize.sanitize.burned_in.frame_search import search_frame, show_text
from medsanitize.sanitize.burned_in.hidden_colors import hidden_colors
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.rendering import render_frame, stored_gray
from medsanitize.sanitize.burned_in.tiled_letters import tiled_areas
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from medsanitize.sanitize.formats.ground import mask_of
from numpy.typing import NDArray

_FEW_LETTERS, _CERTAIN_LETTERS = 3, 5
_LARGE_TEXT_HEIGHT = 40
_CONFIDENT_SCORE = 0.9
# Covered fraction from which a code counts as blanked.
_SAME_AREA_FRACTION = 0.7
# Distances (pixels) from which blanked areas are filled, and the part of a window that must be seen for it.
_REACHES, _LEAST_SEEN = (8, 32, 128, 512), 0.02


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
        Areas that were blanked since the first search; then only what touches them is reported.

    Returns
    -------
    list of Area
        Bounds in pixels of the whole image, each with a margin, overlapping ones merged.
    """
    left, top, right, bottom = part
    crop = np.ascontiguousarray(picture[top:bottom, left:right])
    shape = rows, columns = crop.shape[0], crop.shape[1]
    known = [_moved(area, -left, -top) for area in blanked]
    crop = _bridged(crop, known) if known else crop
    form = Geometry(rows, columns, 3, 1, 8, 8, 7, False, "RGB"), "RGB", None
    pictures = render_frame(crop, *form)
    shown = show_text(stored_gray(crop, *form), hidden_colors(crop, *form))
    readable = shown.readable
    boxes = [box for one in pictures for box in _reader().read(one, readable)]
    unread = search_frame(pictures, shown)
    found = [
        area
        for area in (*unread.codes, *unread.texts, *tiled_areas(boxes, shape))
        if not any(covered_fraction(area, one) >= _SAME_AREA_FRACTION for one in known)
    ]
    for box in boxes:
        if _is_text(box, min(picture.shape[:2])) and not any(is_inside(box.bounds, one) for one in known):
            one = area_to_blank(box, shape)
            # Text found after blanking is usually the edge of a box that was too tight: double the margin.
            found.append((area_to_blank(one, shape) if known else one).bounds)
    if known:
        # The rest was searched before; dust, of which much lies on glass, is read as letters now and then.
        found = [area for area in found if any(covered_fraction(area, one) for one in known)]
    return list(merge_areas(_moved(area, left, top) for area in found))


def _bridged(colors: NDArray[Any], areas: Sequence[Area]) -> NDArray[np.uint8]:
    """Fill areas smoothly from around them: their own borders look like strokes, and hide ink beside them."""
    import cv2

    hidden = mask_of(areas, colors.shape)
    kept = (~hidden).astype(np.float32)
    seen, filled = colors * kept[:, :, None], colors.astype(np.float32)
    for reach in _REACHES:
        window = (2 * reach + 1, 2 * reach + 1)
        weight = cv2.blur(kept, window)
        near = hidden & (weight >= _LEAST_SEEN)
        filled[near] = (cv2.blur(seen, window) / np.maximum(weight, _LEAST_SEEN)[:, :, None])[near]
        hidden &= ~near
    return np.asarray(np.rint(filled), np.uint8)


def _moved(area: Area, right: int, down: int) -> Area:
    return area[0] + right, area[1] + down, area[2] + right, area[3] + down


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
