"""Cleaning of encoded tiles: image data is copied unchanged, bytes that no decoder needs are removed."""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass, field

from medsanitize.sanitize.formats import jpeg2000
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.jpeg.scan import MarkerIndex
from medsanitize.sanitize.formats.jpeg.tables import HUFFMAN, QUANTISATION, parse_tables
from medsanitize.sanitize.formats.tiff_directory import starts_as_jpeg
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined

NONE, LZW, JPEG, DEFLATE, DEFLATE_OLD, J2K_YCC, J2K_RGB, J2K = 1, 5, 7, 8, 32946, 33003, 33005, 34712
"""Compression (tag 259); 33003 and 33005 are Aperio's JPEG 2000."""
_SOI, _EOI, _SOS, _DRI, _COM, _ADOBE = b"\xff\xd8", b"\xff\xd9", 0xDA, 0xDD, 0xFE, 0xEE
# Baseline, extended and progressive DCT with Huffman coding; others are refused.
_FRAMES = frozenset([0xC0, 0xC1, 0xC2])
# At most this much of a tile is parsed: a segment has at most 65,535 bytes, whole headers far fewer.
_HEADER = 1 << 17
_MAX_CACHED_HEADERS = 4096
_MAX_OVERRUN = 4096
_RELEASE_PAGES_AFTER = 64 << 20


@dataclass(frozen=True, slots=True)
class _Header:
    """Parsed JPEG header: its end and the runs to remove, relative to the start of the stream."""

    end: int
    cuts: tuple[tuple[int, int], ...]
    progressive: bool


@dataclass(slots=True)
class TileCleaner:
    """Cleaner for the tiles of one file; a JPEG header that recurs is parsed once.

    Attributes
    ----------
    data : Buffer
        Content of the file.
    file : int
        Index of the file in the slide, for the copies that refer to it.
    untouched : bool
        Keep tiles as they are, without reading them.
    metadata : bool
        Keep COM and APPn segments of JPEG tiles.
    profiles : bool
        Keep the numeric part of a page's ICC profile.
    rules : dict of str to int
        Counts of the rules that applied: ``C:tile-metadata``, ``C:tile-slack`` and, for tiles that keep
        their metadata, ``K:tile-metadata``.
    """

    data: Buffer
    file: int = 0
    untouched: bool = False
    metadata: bool = False
    profiles: bool = False
    rules: dict[str, int] = field(default_factory=dict)
    _headers: dict[bytes, _Header] = field(default_factory=dict)
    _last: bytes = b""
    _bytes_read: int = 0
    _markers: MarkerIndex = field(init=False)

    def __post_init__(self) -> None:
        self._markers = MarkerIndex(self.data)

    def clean(self, offset: int, length: int, compression: int, size: int | None = None) -> tuple[Piece, ...]:
        """Clean one encoded tile or strip.

        Parameters
        ----------
        offset, length : int
            Position in the file, in bytes.
        compression : int
            Value of Compression (tag 259).
        size : int, optional
            Size of the decoded tile in bytes; required for uncompressed, Deflate and LZW data.

        Returns
        -------
        tuple of Piece
            Copies of runs of the file, or new bytes; empty for a missing tile.

        Raises
        ------
        Quarantined
            ``slide-tile-structure`` if bytes that no decoder reads cannot be ruled out;
            ``slide-compression`` if the compression is not supported;
            ``tiff-structure`` if the tile exceeds the file.
        """
        # Sparse pyramids store no bytes for background tiles.
        if length == 0:
            return ()
        if offset + length > len(self.data):
            raise Quarantined("tiff-structure", "structure")
        if self.untouched:
            return (Copy(offset, length, self.file),)
        self._bytes_read += length
        if self._bytes_read > _RELEASE_PAGES_AFTER and isinstance(self.data, mmap.mmap):
            # Otherwise the resident memory of a worker grows to the size of the slide.
            self.data.madvise(mmap.MADV_DONTNEED)
            self._bytes_read = 0
        if compression == JPEG:
            return self._jpeg(offset, length)
        if compression in (J2K_YCC, J2K_RGB, J2K):
            return self._jpeg2000(offset, length)
        if compression == NONE:
            # Some readers decode JPEG under any declared compression; its segments would stay unchecked.
            if size is None or length < size or starts_as_jpeg(bytes(self.data[offset : offset + 4])):
                raise _refused()
            return self._up_to(offset, size, length)
        if compression in (DEFLATE, DEFLATE_OLD):
            return self._up_to(offset, self._deflated(offset, length, size), length)
        if compression == LZW:
            check_lzw(bytes(self.data[offset : offset + length]), size)
            return (Copy(offset, length, self.file),)
        raise Quarantined("slide-compression", "structure")

    def _up_to(self, offset: int, used: int, length: int) -> tuple[Piece, ...]:
        if used < length:
            self.count("C:tile-slack")
        return (Copy(offset, used, self.file),)

    def count(self, rule: str) -> None:
        """Count that a rule applied."""
        self.rules[rule] = self.rules.get(rule, 0) + 1

    def _jpeg(self, offset: int, length: int) -> tuple[Piece, ...]:
        header = self._jpeg_header(offset, length)
        end = self._entropy_end(offset + header.end, offset + length, header.progressive)
        if header.cuts:
            self.count("K:tile-metadata" if self.metadata else "C:tile-metadata")
        if end < offset + length:
            self.count("C:tile-slack")
        if self.metadata or not header.cuts:
            return (Copy(offset, end - offset, self.file),)
        pieces: list[Piece] = []
        kept = offset
        for start, stop in header.cuts:
            if offset + start > kept:
                pieces.append(Copy(kept, offset + start - kept, self.file))
            kept = offset + stop
        pieces.append(Copy(kept, end - kept, self.file))
        return tuple(pieces)

    def _jpeg_header(self, offset: int, length: int) -> _Header:
        last = self._last
        # Neighboring tiles nearly always have identical headers; one comparison replaces the parsing.
        if last and length >= len(last) and self.data[offset : offset + len(last)] == last:
            return self._headers[last]
        near = self.data.find(b"\xff\xda", offset, offset + min(length, _HEADER))
        scan = int.from_bytes(self.data[near + 2 : near + 4], "big")
        key = bytes(self.data[offset : near + 2 + scan]) if near >= 0 else b""
        found = self._headers.get(key)
        if found is None:
            found = parse_jpeg_header(bytes(self.data[offset : offset + min(length, _HEADER)]))
            # The first FF DA may be data inside a segment: then the key is not the header, and is not cached.
            if len(self._headers) < _MAX_CACHED_HEADERS and found.end == len(key):
                self._headers[key] = found
        if key in self._headers:
            self._last = key
        return found

    def _entropy_end(self, start: int, stop: int, progressive: bool) -> int:
        """Return the end of End Of Image; only entropy-coded data may precede it."""
        end = self._markers.first(start, stop)
        # Further scans of a progressive JPEG come with segments that were not checked.
        if end is None or progressive or self.data[end : end + 2] != _EOI:
            raise _refused()
        return end + 2

    def _jpeg2000(self, offset: int, length: int) -> tuple[Piece, ...]:
        frame = bytes(self.data[offset : offset + length])
        clean = jpeg2000.strip_jpeg2000_metadata(frame)
        if clean is frame:
            return (Copy(offset, length, self.file),)
        self.count("C:tile-metadata")
        return (clean,)

    def _deflated(self, offset: int, length: int, size: int | None) -> int:
        inflater = zlib.decompressobj()
        try:
            # One byte more than expected reveals surplus pixels; the limit stops decompression bombs.
            pixels = inflater.decompress(bytes(self.data[offset : offset + length]), (size or 0) + 1)
        except zlib.error:
            raise _refused() from None
        if size is None or len(pixels) != size or not inflater.eof:
            raise _refused()
        return length - len(inflater.unused_data)


def parse_jpeg_header(head: bytes) -> _Header:
    """Check the segments of a JPEG up to the header of its first scan.

    Parameters
    ----------
    head : bytes
        Beginning of the stream, at least as long as its header.

    Raises
    ------
    Quarantined
        ``slide-tile-structure`` if a segment is malformed or of an unexpected kind; ``jpeg-structure``
        if a table is malformed.
    """
    if head[:2] != _SOI:
        raise _refused()
    cuts: list[tuple[int, int]] = []
    pos, frame = 2, 0
    while True:
        if head[pos : pos + 1] != b"\xff" or pos + 4 > len(head):
            raise _refused()
        marker, stop = head[pos + 1], pos + 2 + int.from_bytes(head[pos + 2 : pos + 4], "big")
        body = head[pos + 4 : stop]
        if stop > len(head) or stop < pos + 4:
            raise _refused()
        if marker == _COM or 0xE0 <= marker <= 0xEF:
            # Adobe's APP14 stays: it says whether the samples are RGB or YCbCr.
            if marker != _ADOBE or not _is_adobe(body):
                cuts.append((pos, stop))
        elif marker in (HUFFMAN, QUANTISATION):
            # Parsed only for its checks: a table longer than its content could hide bytes.
            parse_tables(marker, body)
        elif marker in _FRAMES:
            if frame or len(body) < 6 or len(body) != 6 + 3 * body[5]:
                raise _refused()
            frame = marker
        elif marker == _SOS:
            if not frame or not body or len(body) != 4 + 2 * body[0]:
                raise _refused()
            return _Header(stop, tuple(cuts), frame == 0xC2)
        elif marker != _DRI or len(body) != 2:
            raise _refused()
        pos = stop


def clean_tables(tables: bytes) -> bytes:
    """Remove COM and APPn segments from JPEGTables (tag 347), a JPEG stream of only tables.

    Raises
    ------
    Quarantined
        ``slide-tile-structure`` if a segment is malformed or of an unexpected kind; ``jpeg-structure``
        if a table is malformed.
    """
    if tables[:2] != _SOI:
        raise _refused()
    out, pos = [_SOI], 2
    while tables[pos : pos + 2] != _EOI:
        if tables[pos : pos + 1] != b"\xff" or pos + 4 > len(tables):
            raise _refused()
        marker, stop = tables[pos + 1], pos + 2 + int.from_bytes(tables[pos + 2 : pos + 4], "big")
        body = tables[pos + 4 : stop]
        if stop > len(tables) or stop < pos + 4:
            raise _refused()
        if marker in (HUFFMAN, QUANTISATION):
            parse_tables(marker, body)
            out.append(tables[pos:stop])
        elif (marker == _ADOBE and _is_adobe(body)) or (marker == _DRI and len(body) == 2):
            out.append(tables[pos:stop])
        elif not (marker == _COM or 0xE0 <= marker <= 0xEF):
            raise _refused()
        pos = stop
    return b"".join([*out, _EOI])


def check_lzw(strip: bytes, size: int | None) -> None:
    """Check that an LZW strip (TIFF 6.0 section 13) has no bytes after its last code.

    Parameters
    ----------
    strip : bytes
        The encoded strip.
    size : int or None
        Size of the decoded strip in bytes; without it the strip is refused.

    Raises
    ------
    Quarantined
        ``slide-tile-structure`` if the strip does not decode or has surplus bytes.
    """
    import imagecodecs

    try:
        whole = len(imagecodecs.lzw_decode(strip))
    except (imagecodecs.LzwError, RuntimeError, ValueError):
        raise _refused() from None
    # Decoders ignore what follows the last code: if four bytes fewer decode to as much, bytes were hidden.
    try:
        shorter = len(imagecodecs.lzw_decode(strip[:-4]))
    except (imagecodecs.LzwError, RuntimeError, ValueError):
        shorter = 0
    # Some writers let the last code run past the end of the strip, hence the tolerance.
    if size is None or not size <= whole <= size + _MAX_OVERRUN or shorter == whole:
        raise _refused()


def _is_adobe(body: bytes) -> bool:
    return len(body) == 12 and body[:5] == b"Adobe" and body[11] <= 2


def _refused() -> Quarantined:
    return Quarantined("slide-tile-structure", "tiles")
