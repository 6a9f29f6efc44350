"""Where text stands in a frame: boxes, and how far beyond them must be blanked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class TextBox:
    """A line of text found in a frame.

    ``left``, ``top``, ``right``, ``bottom`` are half-open pixel bounds within the frame; ``text`` is
    what was read there, empty when nothing could be; ``score`` is how sure the reading is, 0 to 1.
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
    def height(self) -> int:
        """Extent of the line across its reading direction, in pixels, whichever way it runs."""
        return min(self.right - self.left, self.bottom - self.top)


def area_to_blank(box: TextBox, shape: tuple[int, int]) -> TextBox:
    """The area to blank so that nothing of the line stays: descenders, halos, cut first and last letters.

    Parameters
    ----------
    box : TextBox
    shape : tuple of int
        Rows and columns of the frame.

    Returns
    -------
    TextBox
        The box with half a line's height more at its ends and a quarter across, within the frame.
    """
    across, along = max(2, box.height // 4), max(3, box.height // 2)
    flat = box.right - box.left >= box.bottom - box.top
    x, y = (along, across) if flat else (across, along)
    left, top = max(0, box.left - x), max(0, box.top - y)
    right, bottom = min(shape[1], box.right + x), min(shape[0], box.bottom + y)
    return TextBox(left, top, right, bottom, box.text, box.score)
