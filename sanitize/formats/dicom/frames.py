"""Released pixel data of one object, read frame by frame, with replacement of single frames.

At most one frame is in memory. Of native frames only the changed bytes are stored, between spans of the
source; a changed encapsulated frame is stored as its new code stream.
"""

from __future__ import annotations

import bisect
from itertools import accumulate

import numpy as np
from medsanitize.policies.model import Limits
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.pixel_data import WrittenPixels, encapsulate, strip_frame
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout, TransferSyntax
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.pieces import Copy, Piece
from medsanitize.sanitize.quarantine import Quarantined

# Differences with fewer equal bytes between them form one piece.
_GAP = 4096


class StoredFrames:
    """Frames in the form in which they would be released.

    Parameters
    ----------
    buf : bytes or mmap
        The source, to which spans refer.
    pixels : WrittenPixels
        Result of ``write_pixels``.
    layout, syntax, geometry
        Of the object; ``geometry.floating`` is set for float pixel data.
    """

    def __init__(
        self, buf: Buffer, pixels: WrittenPixels, layout: Layout, syntax: TransferSyntax, geometry: Geometry
    ) -> None:
        self._buf = buf
        self._pixels = pixels
        self._layout = layout
        self._syntax = syntax
        self._geometry = geometry
        self._new: dict[int, bytes] = {}
        self._patches: list[tuple[int, bytes]] = []
        sizes = [_size(piece) for piece in pixels.pieces[1:]] if not pixels.frames else []
        self._starts = [0, *accumulate(sizes)]
        # 8-bit samples in big-endian OW are stored in words, so their bytes are swapped (PS3.5 8.1.1).
        words = layout.big and geometry.bits_allocated <= 8 and self._bytes(pixels.pieces[0])[4:6] == b"OW"
        self._swapped = words and not pixels.frames

    def frame(self, index: int) -> bytes:
        """Return one frame: a code stream, or samples in the byte order of the syntax."""
        if self._pixels.frames:
            if len(self._pixels.frames) != self._geometry.frames:
                raise Quarantined("pixels-undecodable", "pixels")
            return b"".join(self._bytes(piece) for piece in self._pixels.frames[index])
        bits = self._geometry.frame_bits
        # One-bit frames need not start at a byte (PS3.5 8.1.1); the frame is shifted to one.
        if bits % 8:
            start, stop = index * bits, (index + 1) * bits
            cells = np.unpackbits(
                np.frombuffer(self._window(start // 8, -(-stop // 8)), np.uint8), bitorder="little"
            )
            return np.packbits(cells[start % 8 : start % 8 + bits], bitorder="little").tobytes()
        return self._window(index * bits // 8, (index + 1) * bits // 8)

    def put(self, index: int, new: bytes) -> None:
        """Replace one frame. Native frames must be replaced in ascending order, each at most once."""
        if self._pixels.frames:
            # Encoders add comments and application segments of their own.
            self._new[index] = strip_frame(new, self._syntax, self._geometry)
            return
        bits = self._geometry.frame_bits
        start, stop = index * bits // 8, -(-(index + 1) * bits // 8)
        old = self._window(start, stop)
        if bits % 8:
            shift = index * bits % 8
            cells = np.unpackbits(np.frombuffer(old, np.uint8), bitorder="little")
            fresh = np.unpackbits(np.frombuffer(new, np.uint8), bitorder="little")
            # Bits of the neighboring frames in the first and last byte stay.
            cells[shift : shift + bits] = fresh[:bits]
            new = np.packbits(cells, bitorder="little").tobytes()
        if self._swapped:
            self._patch_words(start, new)
        else:
            self._patch(start, old, new)

    def released(self, index: int) -> bytes:
        """Return one frame as it will be released, replaced or not."""
        return self._new[index] if index in self._new else self.frame(index)

    def finish(self) -> WrittenPixels:
        """Return the pixel data with all replacements."""
        old = self._pixels
        if old.frames:
            frames: list[list[Piece]] = [
                [self._new[i]] if i in self._new else one for i, one in enumerate(old.frames)
            ]
            pieces = encapsulate(frames, self._layout, table=old.table)
            return WrittenPixels(pieces, old.rules, old.end, old.tag, frames, old.table)
        pieces = [old.pieces[0]]
        at = 0
        for start, new in self._patches:
            pieces += self._between(at, start)
            pieces.append(new)
            at = start + len(new)
        pieces += self._between(at, self._starts[-1])
        return WrittenPixels(pieces, old.rules, old.end, old.tag)

    # -- native bytes ---------------------------------------------------------------------

    def _window(self, start: int, stop: int) -> bytes:
        """Return bytes ``start`` to ``stop`` of the value, with replacements, in sample order."""
        if stop > self._starts[-1]:
            raise Quarantined("pixels-undecodable", "pixels")
        if not self._swapped:
            return self._raw(start, stop)
        first, last = start & ~1, stop + (stop & 1)
        words = np.frombuffer(self._raw(first, last), np.uint8).reshape(-1, 2)[:, ::-1].tobytes()
        return words[start - first : stop - first]

    def _raw(self, start: int, stop: int) -> bytes:
        data = bytearray(b"".join(self._bytes(piece) for piece in self._between(start, stop)))
        place = bisect.bisect_right(self._patches, start, key=lambda patch: patch[0])
        for begin, new in self._patches[max(place - 1, 0) :]:
            if begin >= stop:
                break
            low, high = max(begin, start), min(begin + len(new), stop)
            if low < high:
                data[low - start : high - start] = new[low - begin : high - begin]
        return bytes(data)

    def _between(self, start: int, stop: int) -> list[Piece]:
        """Return the source's pieces of the value from ``start`` to ``stop``."""
        found: list[Piece] = []
        place = bisect.bisect_right(self._starts, start) - 1
        while start < stop:
            piece, begin = self._pixels.pieces[1 + place], self._starts[place]
            end = min(stop, self._starts[place + 1])
            if isinstance(piece, Copy):
                found.append(Copy(piece.offset + start - begin, end - start))
            else:
                found.append(piece[start - begin : end - begin])
            start, place = end, place + 1
        return found

    def _patch_words(self, start: int, new: bytes) -> None:
        first, last = start & ~1, start + len(new) + (start + len(new) & 1)
        old = self._raw(first, last)
        words = bytearray(np.frombuffer(old, np.uint8).reshape(-1, 2)[:, ::-1].tobytes())
        words[start - first : start - first + len(new)] = new
        self._patch(first, old, np.frombuffer(bytes(words), np.uint8).reshape(-1, 2)[:, ::-1].tobytes())

    def _patch(self, start: int, old: bytes, new: bytes) -> None:
        """Store the runs of bytes in which ``new`` differs from ``old``."""
        differs = np.flatnonzero(np.frombuffer(old, np.uint8) != np.frombuffer(new, np.uint8))
        if not differs.size:
            return
        breaks = np.flatnonzero(np.diff(differs) > _GAP)
        firsts = [int(differs[0]), *(int(differs[i + 1]) for i in breaks)]
        lasts = [*(int(differs[i]) for i in breaks), int(differs[-1])]
        for first, last in zip(firsts, lasts, strict=True):
            self._remember(start + first, new[first : last + 1])

    def _remember(self, start: int, new: bytes) -> None:
        """Append a patch; one that overlaps the last one (one-bit frames share a byte) is joined to it."""
        if self._patches and self._patches[-1][0] + len(self._patches[-1][1]) > start:
            begin, before = self._patches.pop()
            new = before[: start - begin] + new
            start = begin
        self._patches.append((start, new))

    def _bytes(self, piece: Piece) -> bytes:
        if isinstance(piece, Copy):
            return bytes(self._buf[piece.offset : piece.offset + piece.length])
        return piece


def check_image_size(geometry: Geometry, limits: Limits) -> None:
    """Reject an image by its declared size, before anything is decoded.

    Raises
    ------
    Quarantined
        ``pixels-too-large`` if one decoded frame is larger than ``limits.inflated_bytes``, or all frames
        are larger than ``limits.object_bytes``.
    """
    cells = geometry.rows * geometry.columns * max(geometry.samples, 1)
    frame = cells * max(geometry.bits_allocated // 8, 1)
    if frame > limits.inflated_bytes or frame * geometry.frames > limits.object_bytes:
        raise Quarantined("pixels-too-large", "pixels")


def _size(piece: Piece) -> int:
    return piece.length if isinstance(piece, Copy) else len(piece)
