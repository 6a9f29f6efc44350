"""Quantization and Huffman tables of JPEG (ITU-T T.81 B.2.4), and which of them a scan uses."""

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
    """One table: kind (DC, AC or quantizer), destination, bytes, and whether a scan uses it."""

    kind: int
    number: int
    data: bytes
    used: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan: frame marker, component -> table selectors, first coefficient, earlier precision."""

    frame: int
    components: dict[int, int]
    first: int
    refines: int

    def uses(self, quantisers: dict[int, int], latched: set[int]) -> list[tuple[int, int]]:
        """Return (kind, number) of the tables that a decoder reads.

        ``latched`` are the components with an earlier scan; those of this scan are added to it.
        """
        found: list[tuple[int, int]] = []
        for component, selectors in self.components.items():
            if self.frame in _WITH_QUANTISERS and component not in latched:
                # Decoders read a component's quantizer in its first scan only.
                latched.add(component)
                found.append((_QUANTISER, quantisers[component]))
            if self.frame not in _HUFFMAN_CODED:
                continue
            progressive = self.frame == _PROGRESSIVE
            # Refinements of DC coefficients are bits without a Huffman code (T.81 annex G).
            if not (progressive and (self.first or self.refines)):
                found.append((_DC, selectors >> 4))
            if self.frame != _LOSSLESS and not (progressive and not self.first):
                found.append((_AC, selectors & 0x0F))
        return found


def parse_tables(marker: int, body: bytes) -> list[CodingTable]:
    """Parse the tables of one DQT or DHT segment.

    Raises
    ------
    Quarantined
        ``jpeg-structure`` if a table is invalid, or bytes are left over.
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
    """Build the segment with its used tables; empty if there is none."""
    body = b"".join(table.data for table in tables if table.used)
    return b"\xff" + bytes([marker]) + (len(body) + 2).to_bytes(2, "big") + body if body else b""


def _quantiser(body: bytes, pos: int) -> CodingTable:
    precision, number = body[pos] >> 4, body[pos] & 0x0F
    size = 1 + 64 * (precision + 1)
    if precision > 1 or number > 3 or pos + size > len(body):
        raise Quarantined("jpeg-structure", "pixels")
    return CodingTable(_QUANTISER, number, body[pos : pos + size])


def _codes(body: bytes, pos: int) -> CodingTable:
    """Parse a Huffman table; it must be a prefix code without repeated symbols."""
    kind, number, counts = body[pos] >> 4, body[pos] & 0x0F, body[pos + 1 : pos + 17]
    symbols = body[pos + 17 : pos + 17 + sum(counts)]
    # Kraft's inequality: more codes of these lengths than 16 bits can hold are no prefix code.
    used = sum(count << (15 - length) for length, count in enumerate(counts))
    whole = len(counts) == 16 and len(symbols) == sum(counts) and len(set(symbols)) == len(symbols)
    if kind > 1 or number > 3 or not whole or used > 1 << 16:
        raise Quarantined("jpeg-structure", "pixels")
    if kind == _DC and symbols and max(symbols) > _LARGEST_DC:
        raise Quarantined("jpeg-structure", "pixels")
    return CodingTable(kind, number, body[pos : pos + 17 + len(symbols)])
