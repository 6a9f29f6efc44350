"""Samples of TIFF pages: decodes strips, and encodes changed samples without loss."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from medsanitize.sanitize.formats.dicom.image_pixel import Area
from medsanitize.sanitize.formats.ground import fill_with_ground, tolerance_of
from medsanitize.sanitize.formats.png.png_samples import pack_bits, unpack_bits
from medsanitize.sanitize.formats.tiff.strips import decode_strip
from medsanitize.sanitize.formats.tiff.tiff_file import DEFLATE, JPEG, NONE, ImagePage, TiffImage

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STRIP_BYTES = 1 << 16
# Photometric Interpretation of images whose samples are indices of a palette.
_PALETTE = 3


def decode_page(tiff: TiffImage, page: ImagePage) -> NDArray[Any]:
    """Decode the samples of a page as stored; JPEG is decoded to the page's color model.

    Returns
    -------
    ndarray, shape (rows, columns, channels)
        For images with a palette, its indices.
    """
    import numpy as np

    if page.compression == JPEG:
        return _decode_jpeg(tiff, page)
    heights = page.strip_rows()
    inner = page.channels // page.planes
    planes = []
    for plane in range(page.planes):
        strips = page.strips[plane * len(heights) : (plane + 1) * len(heights)]
        raw = b"".join(
            decode_strip(strip, page.compression, rows * page.row_bytes)
            for strip, rows in zip(strips, heights, strict=True)
        )
        planes.append(_samples(tiff, page, raw, inner))
    return planes[0] if len(planes) == 1 else np.concatenate(planes, axis=2)


def _samples(tiff: TiffImage, page: ImagePage, raw: bytes, channels: int) -> NDArray[Any]:
    import numpy as np

    table = np.frombuffer(raw, np.uint8).reshape(page.rows, page.row_bytes)
    if page.bits < 8:
        return unpack_bits(table, page.bits)[:, : page.columns, None]
    kind = {1: "u", 2: "i", 3: "f"}[page.format]
    samples = table.view(f"{tiff.order}{kind}{page.bits // 8}").reshape(page.rows, page.columns, channels)
    samples = samples.astype(samples.dtype.newbyteorder("="))
    # Predictor 2 stores differences to the left pixel, modulo the sample size (TIFF 6.0 section 14).
    if page.predictor == 2:
        whole = samples.view(f"u{page.bits // 8}")
        samples = np.cumsum(whole, axis=1, dtype=whole.dtype).view(samples.dtype)
    return samples


def _decode_jpeg(tiff: TiffImage, page: ImagePage) -> NDArray[Any]:
    from io import BytesIO

    import numpy as np
    from PIL import Image

    # A file of this page only: the decoder needs the tags that define its colors, but must not rotate it.
    alone = TiffImage(tiff.order, (replace(page, orientation=1),), ()).write()
    with Image.open(BytesIO(alone)) as image:
        decoded: NDArray[Any] = np.array(image)
    return decoded.reshape(page.rows, page.columns, -1)


def encode_page(tiff: TiffImage, page: ImagePage, samples: NDArray[Any]) -> ImagePage:
    """Return the page with other samples; compressed pages are written with Deflate.

    Parameters
    ----------
    tiff : TiffImage
        The file, for its byte order.
    page : ImagePage
        The page to replace.
    samples : ndarray, shape (rows, columns, channels)
        Native byte order.
    """
    photometric = page.photometric
    # The decoder has converted YCbCr to RGB.
    if page.compression == JPEG and photometric == 6:
        photometric = 2
    # Strips of about 64 KiB, so that viewers can read parts of a large page.
    rows_per_strip = max(1, min(page.rows, _STRIP_BYTES // max(1, page.row_bytes * page.planes)))
    made = replace(
        page,
        photometric=photometric,
        channels=samples.shape[2],
        planar=1,
        predictor=1,
        rows_per_strip=rows_per_strip,
        tables=b"",
        subsampling=(),
        colorimetry=((), ()),
        compression=NONE if page.compression == NONE else DEFLATE,
    )
    strips = []
    for top in range(0, page.rows, rows_per_strip):
        part = samples[top : top + rows_per_strip]
        if page.bits < 8:
            raw = pack_bits(part[:, :, 0], page.bits).tobytes()
        else:
            raw = part.astype(part.dtype.newbyteorder(tiff.order)).tobytes()
        strips.append(raw if made.compression == NONE else zlib.compress(raw, 6))
    return replace(made, strips=tuple(strips))


def clear_unused_tiff(tiff: TiffImage) -> TiffImage:
    """Clear content that viewers do not show: unused palette entries and padding bits of rows."""
    pages, rules = [], list(tiff.rules)
    for page in tiff.pages:
        cleared = _clear(tiff, page)
        if cleared is not page:
            rules.append("X:unused-colors" if cleared.colors != page.colors else "X:fill-bits")
        pages.append(cleared)
    return replace(tiff, pages=tuple(pages), rules=tuple(rules))


def _clear(tiff: TiffImage, page: ImagePage) -> ImagePage:
    import numpy as np

    filled = page.bits < 8 and page.columns * page.bits % 8
    if page.compression == JPEG or not (filled or page.photometric == 3):
        return page
    samples = decode_page(tiff, page)
    if page.photometric == _PALETTE:
        size = 2**page.bits
        used = np.bincount(samples.ravel(), minlength=size) > 0
        colors = np.array(page.colors).reshape(3, size) * used
        if colors.ravel().tolist() != list(page.colors):
            page = replace(page, colors=tuple(colors.ravel().tolist()))
    if filled:
        clean = pack_bits(samples[:, :, 0], page.bits).tobytes()
        rows = page.strip_rows()
        raw = b"".join(
            decode_strip(strip, page.compression, count * page.row_bytes)
            for strip, count in zip(page.strips, rows, strict=True)
        )
        if clean != raw:
            page = encode_page(tiff, page, samples)
    return page


def page_colors(tiff: TiffImage, page: ImagePage) -> NDArray[Any]:
    """Return the samples with palette colors resolved, and white as the highest value.

    Returns
    -------
    ndarray, shape (rows, columns, channels)
    """
    import numpy as np

    samples = decode_page(tiff, page)
    if page.photometric == _PALETTE:
        palette = np.array(page.colors, np.uint16).reshape(3, -1).T
        resolved: NDArray[Any] = palette[samples[:, :, 0]]
        return resolved
    if page.photometric == 0 and samples.dtype.kind == "u":
        highest = 2**page.bits - 1
        inverted: NDArray[Any] = (highest - samples).astype(samples.dtype)
        return inverted
    return samples


def blank_pages(tiff: TiffImage, areas: Mapping[int, Sequence[Area]]) -> TiffImage:
    """Blank areas with the ground around them, in every channel; with zeros where it is not flat.

    JPEG pages are stored as decoded, without further loss.

    Parameters
    ----------
    tiff : TiffImage
        The file.
    areas : mapping of int to sequence of Area
        Page number -> areas to blank.
    """
    pages = list(tiff.pages)
    for number, mine in areas.items():
        page = pages[number]
        tolerance = tolerance_of(page.bits, indexed=page.photometric == _PALETTE)
        pages[number] = encode_page(
            tiff, page, fill_with_ground(decode_page(tiff, page), mine, 0, tolerance=tolerance)
        )
    return clear_unused_tiff(replace(tiff, pages=tuple(pages)))
