"""Marker segments and frame header of a JPEG."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack


@dataclass(frozen=True, slots=True, repr=False)
class Frame:
    """Frame header: size, and (identifier, horizontal, vertical sampling, table) of every component."""

    marker: int
    rows: int
    columns: int
    components: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Segment:
    """One marker segment that decoding needs; a scan includes its entropy-coded data."""

    marker: int
    body: bytes
    data: bytes = b""

    def write(self) -> bytes:
        """Return marker, length, parameters and data as bytes."""
        return pack(">BBH", 0xFF, self.marker, len(self.body) + 2) + self.body + self.data
