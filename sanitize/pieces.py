"""What a released file is made of: literal bytes, and runs copied from a source file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Copy(NamedTuple):
    """A run of bytes of one of the object's source files (``file`` is its index), copied as it is.

    Large pixel data is released this way without being held in memory.
    """

    offset: int
    length: int
    file: int = 0


Piece = bytes | Copy


@dataclass(frozen=True, slots=True)
class OutFile:
    """One released file. ``name`` follows the object's own name: ``.dcm``, ``.svs``, ``/Index.dat``."""

    name: str
    pieces: tuple[Piece, ...]
