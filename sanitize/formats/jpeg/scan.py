"""Search for markers in entropy-coded image data (T.81 B.1.1.5), for many tiles at a time."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np
from medsanitize.sanitize.formats.file_type import Buffer

# Bytes searched together: few enough that the intermediate arrays fit into the processor cache.
_BLOCK: Final = 1 << 18
# Two tiles at most this many bytes apart are searched in one block.
_MAX_GAP: Final = 1 << 16
# Second bytes of markers, without those of byte stuffing (00), restart markers (D0 to D7) and fill (FF).
_IS_MARKER: Final = np.array([0 < one < 0xD0 or 0xD8 <= one < 0xFF for one in range(256)])


class MarkerIndex:
    """Markers of one file; fast if tiles are queried in file order."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self._begin = self._end = 0
        self._places: list[int] = []

    def first(self, start: int, stop: int) -> int | None:
        """Return the offset of the first marker in ``data[start:stop]``, None if there is none.

        Restart markers are not counted.
        """
        at = start
        while at + 1 < stop:
            if not self._begin <= at < self._end:
                self._find_markers(at, stop)
            found = bisect_left(self._places, at)
            if found < len(self._places):
                place = self._places[found]
                return place if place + 1 < stop else None
            at = self._end
        return None

    def _find_markers(self, at: int, stop: int) -> None:
        """Search from ``at`` to ``stop``, or a whole block if neighboring tiles are likely to follow."""
        size = _BLOCK if 0 <= at - self._end <= _MAX_GAP else min(stop - 1 - at, _BLOCK)
        cells = np.frombuffer(self._data[at : at + size + 1], np.uint8)
        begun = np.flatnonzero(cells[:-1] == 0xFF)
        self._places = (begun[_IS_MARKER[cells[begun + 1]]] + at).tolist()
        self._begin, self._end = at, at + size
