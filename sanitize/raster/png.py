"""PNG (ISO/IEC 15948): a new file of the chunks that decoding needs, and of nothing else."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import pack, unpack, unpack_from
from typing import TYPE_CHECKING, Any

from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.raster.exif import MINIMAL_EXIF, orientation_of
from medsanitize.sanitize.raster.sniff import Buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_RULES = {
    **dict.fromkeys((b"tEXt", b"zTXt", b"iTXt"), "X:png-text"),
    **{b"eXIf": "X:exif", b"tIME": "X:png-time", b"iCCP": "X:color-profile"},
}
_LARGEST_CHROMATICITY = 200_000
_LARGEST_GAMMA = 10_000_000
_LARGEST_DENSITY = 10_000_000
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column, first row, column step and row step of each pass."""


@dataclass(frozen=True, slots=True, repr=False)
class Header:
    """IHDR."""

    columns: int
    rows: int
    depth: int
    color: int
    interlaced: bool

    @property
    def bits(self) -> int:
        """Bits of one pixel."""
        return self.depth * _CHANNELS[self.color]

    def passes(self) -> list[tuple[int, int]]:
        """(rows, bytes of a row) of the whole image, or of each pass that is not empty."""
        if not self.interlaced:
            return [(self.rows, (self.columns * self.bits + 7) // 8)]
        sizes = [
            (-(-(self.columns - x) // dx), -(-(self.rows - y) // dy))
            for x, y, dx, dy in _ADAM7
            if self.columns > x and self.rows > y
        ]
        return [(rows, (columns * self.bits + 7) // 8) for columns, rows in sizes]

    def chunk(self) -> bytes:
        """IHDR as it is written."""
        return _chunk(
            b"IHDR",
            pack(">IIBBBBB", self.columns, self.rows, self.depth, self.color, 0, 0, self.interlaced),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Png:
    """A PNG without metadata.

    ``kept`` are the chunks before the image data, in order; ``stream`` is the zlib stream, ``filtered``
    its content: every row with its filter byte.
    """

    header: Header
    kept: tuple[tuple[bytes, bytes], ...]
    stream: bytes
    filtered: bytes
    rules: tuple[str, ...]

    @property
    def palette(self) -> bytes:
        """Three bytes an entry; empty where the samples are colours themselves."""
        return dict(self.kept).get(b"PLTE", b"")

    def write(self) -> bytes:
        """The file."""
        before = [_chunk(name, body) for name, body in self.kept]
        return b"".join(
            [_SIGNATURE, self.header.chunk(), *before, _chunk(b"IDAT", self.stream), _chunk(b"IEND", b"")]
        )


def read_png(data: Buffer, most_bytes: int) -> Png:
    """Read a PNG; what is not needed to show it is left out.

    Raises
    ------
    Refused
        ``animated-png``, ``image-too-large`` (declared pixels above ``most_bytes``), ``png-structure`` or
        ``png-truncated``.
    """
    chunks = list(read_chunks(data))
    header = _header(chunks[0] if chunks else (b"", b""))
    names = [name for name, _ in chunks]
    if b"acTL" in names or b"fdAT" in names:
        raise Refused("animated-png")
    size = sum(rows * (1 + width) for rows, width in header.passes())
    if size > most_bytes:
        raise Refused("image-too-large", "pixels")
    _check_order(names)
    palette = _only(chunks, b"PLTE") if header.color == 3 else b""
    if header.color == 3 and (len(palette) % 3 or not 3 <= len(palette) <= 3 * 2**header.depth):
        raise Refused("png-structure")
    rules = [_RULES.get(name, "X:png-chunk") for name in names if name not in _NEEDED | _NUMERIC]
    if 8 + sum(12 + len(body) for _, body in chunks) < len(data):
        rules.append("X:after-image")
    stream, filtered, cut = _inflate(b"".join(body for name, body in chunks if name == b"IDAT"), size)
    _check_filters(header, filtered)
    kept = list(_kept(chunks, header, palette))
    png = Png(header, tuple(kept), stream, filtered, (*rules, *cut))
    return _without_unused(png)


_NEEDED = frozenset([b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS"])
_NUMERIC = frozenset([b"sBIT", b"gAMA", b"cHRM", b"sRGB", b"pHYs"])


def read_chunks(data: Buffer) -> Iterator[tuple[bytes, bytes]]:
    """Every chunk up to IEND, its checksum verified."""
    pos, end = 8, len(data)
    while pos + 12 <= end:
        length, name = unpack(">I4s", data[pos : pos + 8])
        stop = pos + 8 + length
        if stop + 4 > end:
            raise Refused("png-truncated")
        body = bytes(data[pos + 8 : stop])
        if unpack(">I", data[stop : stop + 4])[0] != zlib.crc32(body, zlib.crc32(name)):
            raise Refused("png-structure")
        yield name, body
        pos = stop + 4
        if name == b"IEND":
            return
    raise Refused("png-truncated")


def _header(chunk: tuple[bytes, bytes]) -> Header:
    name, body = chunk
    if name != b"IHDR" or len(body) != 13:
        raise Refused("png-structure")
    columns, rows, depth, color, compression, filters, interlace = unpack(">IIBBBBB", body)
    sound = color in _DEPTHS and depth in _DEPTHS[color] and not compression and not filters
    if not sound or interlace > 1 or not 0 < columns < 2**31 or not 0 < rows < 2**31:
        raise Refused("png-structure")
    return Header(columns, rows, depth, color, bool(interlace))


def _check_order(names: list[bytes]) -> None:
    """One run of IDAT, the palette before it, and no critical chunk that is not understood."""
    first = names.index(b"IDAT") if b"IDAT" in names else -1
    count = names.count(b"IDAT")
    together = first > 0 and names[first : first + count] == [b"IDAT"] * count
    critical = {name for name in names if not name[0] & 0x20} - _NEEDED
    late = b"PLTE" in names[first:] or b"tRNS" in names[first:]
    if not together or critical or late or names.count(b"IHDR") != 1 or names.count(b"PLTE") > 1:
        raise Refused("png-structure")


def _only(chunks: list[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    return next((body for name, body in chunks if name == wanted), b"")


def _inflate(stream: bytes, size: int) -> tuple[bytes, bytes, list[str]]:
    """The zlib stream and its content of ``size`` bytes, both without anything behind their end."""
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stream, size)
        more = inflater.decompress(inflater.unconsumed_tail, 1)
        used = len(stream) - len(inflater.unused_data)
    except zlib.error:
        raise Refused("png-structure", "pixels") from None
    if len(content) < size:
        raise Refused("png-truncated", "pixels")
    if more or not inflater.eof:
        return zlib.compress(content, 6), content, ["X:after-image"]
    return (stream, content, []) if used == len(stream) else (stream[:used], content, ["X:after-image"])


def _check_filters(header: Header, filtered: bytes) -> None:
    start = 0
    for rows, width in header.passes():
        stop = start + rows * (width + 1)
        if max(filtered[start : stop : width + 1]) > 4:
            raise Refused("png-structure", "pixels")
        start = stop


def _kept(chunks: list[tuple[bytes, bytes]], header: Header, palette: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Colour statements of numbers alone, then palette, transparency, density and orientation."""
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


def _is_sbit(body: bytes, header: Header) -> bool:
    channels = 3 if header.color == 3 else _CHANNELS[header.color]
    return len(body) == channels and all(0 < bits <= header.depth or header.color == 3 for bits in body)


def _is_transparency(body: bytes, header: Header, palette: bytes) -> bool:
    if header.color == 3:
        return len(body) <= len(palette) // 3
    channels = {0: 1, 2: 3}.get(header.color, 0)
    return 0 < len(body) == 2 * channels and max(unpack_from(f">{channels}H", body)) < 2**header.depth


# -- pixels ---------------------------------------------------------------------------------


def decode_samples(png: Png) -> NDArray[Any]:
    """Samples as they are stored: rows x columns x channels; of a palette, its indices."""
    import numpy as np

    header = png.header
    if not header.interlaced:
        return _plain(header, png.filtered, header.rows, header.columns)
    whole: NDArray[Any] = np.zeros(
        (header.rows, header.columns, _CHANNELS[header.color]), np.uint16 if header.depth == 16 else np.uint8
    )
    start = 0
    for x, y, dx, dy in _ADAM7:
        part = whole[y::dy, x::dx]
        if part.size:
            rows, columns = part.shape[:2]
            stop = start + rows * (1 + (columns * header.bits + 7) // 8)
            whole[y::dy, x::dx] = _plain(header, png.filtered[start:stop], rows, columns)
            start = stop
    return whole


def _plain(header: Header, filtered: bytes, rows: int, columns: int) -> NDArray[Any]:
    """Undo the filters of one pass and take the samples out of its bytes."""
    import numpy as np

    channels = _CHANNELS[header.color]
    raw = _unfiltered(filtered, rows, max(1, header.bits // 8))
    if header.depth == 16:
        return raw.view(">u2").astype(np.uint16).reshape(rows, columns, channels)
    if header.depth == 8:
        return raw.reshape(rows, columns, channels)
    return unpack_bits(raw, header.depth)[:, :columns, None]


def unpack_bits(raw: NDArray[Any], depth: int) -> NDArray[Any]:
    """Samples of 1, 2 or 4 bits, the first in the high bits, a row of bytes to a row of samples."""
    import numpy as np

    bits = np.unpackbits(raw, axis=1).reshape(raw.shape[0], -1, depth)
    weights = (1 << np.arange(depth - 1, -1, -1)).astype(np.uint8)
    packed: NDArray[Any] = (bits * weights).sum(axis=2, dtype=np.uint8)
    return packed


def pack_bits(samples: NDArray[Any], depth: int) -> NDArray[Any]:
    """The bytes of rows of samples of 1, 2 or 4 bits; each row is filled up with zero bits."""
    import numpy as np

    bits = (samples[:, :, None] >> np.arange(depth - 1, -1, -1, dtype=np.uint8)) & 1
    return np.packbits(bits.reshape(samples.shape[0], -1).astype(np.uint8), axis=1)


def _unfiltered(filtered: bytes, rows: int, unit: int) -> NDArray[Any]:
    """Rows of bytes without their filters, which reach ``unit`` bytes back.

    Every byte of a pixel is filtered with its like, so a pixel of 6 or 8 bytes is two of 3 or 4.
    """
    import numpy as np
    from PIL import Image

    table = np.frombuffer(filtered, np.uint8).reshape(rows, -1)
    if not table[:, 0].any():
        return np.ascontiguousarray(table[:, 1:])
    columns = (table.shape[1] - 1) // unit
    if unit > 4:
        lanes = table[:, 1:].reshape(rows, columns, 2, unit // 2)
        halves = [
            _unfiltered(
                np.concatenate([table[:, :1], lanes[:, :, half].reshape(rows, -1)], axis=1).tobytes(),
                rows,
                unit // 2,
            ).reshape(rows, columns, 1, unit // 2)
            for half in (0, 1)
        ]
        return np.concatenate(halves, axis=2).reshape(rows, -1)
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[unit]
    image = Image.frombytes(mode, (columns, rows), zlib.compress(filtered, 0), "zip", mode)
    return np.array(image).reshape(rows, -1)


def _without_unused(png: Png) -> Png:
    """Clear what no viewer shows but bytes can hold: unused palette entries, and bits that fill up rows."""
    header = png.header
    if header.color != 3 and header.bits >= 8:
        return png
    samples = decode_samples(png)
    kept, rules = png.kept, list(png.rules)
    if header.color == 3:
        if int(samples.max()) >= len(png.palette) // 3:
            raise Refused("png-structure", "pixels")
        used = set(samples.ravel().tolist()) if samples.size < 65536 else _values(samples)
        clean = b"".join(
            png.palette[3 * entry : 3 * entry + 3] if entry in used else bytes(3)
            for entry in range(len(png.palette) // 3)
        )
        if clean != png.palette:
            kept = tuple((name, clean if name == b"PLTE" else body) for name, body in kept)
            kept = tuple((name, _alphas(body, used) if name == b"tRNS" else body) for name, body in kept)
            rules.append("X:unused-colors")
    if header.bits >= 8 or (not header.interlaced and header.columns * header.bits % 8 == 0):
        return replace(png, kept=kept, rules=tuple(rules))
    if header.interlaced:  # every pass has bits that fill up its rows
        return encode_samples(replace(png, kept=kept, rules=tuple(rules)), samples)
    rest = 0xFF >> (header.columns * header.bits % 8)
    raw = _unfiltered(png.filtered, header.rows, 1)
    if not (raw[:, -1] & rest).any():
        return replace(png, kept=kept, rules=tuple(rules))
    return encode_samples(replace(png, kept=kept, rules=(*rules, "X:fill-bits")), samples)


def _values(samples: NDArray[Any]) -> set[int]:
    import numpy as np

    return set(np.flatnonzero(np.bincount(samples.ravel(), minlength=256)).tolist())


def _alphas(body: bytes, used: set[int]) -> bytes:
    return bytes(alpha if entry in used else 255 for entry, alpha in enumerate(body))


def encode_samples(png: Png, samples: NDArray[Any]) -> Png:
    """The same PNG with other samples of the same shape, not interlaced."""
    import numpy as np

    header = replace(png.header, interlaced=False)
    if header.depth == 16:
        raw = samples.astype(">u2").view(np.uint8).reshape(header.rows, -1)
    elif header.depth == 8:
        raw = samples.reshape(header.rows, -1)
    else:
        raw = pack_bits(samples[:, :, 0], header.depth)
    table = np.empty((header.rows, raw.shape[1] + 1), np.uint8)
    up = 2 if header.bits >= 8 and header.color != 3 else 0
    table[:, 0] = up
    table[:, 1:] = raw
    if up:
        table[1:, 1:] -= raw[:-1]
    filtered = table.tobytes()
    return replace(png, header=header, stream=zlib.compress(filtered, 6), filtered=filtered)


def colors(png: Png) -> NDArray[Any]:
    """Samples with the palette resolved: rows x columns x channels, transparency the last of 2 or 4."""
    import numpy as np

    samples = decode_samples(png)
    if png.header.color != 3:
        return samples
    palette = np.frombuffer(png.palette, np.uint8).reshape(-1, 3)
    transparent = dict(png.kept).get(b"tRNS")
    if transparent is not None:
        alpha = np.frombuffer(transparent.ljust(len(palette), b"\xff"), np.uint8)
        palette = np.concatenate([palette, alpha[:, None]], axis=1)
    resolved: NDArray[Any] = palette[samples[:, :, 0]]
    return resolved


def blank_png(png: Png, mask: NDArray[Any]) -> Png:
    """Blank the pixels of a mask (rows x columns): black, opaque; in a palette, its darkest used entry."""
    samples = decode_samples(png).copy()
    header = png.header
    fill = [0] * samples.shape[2]
    if header.color in (4, 6):
        fill[-1] = 2**header.depth - 1
    if header.color == 3:
        fill[0] = _darkest(png, _values(samples))
    samples[mask] = fill
    return _without_unused(encode_samples(png, samples))


def png_of(samples: NDArray[Any], orientation: int) -> Png:
    """A PNG of 8 bit grey or RGB samples."""
    rows, columns = samples.shape[:2]
    color = {1: 0, 3: 2}[1 if samples.ndim == 2 else samples.shape[2]]
    kept = ((b"eXIf", MINIMAL_EXIF[orientation]),) if orientation > 1 else ()
    return encode_samples(Png(Header(columns, rows, 8, color, False), kept, b"", b"", ()), samples)


def _darkest(png: Png, used: set[int]) -> int:
    alphas = dict(png.kept).get(b"tRNS", b"").ljust(256, b"\xff")
    return min(used, key=lambda entry: (-alphas[entry], sum(png.palette[3 * entry : 3 * entry + 3]), entry))


def _chunk(name: bytes, body: bytes) -> bytes:
    return pack(">I", len(body)) + name + body + pack(">I", zlib.crc32(body, zlib.crc32(name)))
