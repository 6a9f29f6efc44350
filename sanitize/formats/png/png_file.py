"""PNG (ISO/IEC 15948), rewritten with the chunks that decoding needs and no others."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import pack, unpack, unpack_from

from medsanitize.sanitize.formats.exif import MINIMAL_EXIF, orientation_of
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_RULES = {
    **dict.fromkeys((b"tEXt", b"zTXt", b"iTXt"), "X:png-text"),
    **{b"eXIf": "X:exif", b"tIME": "X:png-time", b"iCCP": "X:color-profile"},
}
# Limits of plausible values: a number outside them is data of another kind, and is dropped.
_LARGEST_CHROMATICITY = 200_000
_LARGEST_GAMMA = 10_000_000
_LARGEST_DENSITY = 10_000_000
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column, first row, column step and row step of each interlace pass."""


@dataclass(frozen=True, slots=True, repr=False)
class PngHeader:
    """Fields of the IHDR chunk."""

    columns: int
    rows: int
    depth: int
    color: int
    interlaced: bool

    @property
    def bits(self) -> int:
        """Number of bits per pixel."""
        return self.depth * CHANNELS[self.color]

    def passes(self) -> list[tuple[int, int]]:
        """Return (rows, bytes per row) of the image, or of each pass that is not empty."""
        if not self.interlaced:
            return [(self.rows, (self.columns * self.bits + 7) // 8)]
        sizes = [
            (-(-(self.columns - x) // dx), -(-(self.rows - y) // dy))
            for x, y, dx, dy in ADAM7
            if self.columns > x and self.rows > y
        ]
        return [(rows, (columns * self.bits + 7) // 8) for columns, rows in sizes]

    def chunk(self) -> bytes:
        """Return the encoded IHDR chunk."""
        return _chunk(
            b"IHDR",
            pack(">IIBBBBB", self.columns, self.rows, self.depth, self.color, 0, 0, self.interlaced),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Png:
    """A PNG without metadata.

    Attributes
    ----------
    header : PngHeader
    kept : tuple of (bytes, bytes)
        Name and body of the chunks before the image data, in order.
    stream : bytes
        zlib stream of the image data.
    filtered : bytes
        Decompressed stream: every row with its filter byte.
    rules : tuple of str
        Rules by which parts of the source were removed.
    """

    header: PngHeader
    kept: tuple[tuple[bytes, bytes], ...]
    stream: bytes
    filtered: bytes
    rules: tuple[str, ...]

    @property
    def palette(self) -> bytes:
        """Palette, three bytes per entry; empty if the samples are not indices."""
        return dict(self.kept).get(b"PLTE", b"")

    def write(self) -> bytes:
        """Return the encoded file."""
        before = [_chunk(name, body) for name, body in self.kept]
        return b"".join(
            [_SIGNATURE, self.header.chunk(), *before, _chunk(b"IDAT", self.stream), _chunk(b"IEND", b"")]
        )


def read_png(data: Buffer, most_bytes: int) -> Png:
    """Read a PNG without the chunks that are not needed to display it.

    Parameters
    ----------
    data : bytes or mmap
        The file.
    most_bytes : int
        Largest size of the decompressed image data.

    Raises
    ------
    Quarantined
        ``animated-png``, ``image-too-large``, ``png-structure`` or ``png-truncated``.
    """
    chunks = list(read_chunks(data))
    header = _header(chunks[0] if chunks else (b"", b""))
    names = [name for name, _ in chunks]
    # Frames after the first are in fdAT chunks and would not be checked.
    if b"acTL" in names or b"fdAT" in names:
        raise Quarantined("animated-png")
    # Each row has one more byte, its filter type.
    size = sum(rows * (1 + width) for rows, width in header.passes())
    if size > most_bytes:
        raise Quarantined("image-too-large", "pixels")
    _check_order(names)
    palette = _only(chunks, b"PLTE") if header.color == 3 else b""
    # A palette is only kept for indexed images; elsewhere it is a suggestion that viewers ignore.
    if header.color == 3 and (len(palette) % 3 or not 3 <= len(palette) <= 3 * 2**header.depth):
        raise Quarantined("png-structure")
    rules = [_RULES.get(name, "X:png-chunk") for name in names if name not in _REQUIRED | _NUMERIC]
    # Signature, then 12 bytes of length, name and checksum per chunk; the rest follows IEND.
    if 8 + sum(12 + len(body) for _, body in chunks) < len(data):
        rules.append("X:after-image")
    stream, filtered, cut = _inflate(b"".join(body for name, body in chunks if name == b"IDAT"), size)
    _check_filters(header, filtered)
    kept = list(_kept(chunks, header, palette))
    return Png(header, tuple(kept), stream, filtered, (*rules, *cut))


_REQUIRED = frozenset([b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS"])
_NUMERIC = frozenset([b"sBIT", b"gAMA", b"cHRM", b"sRGB", b"pHYs"])


def read_chunks(data: Buffer) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and body of every chunk up to IEND, with verified checksums.

    Raises
    ------
    Quarantined
        ``png-truncated`` or ``png-structure``.
    """
    pos, end = 8, len(data)
    while pos + 12 <= end:
        length, name = unpack(">I4s", data[pos : pos + 8])
        stop = pos + 8 + length
        if stop + 4 > end:
            raise Quarantined("png-truncated")
        body = bytes(data[pos + 8 : stop])
        if unpack(">I", data[stop : stop + 4])[0] != zlib.crc32(body, zlib.crc32(name)):
            raise Quarantined("png-structure")
        yield name, body
        pos = stop + 4
        if name == b"IEND":
            return
    raise Quarantined("png-truncated")


def _header(chunk: tuple[bytes, bytes]) -> PngHeader:
    name, body = chunk
    if name != b"IHDR" or len(body) != 13:
        raise Quarantined("png-structure")
    columns, rows, depth, color, compression, filters, interlace = unpack(">IIBBBBB", body)
    sound = color in _DEPTHS and depth in _DEPTHS[color] and not compression and not filters
    if not sound or interlace > 1 or not 0 < columns < 2**31 or not 0 < rows < 2**31:
        raise Quarantined("png-structure")
    return PngHeader(columns, rows, depth, color, bool(interlace))


def _check_order(names: list[bytes]) -> None:
    """Require consecutive IDAT chunks, the palette before them and no unknown critical chunk."""
    first = names.index(b"IDAT") if b"IDAT" in names else -1
    count = names.count(b"IDAT")
    together = first > 0 and names[first : first + count] == [b"IDAT"] * count
    # Bit 5 of the first letter is 0 in critical chunks (ISO/IEC 15948 5.4).
    critical = {name for name in names if not name[0] & 0x20} - _REQUIRED
    late = b"PLTE" in names[first:] or b"tRNS" in names[first:]
    if not together or critical or late or names.count(b"IHDR") != 1 or names.count(b"PLTE") > 1:
        raise Quarantined("png-structure")


def _only(chunks: list[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    return next((body for name, body in chunks if name == wanted), b"")


def _inflate(stream: bytes, size: int) -> tuple[bytes, bytes, list[str]]:
    """Return the zlib stream and its ``size`` decompressed bytes, both without surplus, and the rules."""
    inflater = zlib.decompressobj()
    try:
        # The size is known from the header, so that a decompression bomb stops there.
        content = inflater.decompress(stream, size)
        more = inflater.decompress(inflater.unconsumed_tail, 1)
        used = len(stream) - len(inflater.unused_data)
    except zlib.error:
        raise Quarantined("png-structure", "pixels") from None
    if len(content) < size:
        raise Quarantined("png-truncated", "pixels")
    # Surplus inside the stream can only be removed by compressing again.
    if more or not inflater.eof:
        return zlib.compress(content, 6), content, ["X:after-image"]
    return (stream, content, []) if used == len(stream) else (stream[:used], content, ["X:after-image"])


def _check_filters(header: PngHeader, filtered: bytes) -> None:
    start = 0
    for rows, width in header.passes():
        stop = start + rows * (width + 1)
        if max(filtered[start : stop : width + 1]) > 4:
            raise Quarantined("png-structure", "pixels")
        start = stop


def _kept(
    chunks: list[tuple[bytes, bytes]], header: PngHeader, palette: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks to keep: numeric color chunks, palette, transparency, density and orientation."""
    for name, sound in (
        (b"cHRM", _is_chromaticity),
        (b"gAMA", _is_gamma),
        (b"sBIT", lambda body: _is_sbit(body, header)),
        (b"sRGB", lambda body: len(body) == 1 and body[0] < 4),
    ):
        body = _only(chunks, name)
        if body and sound(body):
            yield name, body
    if palette:
        yield b"PLTE", palette
    transparent = _only(chunks, b"tRNS")
    if transparent and _is_transparency(transparent, header, palette):
        yield b"tRNS", transparent
    density = _only(chunks, b"pHYs")
    if len(density) == 9 and density[8] < 2 and max(unpack(">II", density[:8])) <= _LARGEST_DENSITY:
        yield b"pHYs", density
    orientation = orientation_of(_only(chunks, b"eXIf"))
    if orientation > 1:
        yield b"eXIf", MINIMAL_EXIF[orientation]


def _is_chromaticity(body: bytes) -> bool:
    return len(body) == 32 and max(unpack(">8I", body)) <= _LARGEST_CHROMATICITY


def _is_gamma(body: bytes) -> bool:
    return len(body) == 4 and 0 < unpack(">I", body)[0] <= _LARGEST_GAMMA


def _is_sbit(body: bytes, header: PngHeader) -> bool:
    channels = 3 if header.color == 3 else CHANNELS[header.color]
    return len(body) == channels and all(0 < bits <= header.depth or header.color == 3 for bits in body)


def _is_transparency(body: bytes, header: PngHeader, palette: bytes) -> bool:
    if header.color == 3:
        return len(body) <= len(palette) // 3
    channels = {0: 1, 2: 3}.get(header.color, 0)
    return 0 < len(body) == 2 * channels and max(unpack_from(f">{channels}H", body)) < 2**header.depth


def _chunk(name: bytes, body: bytes) -> bytes:
    return pack(">I", len(body)) + name + body + pack(">I", zlib.crc32(body, zlib.crc32(name)))
