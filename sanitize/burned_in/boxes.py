"""Boxes of text in a frame."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.sanitize.formats.dicom.image_pixel import Area


@dataclass(frozen=True, slots=True, repr=False)
class TextBox:
    """A line of text in a frame. Contains PHI.

    Attributes
    ----------
    left, top, right, bottom : int
        Half-open bounds in pixels of the frame.
    text : str
        Recognized text; empty if none was legible.
    score : float
        Certainty of the recognition, 0 to 1.
    """

    left: int
    top: int
    right: int
    bottom: int
    text: str
    score: float

    def __repr__(self) -> str:
        return f"TextBox({self.left}, {self.top}, {self.right}, {self.bottom})"

    @property
    def bounds(self) -> Area:
        """Half-open bounds in pixels of the frame."""
        return self.left, self.top, self.right, self.bottom

    @property
    def height(self) -> int:
        """Extent across the reading direction in pixels, for horizontal and vertical lines."""
        return min(self.right - self.left, self.bottom - self.top)


def area_to_blank(box: TextBox, shape: tuple[int, int]) -> TextBox:
    """Return the area to blank so that nothing of a line remains: descenders, halos, first and last letters.

    Parameters
    ----------
    box : TextBox
    shape : tuple of int
        Rows and columns of the frame.

    Returns
    -------
    TextBox
        The box, extended by half its height at the ends and a quarter across, within the frame.
    """
    across, along = max(2, box.height // 4), max(3, box.height // 2)
    flat = box.right - box.left >= box.bottom - box.top
    x, y = (along, across) if flat else (across, along)
    left, top = max(0, box.left - x), max(0, box.top - y)
    right, bottom = min(shape[1], box.right + x), min(shape[0], box.bottom + y)
    return TextBox(left, top, right, bottom, box.text, box.score)
