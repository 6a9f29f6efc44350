"""Compression schemes of TIFF strips: decoding, and the number of bytes that the pixels use."""

from __future__ import annotations

import zlib

from medsanitize.sanitize.quarantine import Quarantined

_NONE, _LZW, _DEFLATE, _PACKBITS = 1, 5, 8, 32773
_CLEAR, _END = 256, 257


def encoded_length(strip: bytes, compression: int, size: int) -> int:
    """Return the number of bytes of ``strip`` that encode ``size`` bytes.

    Bytes after them are not part of the image.

    Raises
    ------
    Quarantined
        ``tiff-truncated`` if it encodes fewer bytes; ``tiff-structure`` if it encodes more or is invalid.
    """
    return _coded(strip, compression, size)[1]


def decode_strip(strip: bytes, compression: int, size: int) -> bytes:
    """Decode the ``size`` bytes of a strip; raises as ``encoded_length``."""
    return _coded(strip, compression, size)[0]


def _coded(strip: bytes, compression: int, size: int) -> tuple[bytes, int]:
    content, used = {_NONE: _plain, _LZW: _lzw, _DEFLATE: _deflate, _PACKBITS: _packbits}[compression](
        strip, size
    )
    if len(content) < size:
        raise Quarantined("tiff-truncated", "pixels")
    if len(content) > size:
        raise Quarantined("tiff-structure", "pixels")
    return content, used


def _plain(strip: bytes, size: int) -> tuple[bytes, int]:
    return strip[:size], size


def _deflate(strip: bytes, size: int) -> tuple[bytes, int]:
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(strip, size)
        # One byte more shows that the strip encodes too much, without inflating a bomb.
        more = inflater.decompress(inflater.unconsumed_tail, 1)
    except zlib.error:
        raise Quarantined("tiff-structure", "pixels") from None
    if not inflater.eof and not more:
        raise Quarantined("tiff-truncated", "pixels")
    return content + more, len(strip) - len(inflater.unused_data)


def _packbits(strip: bytes, size: int) -> tuple[bytes, int]:
    out: list[bytes] = []
    made = pos = 0
    # A head of 128 has no effect (TIFF 6.0 section 9).
    while made < size and pos < len(strip):
        head = strip[pos]
        if head < 128:
            piece = strip[pos + 1 : pos + 2 + head]
            pos += 2 + head
        else:
            piece = strip[pos + 1 : pos + 2] * (257 - head) if head > 128 else b""
            pos += 2 if head > 128 else 1
        out.append(piece)
        made += len(piece)
    return b"".join(out), min(pos, len(strip))


def _lzw(strip: bytes, size: int) -> tuple[bytes, int]:
    """Decode LZW with codes in high-to-low bit order and early change of width (TIFF 6.0 section 13)."""
    out: list[bytes] = []
    table: list[bytes] = []
    # Codes 256 (clear) and 257 (end) have no entry.
    fresh = [bytes([one]) for one in range(256)] + [b"", b""]
    width, made, pos, end, previous = 9, 0, 0, 8 * len(strip), b""
    while made < size and pos + width <= end:
        at = pos >> 3
        code = (int.from_bytes(strip[at : at + 4].ljust(4, b"\0"), "big") >> (32 - width - (pos & 7))) & (
            (1 << width) - 1
        )
        pos += width
        if code == _END:
            break
        if code == _CLEAR:
            table, width, previous = fresh.copy(), 9, b""
            continue
        if not table or code > len(table) or (code == len(table) and not previous) or len(table) > 4096:
            raise Quarantined("tiff-structure", "pixels")
        # A code that is not in the table yet is the previous string plus its first byte.
        entry = table[code] if code < len(table) else previous + previous[:1]
        out.append(entry)
        made += len(entry)
        if previous:
            table.append(previous + entry[:1])
            width = 9 if len(table) < 511 else 10 if len(table) < 1023 else 11 if len(table) < 2047 else 12
        previous = entry
    return b"".join(out), _lzw_end(strip, pos, width)


def _lzw_end(strip: bytes, pos: int, width: int) -> int:
    """Return where the strip ends: after the end code if it comes next, else after the last code."""
    at = pos >> 3
    code = (int.from_bytes(strip[at : at + 4].ljust(4, b"\0"), "big") >> (32 - width - (pos & 7))) & (
        (1 << width) - 1
    )
    if code == _END:
        pos += width
    return min(len(strip), (pos + 7) >> 3)
