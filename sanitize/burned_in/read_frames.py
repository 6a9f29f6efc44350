"""Text of every frame in each of its renderings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.find_text import read_frames
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.rendering import Picture
from medsanitize.sanitize.burned_in.text_map import Chances

Lanes = tuple[tuple[TextBox, ...], ...]
"""The text of one frame, once per rendering; lines are compared with neighbors of the same rendering only."""


class FrameTextReader:
    """Reads consecutive frames; areas that did not change since the previous frame are not read again."""

    def __init__(self, reader: TextReader) -> None:
        self._reader = reader
        self._queues: list[deque[tuple[Picture, Chances]]] = []
        self._lanes: list[Iterator[tuple[TextBox, ...]]] = []

    def read(self, pictures: Iterable[Picture], chances: Chances) -> Lanes:
        """Return the text in the renderings of the next frame, of which ``chances`` is the text map."""
        found = []
        for number, picture in enumerate(pictures):
            # The n-th renderings of all frames form a sequence of their own, in which changes are found.
            if number == len(self._lanes):
                queue: deque[tuple[Picture, Chances]] = deque()
                self._queues.append(queue)
                self._lanes.append(read_frames(self._reader, _served(queue)))
            self._queues[number].append((picture, chances))
            found.append(next(self._lanes[number]))
        return tuple(found)


def _served(queue: deque[tuple[Picture, Chances]]) -> Iterator[tuple[Picture, Chances]]:
    while True:
        yield queue.popleft()
