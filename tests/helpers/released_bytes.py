"""Released bytes as one value."""

from __future__ import annotations

from medsanitize.sanitize.result import Sanitized


def released_bytes(done: Sanitized, data: bytes) -> bytes:
    """The released bytes of a single-file object; empty if it was not released."""
    return b"".join(
        piece if isinstance(piece, bytes) else data[piece.offset : piece.offset + piece.length]
        for file in done.files
        for piece in file.pieces
    )
