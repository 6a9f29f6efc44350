"""The marker segments of a JPEG, and its frame header."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack


@dataclass(frozen=True, slots=True, repr=False)
class Frame:
    """The frame header: size, and of every component its identifier, sampling factors and table."""

    marker: int
    rows: int
    columns: int
    components: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Segment:
    """One marker segment that decoding needs; of a scan, its entropy-coded data too."""

    marker: int
    body: bytes
    data: bytes = b""

    def write(self) -> bytes:
        """Marker, length, parameters and data."""
        return pack(">BBH", 0xFF, self.marker, len(self.body) + 2) + self.body + self.data
