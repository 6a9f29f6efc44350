"""Samples of PNG files: reverses filters, and encodes changed samples without loss."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from medsanitize.sanitize.formats.dicom.image_pixel import Area
from medsanitize.sanitize.formats.exif import MINIMAL_EXIF
from medsanitize.sanitize.formats.ground import fill_with_ground, tolerance_of
from medsanitize.sanitize.formats.png.png_file import ADAM7, CHANNELS, Png, PngHeader
from medsanitize.sanitize.quarantine import Quarantined

if TYPE_CHECKING:
    from numpy.typing import NDArray


def decode_samples(png: Png) -> NDArray[Any]:
    """Decode the samples as stored.

    Returns
    -------
    ndarray, shape (rows, columns, channels)
        uint16 for images of 16 bits, else uint8. For images with a palette, its indices.
    """
    import numpy as np

    header = png.header
    if not header.interlaced:
        return _plain(header, png.filtered, header.rows, header.columns)
    whole: NDArray[Any] = np.zeros(
        (header.rows, header.columns, CHANNELS[header.color]), np.uint16 if header.depth == 16 else np.uint8
    )
    start = 0
    for x, y, dx, dy in ADAM7:
        part = whole[y::dy, x::dx]
        if part.size:
            rows, columns = part.shape[:2]
            stop = start + rows * (1 + (columns * header.bits + 7) // 8)
            whole[y::dy, x::dx] = _plain(header, png.filtered[start:stop], rows, columns)
            start = stop
    return whole


def _plain(header: PngHeader, filtered: bytes, rows: int, columns: int) -> NDArray[Any]:
    """Reverse the filters of one pass and extract its samples."""
    import numpy as np

    channels = CHANNELS[header.color]
    raw = _unfiltered(filtered, rows, max(1, header.bits // 8))
    if header.depth == 16:
        return raw.view(">u2").astype(np.uint16).reshape(rows, columns, channels)
    if header.depth == 8:
        return raw.reshape(rows, columns, channels)
    return unpack_bits(raw, header.depth)[:, :columns, None]


def unpack_bits(raw: NDArray[Any], depth: int) -> NDArray[Any]:
    """Unpack rows of bytes into samples of 1, 2 or 4 bits; the first sample is in the high bits."""
    import numpy as np

    bits = np.unpackbits(raw, axis=1).reshape(raw.shape[0], -1, depth)
    weights = (1 << np.arange(depth - 1, -1, -1)).astype(np.uint8)
    packed: NDArray[Any] = (bits * weights).sum(axis=2, dtype=np.uint8)
    return packed


def pack_bits(samples: NDArray[Any], depth: int) -> NDArray[Any]:
    """Pack samples of 1, 2 or 4 bits into bytes; each row is padded with zero bits."""
    import numpy as np

    bits = (samples[:, :, None] >> np.arange(depth - 1, -1, -1, dtype=np.uint8)) & 1
    return np.packbits(bits.reshape(samples.shape[0], -1).astype(np.uint8), axis=1)


def _unfiltered(filtered: bytes, rows: int, unit: int) -> NDArray[Any]:
    """Reverse the filters of rows of bytes; ``unit`` is the distance in bytes that filters refer back."""
    import numpy as np
    from PIL import Image

    table = np.frombuffer(filtered, np.uint8).reshape(rows, -1)
    if not table[:, 0].any():
        return np.ascontiguousarray(table[:, 1:])
    columns = (table.shape[1] - 1) // unit
    if unit > 4:
        # Pillow has no mode of 6 or 8 bytes per pixel. Bytes are filtered independently of their neighbors
        # in a pixel, so such a pixel is decoded as two of 3 or 4 bytes.
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
    # Pillow's decoder reverses PNG filters in C; it expects a zlib stream, here an uncompressed one.
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[unit]
    image = Image.frombytes(mode, (columns, rows), zlib.compress(filtered, 0), "zip", mode)
    return np.array(image).reshape(rows, -1)


def clear_unused_png(png: Png) -> Png:
    """Clear content that viewers do not show: unused palette entries and padding bits of rows.

    Raises
    ------
    Quarantined
        ``png-structure`` if a sample has no palette entry.
    """
    header = png.header
    if header.color != 3 and header.bits >= 8:
        return png
    samples = decode_samples(png)
    kept, rules = png.kept, list(png.rules)
    if header.color == 3:
        if int(samples.max()) >= len(png.palette) // 3:
            raise Quarantined("png-structure", "pixels")
        used = set(samples.ravel().tolist()) if samples.size < 65536 else _values(samples)
        clean = b"".join(
            png.palette[3 * entry : 3 * entry + 3] if entry in used else bytes(3)
            for entry in range(len(png.palette) // 3)
        )
        if clean != png.palette:
            kept = tuple((name, clean if name == b"PLTE" else body) for name, body in kept)
            # The transparency of unused entries could carry information as well.
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
    """Return the PNG with other samples of the same shape, without interlacing."""
    import numpy as np

    header = replace(png.header, interlaced=False)
    if header.depth == 16:
        raw = samples.astype(">u2").view(np.uint8).reshape(header.rows, -1)
    elif header.depth == 8:
        raw = samples.reshape(header.rows, -1)
    else:
        raw = pack_bits(samples[:, :, 0], header.depth)
    table = np.empty((header.rows, raw.shape[1] + 1), np.uint8)
    # ISO/IEC 15948 12.8 advises no filter for palettes and fewer than 8 bits; elsewhere Up is used.
    up = 2 if header.bits >= 8 and header.color != 3 else 0
    table[:, 0] = up
    table[:, 1:] = raw
    if up:
        table[1:, 1:] -= raw[:-1]
    filtered = table.tobytes()
    return replace(png, header=header, stream=zlib.compress(filtered, 6), filtered=filtered)


def png_colors(png: Png) -> NDArray[Any]:
    """Return the samples with palette colors resolved.

    Returns
    -------
    ndarray, shape (rows, columns, channels)
        Transparency is the last of 2 or 4 channels.
    """
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


def blank_png(png: Png, areas: Sequence[Area]) -> Png:
    """Blank areas with the color and transparency of the ground around them.

    Where these are not flat, the areas become black and opaque; in an image with a palette, they get the
    darkest of the most opaque used entries.
    """
    samples = decode_samples(png)
    header = png.header
    fill = [0] * samples.shape[2]
    if header.color in (4, 6):
        fill[-1] = 2**header.depth - 1
    if header.color == 3:
        # An unused entry would be cleared with the others, so the fill color is chosen among the used.
        fill[0] = _darkest(png, _values(samples))
    tolerance = tolerance_of(header.depth, indexed=header.color == 3)
    blanked = fill_with_ground(samples, areas, fill, tolerance=tolerance)
    # Palette entries that only blanked pixels used are cleared too.
    return clear_unused_png(encode_samples(png, blanked))


def encode_png(samples: NDArray[Any], orientation: int) -> Png:
    """Encode 8-bit gray or RGB samples.

    Parameters
    ----------
    samples : ndarray of uint8, shape (rows, columns) or (rows, columns, channels)
        One or three channels.
    orientation : int
        EXIF Orientation, 1 to 8.
    """
    rows, columns = samples.shape[:2]
    color = {1: 0, 3: 2}[1 if samples.ndim == 2 else samples.shape[2]]
    kept = ((b"eXIf", MINIMAL_EXIF[orientation]),) if orientation > 1 else ()
    return encode_samples(Png(PngHeader(columns, rows, 8, color, False), kept, b"", b"", ()), samples)


def _darkest(png: Png, used: set[int]) -> int:
    alphas = dict(png.kept).get(b"tRNS", b"").ljust(256, b"\xff")
    return min(used, key=lambda entry: (-alphas[entry], sum(png.palette[3 * entry : 3 * entry + 3]), entry))
