"""Macro images (overview of the whole glass slide): the region that the policy keeps, everything else black.

The image is decoded, blanked and re-encoded, so the release contains no byte of the scanner's encoding.
The policy, not this module, decides where the label is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from math import ceil, floor
from typing import TYPE_CHECKING

from medsanitize.policies.model import KeptMacro, WholeSlides
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.tiff.page import FieldValue, OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import COMPRESSION, LENGTH, PHOTOMETRIC, WIDTH, PyramidTiff
from medsanitize.sanitize.formats.tiff.writer import integer_values, write_tiff
from medsanitize.sanitize.formats.tiff_directory import Dialect, Directory
from medsanitize.sanitize.pieces import Copy
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.tiff_pages import BITS, PLANAR, ROWS_PER_STRIP, SAMPLES, copy_page, read_shape
from medsanitize.sanitize.wsi.tiles import (
    DEFLATE,
    DEFLATE_OLD,
    JPEG,
    LZW,
    NONE,
    TileCleaner,
    parse_jpeg_header,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Colors = NDArray[np.uint8]
    """Rows x columns x red, green, blue."""

Area = tuple[int, int, int, int]
"""Left, top, right, bottom: half-open pixel bounds."""

_ORIENTATION, _SUBSAMPLING = 274, 530
_CHANNELS, _RGB, _YCC = 3, 2, 6
_READABLE_COMPRESSIONS = frozenset([NONE, LZW, JPEG, DEFLATE, DEFLATE_OLD])
_MOST_PIXELS, _MOST_BYTES = 1 << 24, 1 << 26
# Side of a JPEG block: only areas blanked in whole blocks decode to exactly one value, without ringing.
_CELL = 8
_QUALITY = 90
_MAX_PASSES = 4
_BLACK = (64, 64)
KEPT, _LEFT_OUT = "C:slide-macro", "X:slide-macro"
TEXT = "C:burned-in-text"
"""Rule counted once per area of text that was blanked."""


@dataclass(frozen=True, slots=True, repr=False)
class MacroImage:
    """Re-encoded macro image: a JPEG file and its size in pixels."""

    data: bytes
    width: int
    height: int

    @property
    def digest(self) -> str:
        """SHA-256 of the JPEG, in hexadecimal; the audit accepts no other macro image."""
        return sha256(self.data).hexdigest()


def keep_macro(
    tiff: PyramidTiff,
    sources: Sequence[Directory | bytes],
    rules: WholeSlides,
    levels: Sequence[tuple[int, int]],
    counts: dict[str, int],
    *,
    fits: bool = True,
) -> MacroImage | None:
    """Prepare the macro image that the policy keeps.

    Parameters
    ----------
    tiff : PyramidTiff
    sources : sequence of Directory or bytes
        Macro images of the source: directories, or JPEG files. If there are several, none is kept.
    rules : WholeSlides
        The policy's section ``wsi``.
    levels : sequence of (int, int)
        Width and height of the levels, in pixels; a macro with more pixels than the largest is not kept.
    counts : dict
        Rule counts, updated in place: ``C:slide-macro`` and ``C:burned-in-text`` (once per area of text),
        or ``X:slide-macro`` if the policy keeps a macro and that of the slide cannot be kept.
    fits : bool
        Whether readers of the format will recognize the page as a macro; if False, it is not kept.

    Returns
    -------
    MacroImage or None
        None if the policy drops the macro, the slide has none or it cannot be kept.

    Raises
    ------
    Quarantined
        ``burned-in-text-remains`` if text is still found after repeated blanking;
        ``pixels-not-rewritten`` if a blanked area does not decode to one color.
    """
    if rules.macro == "drop" or not sources:
        return None
    # An "overview" larger than the slide itself is tissue under a wrong name, or a decompression bomb.
    most = min(_MOST_PIXELS, max(width * height for width, height in levels))
    picture = _decoded(tiff, sources[0], most) if fits and len(sources) == 1 else None
    area = _area(picture.shape, rules.macro) if picture is not None else None
    if picture is None or area is None:
        counts[_LEFT_OUT] = 1
        return None
    data, regions = _without_text(picture, area)
    counts[KEPT] = 1
    if regions:
        counts[TEXT] = regions
    return MacroImage(data, picture.shape[1], picture.shape[0])


def blank_macro() -> MacroImage:
    """Create a black macro image, for slides that viewers do not open without one."""
    import numpy as np

    picture = np.zeros((*_BLACK, _CHANNELS), np.uint8)
    return MacroImage(_encoded(picture, np.zeros(_BLACK, bool)), *_BLACK)


def macro_page(dialect: Dialect, macro: MacroImage, also: dict[int, FieldValue]) -> OutputPage:
    """Create a TIFF page that holds the macro image in one JPEG strip.

    Parameters
    ----------
    dialect : Dialect
        Byte order and TIFF variant of the file.
    macro : MacroImage
    also : dict of int to FieldValue
        Tags by which readers of the format recognize the macro.

    Returns
    -------
    OutputPage
    """
    # Without YCbCrSubSampling, readers assume 2 x 2 (TIFF 6.0 section 21), but there is no subsampling.
    shorts = {BITS: [8, 8, 8], SAMPLES: [_CHANNELS], _SUBSAMPLING: [1, 1]}
    shorts |= {COMPRESSION: [JPEG], PHOTOMETRIC: [_YCC], PLANAR: [1]}
    longs = {WIDTH: [macro.width], LENGTH: [macro.height], ROWS_PER_STRIP: [macro.height]}
    values = {tag: integer_values(dialect, 3, given) for tag, given in shorts.items()}
    values |= {tag: integer_values(dialect, 4, given) for tag, given in longs.items()}
    return OutputPage(values | also, [(macro.data,)], tiled=False)


# -- reading ------------------------------------------------------------------------------


def _decoded(tiff: PyramidTiff, source: Directory | bytes, most: int) -> Colors | None:
    """Decode an image to RGB; None if it is too large, of an unexpected form or not decodable."""
    try:
        if isinstance(source, bytes):
            parse_jpeg_header(source)
            return _colors(source, "JPEG", most)
        return _colors(_single_page_tiff(tiff, source), "TIFF", most)
    except Quarantined:
        return None


def _single_page_tiff(tiff: PyramidTiff, directory: Directory) -> bytes:
    """Return a TIFF of only that page with the tags that decoding needs; empty for an unexpected page."""
    shape = read_shape(tiff, directory)
    bits = [int(one) for one in tiff.numbers(directory, BITS)]
    samples, photometric = tiff.number(directory, SAMPLES, 1), tiff.number(directory, PHOTOMETRIC, 0)
    plain = (tiff.number(directory, PLANAR, 1), tiff.number(directory, _ORIENTATION, 1)) == (1, 1)
    forms = {1: (1,), _CHANNELS: (_RGB, _YCC) if shape.compression == JPEG else (_RGB,)}
    if (
        not plain
        or shape.compression not in _READABLE_COMPRESSIONS
        or set(bits) != {8}
        or photometric not in forms.get(samples or 0, ())
        # Before anything is decoded: the header alone decides how much memory the decoder takes.
        or shape.width * shape.height > _MOST_PIXELS
    ):
        return b""
    page = copy_page(tiff, directory, TileCleaner(tiff.data))
    segments = [tuple(_bytes(tiff.data, piece) for piece in segment) for segment in page.segments]
    if sum(len(piece) for segment in segments for piece in segment) > _MOST_BYTES:
        return b""
    whole = OutputPage(page.values, [*segments], page.tiled)
    # Pillow does not read the NDPI variant; one page always fits the 4 GiB of a classic TIFF.
    pieces = write_tiff(replace(tiff.dialect, kind="classic"), [whole])
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


def _bytes(data: Buffer, piece: bytes | Copy) -> bytes:
    if isinstance(piece, bytes):
        return piece
    return bytes(data[piece.offset : piece.offset + min(piece.length, _MOST_BYTES + 1)])


def _colors(data: bytes, form: str, most: int = _MOST_PIXELS) -> Colors | None:
    """Decode an image file to RGB; None if that fails or it has more than ``most`` pixels."""
    import numpy as np
    from PIL import Image

    try:
        with Image.open(BytesIO(data), formats=(form,)) as image:
            if image.mode not in ("L", "RGB") or image.width * image.height > most:
                return None
            return np.array(image.convert("RGB"))
    # What Pillow raises for damaged files: a macro that cannot be decoded is left out, not an error.
    except (OSError, SyntaxError, ValueError, LookupError, TypeError, Image.DecompressionBombError):
        return None


# -- writing ------------------------------------------------------------------------------


def _area(shape: tuple[int, ...], part: KeptMacro) -> Area | None:
    """Return the kept region, rounded inward to whole JPEG blocks; None if no block fits."""
    rows, columns = shape[:2]
    left, top = (_begin(share, side) for share, side in zip(part.keep[:2], (columns, rows), strict=True))
    right, bottom = (_end(share, side) for share, side in zip(part.keep[2:], (columns, rows), strict=True))
    return (left, top, right, bottom) if left < right and top < bottom else None


def _begin(share: float, side: int) -> int:
    return ceil(share * side / _CELL) * _CELL


def _end(share: float, side: int) -> int:
    # The last block of an image may be partial; rounding down would cut an edge that the policy keeps.
    return side if share == 1 else floor(share * side / _CELL) * _CELL


def _without_text(picture: Colors, kept: Area) -> tuple[bytes, int]:
    """Return the kept region as a JPEG without legible text, and the number of areas that were blanked."""
    from medsanitize.sanitize.formats.dicom.image_pixel import snap_area
    from medsanitize.sanitize.formats.ground import fill_with_ground, mask_of, tolerance_of
    from medsanitize.sanitize.wsi.macro_ocr import text_areas

    mask = mask_of([kept], picture.shape)
    regions = 0
    cells: list[Area] = []
    # Text is searched in what was encoded, until none is found: lossy coding and blanking change the result.
    for _ in range(_MAX_PASSES):
        # The label outside the kept region must not decide the value of a blanked area.
        filled = fill_with_ground(
            picture, cells, 0, tolerance=tolerance_of(8, indexed=False), withheld=~mask, split=False
        )
        data = _encoded(filled, mask)
        found = text_areas(_shown(data, mask, cells), kept, cells)
        if not found:
            return data, regions
        cells += [_common(snap_area(area, picture.shape[:2], _CELL, _CELL), kept) for area in found]
        regions += len(found)
    raise Quarantined("burned-in-text-remains", "pixels")


def _common(one: Area, other: Area) -> Area:
    """Return what two areas share."""
    return max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])


def _encoded(picture: Colors, mask: NDArray[np.bool_]) -> bytes:
    """Return a JPEG of what the mask keeps, black elsewhere."""
    import numpy as np
    from PIL import Image

    out = BytesIO()
    kept = np.where(mask[:, :, None], picture, np.uint8(0))
    # No chroma subsampling: its blocks cover 16 x 16 pixels, and color would leak into blanked neighbors.
    Image.fromarray(kept).save(out, "JPEG", quality=_QUALITY, subsampling=0)
    return out.getvalue()


def _shown(data: bytes, mask: NDArray[np.bool_], blanked: Sequence[Area]) -> Colors:
    """Decode a JPEG as a viewer will; require that it is black outside the mask and flat in blanked areas."""
    from medsanitize.sanitize.formats.ground import is_uniform

    shown = _colors(data, "JPEG")
    if shown is None or shown.shape[:2] != mask.shape or shown[~mask].any() or not is_uniform(shown, blanked):
        raise Quarantined("pixels-not-rewritten", "pixels")
    return shown
