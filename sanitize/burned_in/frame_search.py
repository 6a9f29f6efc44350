"""Text and codes of one frame that no reading acquits: the one list of searches, for every kind of image.

Frames of DICOM objects, pages, pictures and macro images of slides are searched by it, so that a search that
is added here looks at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.codes import find_codes, without_letters
from medsanitize.sanitize.burned_in.hidden_colors import HiddenPlane
from medsanitize.sanitize.burned_in.large_letters import large_unread_areas
from medsanitize.sanitize.burned_in.readable import readable_chances
from medsanitize.sanitize.burned_in.rendering import Picture
from medsanitize.sanitize.burned_in.text_map import CELL, Chances, text_chances
from medsanitize.sanitize.burned_in.unread import unread_areas
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ShownText:
    """Where a frame shows text.

    Attributes
    ----------
    values : Values
        Stored gray values, or values along an axis of color.
    chances : Chances
        Text map of ``values``.
    hidden : tuple of ShownText
        The same of colors that the gray values hide.
    """

    values: Values
    chances: Chances
    hidden: tuple[ShownText, ...] = ()

    @property
    def readable(self) -> Chances:
        """Where text of the gray values may be read."""
        return readable_chances(self.values, self.chances)

    @property
    def planes(self) -> tuple[ShownText, ...]:
        """The gray values and the colors that they hide."""
        return self, *self.hidden


@dataclass(frozen=True, slots=True)
class Unread:
    """Areas of a frame that no reading acquits, with a margin."""

    codes: tuple[Area, ...]
    texts: tuple[Area, ...]


def show_text(
    values: Values, hidden: Sequence[HiddenPlane], find: Callable[[Values], Chances] = text_chances
) -> ShownText:
    """Find where a frame shows text, in gray and in color.

    Parameters
    ----------
    values : Values
        As `stored_gray` returns them.
    hidden : sequence of HiddenPlane
        As `hidden_colors` returns them; each is searched where the gray values hide edges.
    find : callable, optional
        Makes the text map of values.
    """
    planes = tuple(ShownText(plane.values, _chances_in(plane, find)) for plane in hidden)
    return ShownText(values, find(values), planes)


def _chances_in(plane: HiddenPlane, find: Callable[[Values], Chances]) -> Chances:
    """Text map of the areas of a plane, which begin at whole cells; nothing is looked for elsewhere."""
    rows, columns = plane.values.shape
    chances = np.zeros((-(-rows // CELL), -(-columns // CELL)), np.float32)
    for left, top, right, bottom in plane.areas:
        part = find(plane.values[top:bottom, left:right])
        chances[top // CELL : top // CELL + len(part), left // CELL : left // CELL + part.shape[1]] = part
    return chances


def search_frame(
    pictures: Sequence[Picture],
    shown: ShownText,
    harmless: Sequence[TextBox] = (),
    blanked: Sequence[Area] = (),
) -> Unread:
    """Search one frame for codes and for text that was not read with certainty as harmless.

    Parameters
    ----------
    pictures : sequence of arrays of uint8, shape (rows, columns)
        Renderings of the frame.
    shown : ShownText
    harmless : sequence of TextBox
        Lines that were read with certainty and do not identify.
    blanked : sequence of Area
        Areas that are blanked anyway; words that they cut are completed.
    """
    codes: list[Area] = []
    for number, picture in enumerate(pictures):
        # Later renderings amplify noise, which may look like a pattern, but never decodes.
        codes += find_codes(picture, patterns=not number)
    codes = without_letters(codes, harmless, pictures)
    texts: list[Area] = []
    for plane in shown.planes:
        texts += unread_areas(plane.values, plane.chances, harmless, [*blanked, *codes, *texts])
        texts += large_unread_areas(plane.values, plane.chances, harmless, [*blanked, *codes, *texts])
    return Unread(tuple(codes), tuple(texts))
