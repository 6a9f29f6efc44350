"""One pass over a file of a slide: while its bytes are at hand they are digested and searched.

SHA-256 does not hold the interpreter's lock: the file is digested beside the search.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.search import CHUNK, OVERLAP
from medsanitize.verifiers.slide_layout import JPEG, Range

if TYPE_CHECKING:
    from medsanitize.verifiers.search import Hit, Search

_DIGEST: Final = 32


class TileSums:
    """Digests of tiles, taken in the order of the file and given in the order of the picture.

    Of a JPEG tile what follows the tables and the frame counts, so that comments, and tables here or there,
    change nothing.

    Parameters
    ----------
    data : mmap
    tiles : sequence of Range
        Tiles of the largest level in the order of the picture. None reaches into another.
    """

    def __init__(self, data: mmap.mmap, tiles: Sequence[Range]) -> None:
        self._data, self._tiles = data, tiles
        self._order = iter(sorted(range(len(tiles)), key=tiles.__getitem__))
        self._sums = bytearray(_DIGEST * len(tiles))
        self._last: tuple[Range, bytes] = ((-1, -1), b"")
        self._sum = sha256()
        self._current, self._begin, self._at, self._stop = -1, 0, 0, 0
        self._next()

    def reach(self, end: int) -> None:
        """Take in what lies before ``end``; calls go forward through the file."""
        while self._at < min(end, self._stop) or (self._current >= 0 and self._stop <= end):
            upto = max(self._at, min(end, self._stop))
            with memoryview(self._data) as view, view[self._at : upto] as part:
                self._sum.update(part)
            self._at = upto
            if upto == self._stop:
                self._close()
                self._next()

    def joined(self) -> bytes:
        """The digests of all tiles in the order of the picture, once the end was reached."""
        return bytes(self._sums)

    def _close(self) -> None:
        whole = self._tiles[self._current]
        self._sum.update((self._stop - self._begin).to_bytes(8, "big"))
        self._last = whole, self._sum.digest()
        self._put(self._last[1])

    def _put(self, digest: bytes) -> None:
        self._sums[_DIGEST * self._current : _DIGEST * (self._current + 1)] = digest

    def _next(self) -> None:
        """Go to the next tile; one that lies where the last did is the same."""
        for number in self._order:
            self._current = number
            start, self._stop = self._tiles[number]
            if (start, self._stop) == self._last[0]:
                self._put(self._last[1])
                continue
            if self._data[start : start + 2] == JPEG:
                scan = self._data.find(b"\xff\xda", start, self._stop)
                start = scan if scan > 0 else start
            self._begin = self._at = start
            self._sum = sha256()
            return
        self._current, self._begin, self._at, self._stop = -1, 0, 0, 0


class Pass:
    """Reads a file once, from its begin to its end.

    Attributes
    ----------
    sha256 : str
        Of all bytes, once `hits` ended.
    """

    def __init__(self, data: mmap.mmap, tiles: Sequence[Range]) -> None:
        self._data = data
        self._tiles = TileSums(data, tiles)
        self.sha256 = ""

    def hits(self, net: Search) -> Iterator[Hit]:
        """What the net finds of long values (`Search.long_hits`), while a thread digests the same bytes."""
        data, whole = self._data, sha256()
        with ThreadPoolExecutor(1) as beside:
            digested: Future[None] | None = None
            for start in range(0, len(data), CHUNK):
                before = min(start, OVERLAP)
                chunk = data[start - before : start + CHUNK]
                if digested is not None:
                    digested.result()
                digested = beside.submit(whole.update, memoryview(chunk)[before:])
                yield from net.long_hits(chunk, start - before)
                self._tiles.reach(min(start + CHUNK, len(data)))
                data.madvise(mmap.MADV_DONTNEED)  # pages that were read need not stay in memory
        self.sha256 = whole.hexdigest()

    @property
    def tiles(self) -> bytes:
        """The digests of the tiles (`TileSums`), once `hits` ended."""
        return self._tiles.joined()
