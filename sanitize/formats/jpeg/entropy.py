"""Entropy-coded data of JPEG, cut to the blocks of the image (ITU-T T.81, annexes F and G).

Every Huffman code is followed, but no sample is decoded. Decoders do not read data after the last block of
a scan or of a restart interval; such data could contain anything and is removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from medsanitize.sanitize.quarantine import Quarantined

if TYPE_CHECKING:
    from medsanitize.sanitize.formats.jpeg.segment import Frame, Segment

_SOS, _DHT, _DRI, _PROGRESSIVE = 0xDA, 0xC4, 0xDD, 0xC2
_RESTART = re.compile(rb"\xff+([\xd0-\xd7])")
# Symbol of bits that are no code; larger than every step, so that the block loop can check it last.
_NO_CODE = 1 << 20
# Steps of an end-of-block code: past the last coefficient of any block.
_BLOCK_COEFFICIENTS = 64
# Every scan of a progressive file walks all blocks again, so crafted files could take very long.
_MOST_SCANS = 100

Codes = list[tuple[int, int]]
"""Indexed by the next 16 bits: number of bits to skip, and the symbol (or steps, see ``_steps``)."""


Follow = Callable[["_Bits", int, int], None]
"""Skips the units from one number up to another."""


@dataclass(frozen=True, slots=True)
class _Plane:
    """One component: columns and rows of blocks in a scan of its own, and blocks per unit in other scans."""

    across: int
    down: int
    blocks: int


@dataclass(frozen=True, slots=True)
class _Scan:
    """One scan: (component, DC table, AC table) of each component, spectral selection, whether it refines."""

    components: tuple[tuple[int, int, int], ...]
    start: int
    end: int
    refines: bool


class _Bits:
    """The bits of one restart interval, without byte stuffing."""

    def __init__(self, coded: bytes) -> None:
        plain = coded.replace(b"\xff\0", b"\xff")
        # Codes are read 24 bits at a time; the padding lets the last ones read past the end.
        self.data = plain + bytes(16)
        self.size = 8 * len(plain)
        self.pos = 0
        self.run = 0

    def symbol(self, codes: Codes) -> int:
        """Read one Huffman code and return its symbol."""
        at, data = self.pos >> 3, self.data
        if self.pos >= self.size:
            raise Quarantined("jpeg-truncated", "pixels")
        word = (data[at] << 16 | data[at + 1] << 8 | data[at + 2]) >> (8 - (self.pos & 7))
        length, symbol = codes[word & 0xFFFF]
        if symbol == _NO_CODE:
            raise Quarantined("jpeg-structure", "pixels")
        self.pos += length
        return symbol

    def number(self, count: int) -> int:
        """Read up to 14 bits as a number."""
        at = self.pos >> 3
        word = int.from_bytes(self.data[at : at + 3], "big") >> (24 - count - (self.pos & 7))
        self.pos += count
        return word & ((1 << count) - 1)

    def used(self) -> bytes | None:
        """Return the bytes that were read, with byte stuffing; None if all were read."""
        if self.pos > self.size:
            raise Quarantined("jpeg-truncated", "pixels")
        # Up to seven padding bits complete the last byte.
        if self.size - self.pos < 8:
            return None
        return self.data[: (self.pos + 7) >> 3].replace(b"\xff", b"\xff\0")


def cut_surplus(segments: Sequence[Segment], frame: Frame, tables: Sequence[Segment]) -> list[Segment]:
    """Remove from scans what no decoder reads.

    Parameters
    ----------
    segments : sequence of Segment
        Segments of the stream.
    frame : Frame
        Its frame header.
    tables : sequence of Segment
        Tables that a TIFF file stores separately.

    Returns
    -------
    list of Segment

    Raises
    ------
    Quarantined
        ``jpeg-structure`` or ``jpeg-truncated`` if the data contradicts the headers; ``jpeg-unsupported``
        for more than 100 scans.
    """
    planes = _planes(frame)
    known: dict[int, bytes] = {}
    seen: dict[int, list[int]] = {}
    interval = 0
    out: list[Segment] = []
    if sum(segment.marker == _SOS for segment in segments) > _MOST_SCANS:
        raise Quarantined("jpeg-unsupported", "pixels")
    for number, segment in enumerate([*tables, *segments]):
        if segment.marker == _DHT:
            known.update(_tables(segment.body))
        elif segment.marker == _DRI:
            interval = int.from_bytes(segment.body, "big")
        elif segment.marker == _SOS:
            walk = _Walk(_scan(segment.body, frame), planes, known, seen, frame.marker == _PROGRESSIVE)
            segment = replace(segment, data=walk.cut(segment.data, interval))
        if number >= len(tables):
            out.append(segment)
    return out


def _planes(frame: Frame) -> list[_Plane]:
    widest = max(across for _, across, _, _ in frame.components)
    highest = max(down for _, _, down, _ in frame.components)
    planes = []
    for _, across, down, _ in frame.components:
        columns = -(-frame.columns * across // widest)
        rows = -(-frame.rows * down // highest)
        planes.append(_Plane(-(-columns // 8), -(-rows // 8), across * down))
    units = -(-frame.columns // (8 * widest)) * -(-frame.rows // (8 * highest))
    return [*planes, _Plane(units, 1, 0)]


def _tables(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield every table of a DHT segment: class and number, and the table (T.81 B.2.4.2)."""
    pos = 0
    while pos < len(body):
        end = pos + 17 + sum(body[pos + 1 : pos + 17])
        yield body[pos], body[pos + 1 : end]
        pos = end


@lru_cache(maxsize=32)
def _codes(table: bytes) -> Codes:
    """Return the codes of a table, indexed by the next 16 bits (T.81 annex C)."""
    codes: Codes = [(0, _NO_CODE)] * 65536
    code, at = 0, 16
    for length in range(1, 17):
        width = 1 << (16 - length)
        for _ in range(table[length - 1]):
            if (code + 1) * width > 65536:
                raise Quarantined("jpeg-structure")
            codes[code * width : (code + 1) * width] = [(length, table[at])] * width
            code, at = code + 1, at + 1
        code <<= 1
    return codes


@lru_cache(maxsize=32)
def _steps(table: bytes) -> Codes:
    """Return AC codes as bits to skip, value bits included, and coefficients to skip."""
    return [_step(length, symbol) for length, symbol in _codes(table)]


def _step(length: int, symbol: int) -> tuple[int, int]:
    run, size = symbol >> 4, symbol & 15
    if symbol == _NO_CODE:
        return 0, _NO_CODE
    if size:
        return length + size, run + 1
    # Size 0 is either a run of 16 zeros or end of block (T.81 F.1.2.2.1).
    return length, 16 if run == 15 else _BLOCK_COEFFICIENTS


def _scan(body: bytes, frame: Frame) -> _Scan:
    names = [component[0] for component in frame.components]
    components = tuple(
        (names.index(body[1 + 2 * one]), body[2 + 2 * one] >> 4, body[2 + 2 * one] & 15)
        for one in range(body[0])
    )
    start, end, refines = body[-3], body[-2], body[-1] >> 4 > 0
    # Sequential scans contain all coefficients, whatever their header states (T.81 table B.3).
    if frame.marker != _PROGRESSIVE:
        start, end, refines = 0, 63, False
    elif start > end or end > 63 or (start == 0) != (end == 0) or (start and len(components) > 1):
        raise Quarantined("jpeg-structure")
    if len({one[0] for one in components}) != len(components):
        raise Quarantined("jpeg-structure")
    return _Scan(components, start, end, refines)


class _Walk:
    """A walk over the blocks of one scan; ``seen`` are the coefficients made nonzero by earlier scans."""

    def __init__(
        self,
        scan: _Scan,
        planes: Sequence[_Plane],
        known: dict[int, bytes],
        seen: dict[int, list[int]],
        progressive: bool,
    ) -> None:
        self.scan, self.progressive = scan, progressive
        only = planes[scan.components[0][0]]
        alone = len(scan.components) == 1
        # A scan of one component contains only the blocks that the image covers (T.81 A.2.2, A.2.3).
        self.units = only.across * only.down if alone else planes[-1].across
        self.nonzero = seen.setdefault(scan.components[0][0], [0] * self.units) if alone else []
        wants_dc, wants_ac = scan.start == 0 and not scan.refines, scan.end > 0
        self.tables: list[tuple[Codes, Codes]] = []
        for component, dc, ac in scan.components:
            if (wants_dc and dc not in known) or (wants_ac and 16 + ac not in known):
                raise Quarantined("jpeg-structure")
            walked = _codes if progressive else _steps
            pair = _codes(known[dc]) if wants_dc else [], walked(known[16 + ac]) if wants_ac else []
            self.tables += [pair] * (1 if alone else planes[component].blocks)

    def cut(self, data: bytes, interval: int) -> bytes:
        """Return the entropy-coded data with every restart interval cut to its units."""
        parts = _RESTART.split(data)
        length = interval or self.units
        count = -(-self.units // length)
        if len(parts) // 2 + 1 < count:
            raise Quarantined("jpeg-truncated", "pixels")
        # Restart markers count modulo 8 (T.81 B.2.1); another order means lost or inserted data.
        if any(name[0] != 0xD0 + number % 8 for number, name in enumerate(parts[1 : 2 * count - 1 : 2])):
            raise Quarantined("jpeg-structure", "pixels")
        follow = self._follow()
        changed = len(parts) // 2 + 1 > count
        kept = []
        for number in range(count):
            bits = _Bits(parts[2 * number])
            first = number * length
            follow(bits, first, min(first + length, self.units))
            used = bits.used()
            changed = changed or used is not None
            kept.append(parts[2 * number] if used is None else used)
        if not changed:
            return data
        return b"".join(
            part + (bytes([0xFF, 0xD0 + number % 8]) if number < count - 1 else b"")
            for number, part in enumerate(kept)
        )

    def _follow(self) -> Follow:
        if not self.progressive:
            return self._sequential
        if self.scan.start == 0:
            return self._refine_dc if self.scan.refines else self._first_dc
        return self._refine_ac if self.scan.refines else self._first_ac

    def _sequential(self, bits: _Bits, first: int, last: int) -> None:
        # The hot loop: the bit reader is inlined here, because calls would dominate the run time.
        data, pos, size = bits.data, bits.pos, bits.size
        for _ in range(first, last):
            for dc, ac in self.tables:
                if pos >= size:
                    raise Quarantined("jpeg-truncated", "pixels")
                at = pos >> 3
                word = (data[at] << 16 | data[at + 1] << 8 | data[at + 2]) >> (8 - (pos & 7))
                length, symbol = dc[word & 0xFFFF]
                pos += length + symbol
                place = 1 + (symbol & _NO_CODE)
                while place < _BLOCK_COEFFICIENTS and pos < size:
                    at = pos >> 3
                    word = (data[at] << 16 | data[at + 1] << 8 | data[at + 2]) >> (8 - (pos & 7))
                    length, step = ac[word & 0xFFFF]
                    pos += length
                    place += step
                if place < _BLOCK_COEFFICIENTS:
                    raise Quarantined("jpeg-truncated", "pixels")
                if place >= _NO_CODE:
                    raise Quarantined("jpeg-structure", "pixels")
        bits.pos = pos

    def _first_dc(self, bits: _Bits, first: int, last: int) -> None:
        for _ in range(first, last):
            for dc, _ in self.tables:
                size = bits.symbol(dc)
                bits.pos += size

    def _refine_dc(self, bits: _Bits, first: int, last: int) -> None:
        bits.pos += (last - first) * len(self.tables)

    def _first_ac(self, bits: _Bits, first: int, last: int) -> None:
        codes, end = self.tables[0][1], self.scan.end
        for block in range(first, last):
            if bits.run:
                bits.run -= 1
                continue
            place, found = self.scan.start, 0
            while place <= end:
                symbol = bits.symbol(codes)
                run, size = symbol >> 4, symbol & 15
                if size:
                    place += run
                    found |= 1 << place
                    bits.pos += size
                    place += 1
                elif run == 15:
                    place += 16
                else:
                    bits.run = (1 << run) - 1 + bits.number(run)
                    break
            self.nonzero[block] |= found

    def _refine_ac(self, bits: _Bits, first: int, last: int) -> None:
        for block in range(first, last):
            place = self.scan.start if bits.run else self._refined(bits, block)
            if bits.run:
                rest = self.nonzero[block] >> place & ((1 << (self.scan.end + 1 - place)) - 1)
                bits.pos += rest.bit_count()
                bits.run -= 1

    def _refined(self, bits: _Bits, block: int) -> int:
        """Walk one block; return where an end of band starts, which sets ``bits.run``."""
        codes, end, place = self.tables[0][1], self.scan.end, self.scan.start
        while place <= end:
            symbol = bits.symbol(codes)
            run, size = symbol >> 4, symbol & 15
            if not size and run < 15:
                bits.run = (1 << run) + bits.number(run)
                return place
            bits.pos += size > 0
            mask = self.nonzero[block]
            while place <= end:
                # A coefficient that is nonzero already has one correction bit (T.81 G.1.2.3).
                if mask >> place & 1:
                    bits.pos += 1
                elif run == 0:
                    break
                else:
                    run -= 1
                place += 1
            if size and place <= end:
                self.nonzero[block] |= 1 << place
            place += 1
        return place
