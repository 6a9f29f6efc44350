"""Quantisation and Huffman tables of JPEG (ITU-T T.81 B.2.4): which of them a scan uses."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.sanitize.quarantine import Quarantined

QUANTISATION, HUFFMAN = 0xDB, 0xC4
_DC, _AC, _QUANTISER = 0, 1, 2
_PROGRESSIVE, _LOSSLESS, _LS = 0xC2, 0xC3, 0xF7
_HUFFMAN_CODED = frozenset([0xC0, 0xC1, _PROGRESSIVE, _LOSSLESS])
_WITH_QUANTISERS = frozenset([0xC0, 0xC1, _PROGRESSIVE, 0xC9, 0xCA])
_LARGEST_DC = 16


@dataclass(slots=True)
class CodingTable:
    """One table: its kind (DC, AC or quantiser), destination, bytes, and whether a scan used it."""

    kind: int
    number: int
    data: bytes
    used: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan: its frame's marker, component -> table selectors, first coefficient, earlier precision."""

    frame: int
    components: dict[int, int]
    first: int
    refines: int

    def uses(self, quantisers: dict[int, int], latched: set[int]) -> list[tuple[int, int]]:
        """(kind, number) of the tables its decoder reads.

        A component's quantiser counts in its first scan, as every decoder takes it there; ``latched``
        holds the components seen and is added to.
        """
        found: list[tuple[int, int]] = []
        for component, selectors in self.components.items():
            if self.frame in _WITH_QUANTISERS and component not in latched:
                latched.add(component)
                found.append((_QUANTISER, quantisers[component]))
            if self.frame not in _HUFFMAN_CODED:
                continue
            progressive = self.frame == _PROGRESSIVE
            if not (progressive and (self.first or self.refines)):
                found.append((_DC, selectors >> 4))
            if self.frame != _LOSSLESS and not (progressive and not self.first):
                found.append((_AC, selectors & 0x0F))
        return found


def parse_tables(marker: int, body: bytes) -> list[CodingTable]:
    """The tables of one segment, which they must fill.

    Raises
    ------
    Quarantined
        ``jpeg-structure``: a table is not one, or bytes are left over.
    """
    found: list[CodingTable] = []
    pos = 0
    while pos < len(body):
        table = _quantiser(body, pos) if marker == QUANTISATION else _codes(body, pos)
        found.append(table)
        pos += len(table.data)
    if not found:
        raise Quarantined("jpeg-structure", "pixels")
    return found


def keep_used(marker: int, tables: list[CodingTable]) -> bytes:
    """The segment anew with the used tables alone; nothing when there is none."""
    body = b"".join(table.data for table in tables if table.used)
    return b"\xff" + bytes([marker]) + (len(body) + 2).to_bytes(2, "big") + body if body else b""


def _quantiser(body: bytes, pos: int) -> CodingTable:
    precision, number = body[pos] >> 4, body[pos] & 0x0F
    size = 1 + 64 * (precision + 1)
    if precision > 1 or number > 3 or pos + size > len(body):
        raise Quarantined("jpeg-structure", "pixels")
    return CodingTable(_QUANTISER, number, body[pos : pos + size])


def _codes(body: bytes, pos: int) -> CodingTable:
    """A Huffman table: its counts make a prefix code, and no symbol comes twice."""
    kind, number, counts = body[pos] >> 4, body[pos] & 0x0F, body[pos + 1 : pos + 17]
    symbols = body[pos + 17 : pos + 17 + sum(counts)]
    room = sum(count << (15 - length) for length, count in enumerate(counts))
    whole = len(counts) == 16 and len(symbols) == sum(counts) and len(set(symbols)) == len(symbols)
    if kind > 1 or number > 3 or not whole or room > 1 << 16:
        raise Quarantined("jpeg-structure", "pixels")
    if kind == _DC and symbols and max(symbols) > _LARGEST_DC:
        raise Quarantined("jpeg-structure", "pixels")
    return CodingTable(kind, number, body[pos : pos + 17 + len(symbols)])
