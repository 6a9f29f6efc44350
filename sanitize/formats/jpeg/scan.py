"""Where markers stand within entropy-coded image data (T.81 B.1.1.5), many tiles looked at together."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np
from medsanitize.sanitize.formats.file_type import Buffer

_BLOCK: Final = 1 << 18
"""Bytes looked at together: few enough that all that is made of them stays near the processor."""
_NEAR: Final = 1 << 16
"""Bytes between two tiles, at most, that lie together."""
_MARK: Final = np.array([0 < one < 0xD0 or 0xD8 <= one < 0xFF for one in range(256)])
"""Second bytes of markers; not of stuffed bytes, of restart markers, and of fill."""


class MarkerIndex:
    """Markers of one file. What follows on what was asked last is looked at a block at a time."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self._begin = self._end = 0
        self._places: list[int] = []

    def first(self, start: int, stop: int) -> int | None:
        """Where the first marker of ``data[start:stop]`` begins; restart markers are none."""
        at = start
        while at + 1 < stop:
            if not self._begin <= at < self._end:
                self._look(at, stop)
            found = bisect_left(self._places, at)
            if found < len(self._places):
                place = self._places[found]
                return place if place + 1 < stop else None
            at = self._end
        return None

    def _look(self, at: int, stop: int) -> None:
        """Look at what lies from ``at`` on: to ``stop``, or at a block if others are likely to ask for it."""
        size = _BLOCK if 0 <= at - self._end <= _NEAR else min(stop - 1 - at, _BLOCK)
        cells = np.frombuffer(self._data[at : at + size + 1], np.uint8)
        begun = np.flatnonzero(cells[:-1] == 0xFF)
        self._places = (begun[_MARK[cells[begun + 1]]] + at).tolist()
        self._begin, self._end = at, at + size
