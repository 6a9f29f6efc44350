"""What a released file is made of: literal bytes, and runs copied from a source file."""

from __future__ import annotations

from typing import NamedTuple


class Copy(NamedTuple):
    """A run of bytes of one of the slide's source files (``file`` is its index), copied as it is."""

    offset: int
    length: int
    file: int = 0


Piece = bytes | Copy
