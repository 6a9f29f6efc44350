"""The content of released files as literal bytes and byte ranges of source files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Copy(NamedTuple):
    """A byte range of the source file with index ``file``, copied unchanged.

    Large pixel data is released this way without being held in memory.
    """

    offset: int
    length: int
    file: int = 0


Piece = bytes | Copy


@dataclass(frozen=True, slots=True)
class OutFile:
    """One released file. ``name`` is the suffix to the object's name: ``.dcm``, ``.svs``, ``/Index.dat``."""

    name: str
    pieces: tuple[Piece, ...]
