"""Released bytes put together."""

from __future__ import annotations

from medsanitize.sanitize.result import Sanitized


def joined(done: Sanitized, data: bytes) -> bytes:
    """The released bytes of pieces and spans."""
    return b"".join(
        piece if isinstance(piece, bytes) else data[piece.offset : piece.offset + piece.length]
        for piece in done.pieces
    )
