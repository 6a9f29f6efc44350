"""One pass over a file of a slide: while its bytes are at hand they are digested and searched.

SHA-256 does not hold the interpreter's lock: the file is digested beside the search.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, Final

from medsanitize.verifiers.leaks.identifier_search import OVERLAP
from medsanitize.verifiers.leaks.slide_layout import JPEG, Range

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierHit, IdentifierSearch

CHUNK: Final = 4 << 20
"""Bytes that are digested beside their search: so many that neither waits for the other often."""
_SUM: Final = Struct(">QI")
SCAN: Final = b"\xff\xda"
NO_HEAD: Final = b""


@cache
def _crc32() -> Callable[[bytes, int], int]:
    """CRC-32 of bytes, continued from a value: the faster function where the extra ``wsi`` is installed."""
    try:
        from imagecodecs import deflate_crc32
    except ModuleNotFoundError:
        return zlib.crc32  # the same sums: whole-slide images in DICOM are read without the extra too
    return deflate_crc32


class TileSums:
    """Length and CRC-32 of tiles, taken in the order of the file and given in the order of the picture.

    Of a JPEG tile what follows the tables and the frame counts, so that comments, and tables here or there,
    change nothing. Thousands of sums tell scans apart as well as one long digest, in a third of its time;
    nobody gains anything by two scans that agree.

    Parameters
    ----------
    data : bytes or mmap
    tiles : sequence of Range
        Tiles of the largest level in the order of the picture. None reaches into another.
    """

    def __init__(self, data: bytes | mmap.mmap, tiles: Sequence[Range]) -> None:
        self._data, self._tiles = data, tiles
        self._order = iter(sorted(range(len(tiles)), key=tiles.__getitem__))
        self._sums = bytearray(_SUM.size * len(tiles))
        self._last: tuple[Range, int, int] = ((-1, -1), 0, 0)
        self._head = NO_HEAD
        self._current, self._begin, self._at, self._stop, self._sum = -1, 0, 0, 0, 0
        self._crc32 = _crc32()
        self._next()

    def take(self, portion: bytes, offset: int) -> None:
        """Take in a portion of the file that begins at ``offset``; portions go forward, and may overlap.

        Raises
        ------
        ValueError
            A tile begins within the one before.
        """
        end = offset + len(portion)
        while self._current >= 0 and (self._at < end or self._stop <= end):
            if self._at < offset:
                raise ValueError("tiles reach into one another")
            upto = min(end, self._stop)
            self._sum = self._crc32(portion[self._at - offset : upto - offset], self._sum)
            self._at = upto
            if upto < self._stop:
                return
            self._last = self._tiles[self._current], self._stop - self._begin, self._sum
            self._put()
            self._next(portion, offset)

    def joined(self) -> bytes:
        """The sums of all tiles in the order of the picture, once the end was reached."""
        return bytes(self._sums)

    def _put(self) -> None:
        _SUM.pack_into(self._sums, _SUM.size * self._current, *self._last[1:])

    def _next(self, portion: bytes = b"", offset: int = 0) -> None:
        """Go to the next tile; one that lies where the last did is the same."""
        for number in self._order:
            self._current = number
            start, self._stop = self._tiles[number]
            if (start, self._stop) == self._last[0]:
                self._put()
                continue
            same = self._head and portion.startswith(self._head, start - offset, self._stop - offset)
            if not same:  # or it lies beyond the portion
                self._head = head_of(self._data, start, self._stop, self._head)
            self._begin = self._at = start + max(len(self._head) - len(SCAN), 0)
            self._sum = 0
            return
        self._current, self._begin, self._at, self._stop = -1, 0, 0, 0


def sums_of(data: bytes | mmap.mmap, tiles: Sequence[Range]) -> bytes:
    """The sums of tiles (`TileSums`) of a file of which nothing else is asked."""
    sums = TileSums(data, tiles)
    for start in range(0, len(data), CHUNK):
        sums.take(data[start : start + CHUNK], start)
        if isinstance(data, mmap.mmap):
            data.madvise(mmap.MADV_DONTNEED)  # pages that were read need not stay in memory
    return sums.joined()


def head_of(data: bytes | mmap.mmap, start: int, end: int, last: bytes) -> bytes:
    """A JPEG up to its first scan's marker, or `NO_HEAD`; most begin as the ``last`` one did."""
    if last and data[start : min(start + len(last), end)] == last:
        return last
    scan = data.find(SCAN, start, end) if data[start : start + len(JPEG)] == JPEG else -1
    return data[start : scan + len(SCAN)] if scan > 0 else NO_HEAD


class SinglePassReader:
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

    def hits(self, net: IdentifierSearch) -> Iterator[IdentifierHit]:
        """What the net finds of long values (`IdentifierSearch.long_hits`), while a thread digests the
        same bytes.
        """
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
                self._tiles.take(chunk, start - before)
                data.madvise(mmap.MADV_DONTNEED)  # pages that were read need not stay in memory
        self.sha256 = whole.hexdigest()

    @property
    def tiles(self) -> bytes:
        """The sums of the tiles (`TileSums`), once `hits` ended."""
        return self._tiles.joined()
