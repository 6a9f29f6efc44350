"""One pass over a file of a slide that computes its SHA-256, its tile sums and identifier hits.

SHA-256 releases the interpreter's lock, so the file is hashed in parallel to the search.
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
"""Bytes hashed in parallel to their search; large enough that the threads rarely wait for each other."""
_SUM: Final = Struct(">QI")
SCAN: Final = b"\xff\xda"
NO_HEAD: Final = b""


@cache
def _crc32() -> Callable[[bytes, int], int]:
    """Return a function for CRC-32 with a start value; a faster one if the extra ``wsi`` is installed."""
    try:
        from imagecodecs import deflate_crc32
    except ModuleNotFoundError:
        return zlib.crc32  # same values: whole-slide images in DICOM do not need the extra
    return deflate_crc32


class TileSums:
    """Length and CRC-32 of tiles, computed in file order and returned in image order.

    Of a JPEG tile, only the data after tables and frame counts, so that comments and the location of tables
    have no influence. Thousands of sums distinguish scans as well as one long digest, in a third of the time;
    there is no motive to construct two scans with equal sums.

    Parameters
    ----------
    data : bytes or mmap
        The file.
    tiles : sequence of Range
        Tiles of the largest level in image order; they do not overlap.
    """

    def __init__(self, data: bytes | mmap.mmap, tiles: Sequence[Range]) -> None:
        self._data, self._tiles = data, tiles
        # The file is read from beginning to end, regardless of the order of tiles in the image.
        self._order = iter(sorted(range(len(tiles)), key=tiles.__getitem__))
        self._sums = bytearray(_SUM.size * len(tiles))
        self._last: tuple[Range, int, int] = ((-1, -1), 0, 0)
        self._head = NO_HEAD
        self._current, self._begin, self._at, self._stop, self._sum = -1, 0, 0, 0, 0
        self._crc32 = _crc32()
        self._next()

    def take(self, portion: bytes, offset: int) -> None:
        """Process a portion of the file that starts at ``offset``.

        Portions are passed in ascending order and may overlap.

        Raises
        ------
        ValueError
            A tile starts inside the one before.
        """
        end = offset + len(portion)
        while self._current >= 0 and (self._at < end or self._stop <= end):
            if self._at < offset:
                raise ValueError("tiles overlap")
            upto = min(end, self._stop)
            self._sum = self._crc32(portion[self._at - offset : upto - offset], self._sum)
            self._at = upto
            if upto < self._stop:
                return
            self._last = self._tiles[self._current], self._stop - self._begin, self._sum
            self._put()
            self._next(portion, offset)

    def joined(self) -> bytes:
        """Return the sums of all tiles in image order, after the end of the file."""
        return bytes(self._sums)

    def _put(self) -> None:
        _SUM.pack_into(self._sums, _SUM.size * self._current, *self._last[1:])

    def _next(self, portion: bytes = b"", offset: int = 0) -> None:
        """Proceed to the next tile; one at the position of the last is a copy of it."""
        for number in self._order:
            self._current = number
            start, self._stop = self._tiles[number]
            if (start, self._stop) == self._last[0]:
                self._put()
                continue
            same = self._head and portion.startswith(self._head, start - offset, self._stop - offset)
            if not same:  # or it extends beyond the portion
                self._head = head_of(self._data, start, self._stop, self._head)
            self._begin = self._at = start + max(len(self._head) - len(SCAN), 0)
            self._sum = 0
            return
        self._current, self._begin, self._at, self._stop = -1, 0, 0, 0


def sums_of(data: bytes | mmap.mmap, tiles: Sequence[Range]) -> bytes:
    """Return the sums of tiles (`TileSums`) of a file that is not searched."""
    sums = TileSums(data, tiles)
    for start in range(0, len(data), CHUNK):
        sums.take(data[start : start + CHUNK], start)
        if isinstance(data, mmap.mmap):
            data.madvise(mmap.MADV_DONTNEED)  # keeps memory flat: mapped pages are not needed again
    return sums.joined()


def head_of(data: bytes | mmap.mmap, start: int, end: int, last: bytes) -> bytes:
    """Return a JPEG up to and including the marker of its first scan, or `NO_HEAD`.

    Parameters
    ----------
    data : bytes or mmap
        The file.
    start, end : int
        Range of the tile.
    last : bytes
        Result for the previous tile; most tiles begin equally.
    """
    # Most tiles begin like the previous one; a comparison is faster than a search.
    if last and data[start : min(start + len(last), end)] == last:
        return last
    scan = data.find(SCAN, start, end) if data[start : start + len(JPEG)] == JPEG else -1
    return data[start : scan + len(SCAN)] if scan > 0 else NO_HEAD


class SinglePassReader:
    """Reads a file once, from beginning to end.

    Attributes
    ----------
    sha256 : str
        SHA-256 (hex) of the file, after `hits` is exhausted.
    """

    def __init__(self, data: mmap.mmap, tiles: Sequence[Range]) -> None:
        self._data = data
        self._tiles = TileSums(data, tiles)
        self.sha256 = ""

    def hits(self, search: IdentifierSearch) -> Iterator[IdentifierHit]:
        """Yield hits of long values (`IdentifierSearch.long_hits`), while a thread hashes the same bytes."""
        data, whole = self._data, sha256()
        with ThreadPoolExecutor(1) as pool:
            digested: Future[None] | None = None
            for start in range(0, len(data), CHUNK):
                # Searched with the end of the last chunk, hashed without it.
                before = min(start, OVERLAP)
                chunk = data[start - before : start + CHUNK]
                if digested is not None:
                    digested.result()
                digested = pool.submit(whole.update, memoryview(chunk)[before:])
                yield from search.long_hits(chunk, start - before)
                self._tiles.take(chunk, start - before)
                data.madvise(mmap.MADV_DONTNEED)  # keeps memory flat: mapped pages are not needed again
        self.sha256 = whole.hexdigest()

    @property
    def tiles(self) -> bytes:
        """The sums of the tiles (`TileSums`), after `hits` is exhausted."""
        return self._tiles.joined()
