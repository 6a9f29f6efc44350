"""The picture of the whole glass (macro): the part that the policy names stays, all else is one value.

It is decoded, blanked and encoded anew, so that no byte of the scanner's own picture is in the release.
Nothing here knows where the label is: the policy does.
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

    Colours = NDArray[np.uint8]
    """Rows x columns x red, green, blue."""

Area = tuple[int, int, int, int]
"""Left, top, right, bottom: half-open pixel bounds."""

_ORIENTATION, _SUBSAMPLING = 274, 530
_CHANNELS, _RGB, _YCC = 3, 2, 6
_READABLE = frozenset([NONE, LZW, JPEG, DEFLATE, DEFLATE_OLD])
_MOST_PIXELS, _MOST_BYTES = 1 << 24, 1 << 26
_CELL = 8
"""Side of a block of JPEG: what is blanked in whole blocks decodes to exactly one value."""
_QUALITY = 90
_READINGS = 4
_BLACK = (64, 64)
KEPT, _LEFT_OUT = "C:slide-macro", "X:slide-macro"
TEXT = "C:burned-in-text"
"""Counted once an area of text that was blanked."""


@dataclass(frozen=True, slots=True, repr=False)
class MacroImage:
    """A picture made anew: a JPEG of its own, its size in pixels."""

    data: bytes
    width: int
    height: int

    @property
    def digest(self) -> str:
        """SHA-256 of the JPEG, in hexadecimal: the audit lets no other picture pass."""
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
    """The macro as the policy keeps it; None where it is to go, or is not what it should be.

    Parameters
    ----------
    tiff : Tiff
    sources : sequence of Directory or bytes
        What the file holds for its macro: directories, or JPEG files. Of several, none is taken.
    rules : WholeSlides
        The policy's section.
    levels : sequence of (int, int)
        Width and height of the levels; no macro has more pixels than the largest.
    counts : dict
        ``C:slide-macro`` is counted here, and ``C:burned-in-text`` an area of text; or ``X:slide-macro``
        where the policy keeps a macro, and that of the slide cannot be.
    fits : bool
        Whether readers of the file would take another page for what it is.

    Raises
    ------
    Refused
        ``burned-in-text-remains``: text can be read in it even after it was blanked.
    """
    if rules.macro == "drop" or not sources:
        return None
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
    """A black picture in place of a macro without which viewers do not open the slide."""
    import numpy as np

    picture = np.zeros((*_BLACK, _CHANNELS), np.uint8)
    return MacroImage(_encoded(picture, np.zeros(_BLACK, bool)), *_BLACK)


def macro_page(dialect: Dialect, macro: MacroImage, also: dict[int, FieldValue]) -> OutputPage:
    """A page in one JPEG strip.

    Parameters
    ----------
    dialect : Dialect
        The file's byte order and kind.
    macro : Macro
    also : dict
        Values by which the vendor's readers take the page for the macro.
    """
    shorts = {BITS: [8, 8, 8], SAMPLES: [_CHANNELS], _SUBSAMPLING: [1, 1]}
    shorts |= {COMPRESSION: [JPEG], PHOTOMETRIC: [_YCC], PLANAR: [1]}
    longs = {WIDTH: [macro.width], LENGTH: [macro.height], ROWS_PER_STRIP: [macro.height]}
    values = {tag: integer_values(dialect, 3, given) for tag, given in shorts.items()}
    values |= {tag: integer_values(dialect, 4, given) for tag, given in longs.items()}
    return OutputPage(values | also, [(macro.data,)], tiled=False)


# -- reading ------------------------------------------------------------------------------


def _decoded(tiff: PyramidTiff, source: Directory | bytes, most: int) -> Colours | None:
    """The picture's colours; None where it is too large, of an unexpected form or cannot be decoded."""
    try:
        if isinstance(source, bytes):
            parse_jpeg_header(source)
            return _colours(source, "JPEG", most)
        return _colours(_alone(tiff, source), "TIFF", most)
    except Quarantined:
        return None


def _alone(tiff: PyramidTiff, directory: Directory) -> bytes:
    """A TIFF of that page alone, with nothing but what decoding needs; nothing for an unexpected page."""
    shape = read_shape(tiff, directory)
    bits = [int(one) for one in tiff.numbers(directory, BITS)]
    samples, photometric = tiff.number(directory, SAMPLES, 1), tiff.number(directory, PHOTOMETRIC, 0)
    plain = (tiff.number(directory, PLANAR, 1), tiff.number(directory, _ORIENTATION, 1)) == (1, 1)
    forms = {1: (1,), _CHANNELS: (_RGB, _YCC) if shape.compression == JPEG else (_RGB,)}
    if (
        not plain
        or shape.compression not in _READABLE
        or set(bits) != {8}
        or photometric not in forms.get(samples or 0, ())
        or shape.width * shape.height > _MOST_PIXELS
    ):
        return b""
    page = copy_page(tiff, directory, TileCleaner(tiff.data))
    segments = [tuple(_bytes(tiff.data, piece) for piece in segment) for segment in page.segments]
    if sum(len(piece) for segment in segments for piece in segment) > _MOST_BYTES:
        return b""
    whole = OutputPage(page.values, [*segments], page.tiled)
    pieces = write_tiff(replace(tiff.dialect, kind="classic"), [whole])
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


def _bytes(data: Buffer, piece: bytes | Copy) -> bytes:
    if isinstance(piece, bytes):
        return piece
    return bytes(data[piece.offset : piece.offset + min(piece.length, _MOST_BYTES + 1)])


def _colours(data: bytes, form: str, most: int = _MOST_PIXELS) -> Colours | None:
    """What a decoder shows; None where that is nothing, or of more than ``most`` pixels."""
    import numpy as np
    from PIL import Image

    try:
        with Image.open(BytesIO(data), formats=(form,)) as image:
            if image.mode not in ("L", "RGB") or image.width * image.height > most:
                return None
            return np.array(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, LookupError, TypeError, Image.DecompressionBombError):
        return None


# -- writing ------------------------------------------------------------------------------


def _area(shape: tuple[int, ...], part: KeptMacro) -> Area | None:
    """The part in whole blocks, none of which reaches out of it; None where there is no such block."""
    rows, columns = shape[:2]
    left, top = (_begin(share, side) for share, side in zip(part.keep[:2], (columns, rows), strict=True))
    right, bottom = (_end(share, side) for share, side in zip(part.keep[2:], (columns, rows), strict=True))
    return (left, top, right, bottom) if left < right and top < bottom else None


def _begin(share: float, side: int) -> int:
    return ceil(share * side / _CELL) * _CELL


def _end(share: float, side: int) -> int:
    return side if share == 1 else floor(share * side / _CELL) * _CELL


def _without_text(picture: Colours, kept: Area) -> tuple[bytes, int]:
    """The kept part as a JPEG, and the number of areas in it that were blanked: none of it can be read."""
    import numpy as np
    from medsanitize.sanitize.formats.dicom.image_pixel import snap_area
    from medsanitize.sanitize.wsi.macro_ocr import text_areas

    mask = np.zeros(picture.shape[:2], bool)
    mask[kept[1] : kept[3], kept[0] : kept[2]] = True
    blanked: list[Area] = []
    for _ in range(_READINGS):
        data = _encoded(picture, mask)
        found = text_areas(_shown(data, mask), kept, blanked)
        if not found:
            return data, len(blanked)
        for area in found:
            left, top, right, bottom = snap_area(area, picture.shape[:2], _CELL, _CELL)
            mask[top:bottom, left:right] = False
        blanked += found
    raise Quarantined("burned-in-text-remains", "pixels")


def _encoded(picture: Colours, mask: NDArray[np.bool_]) -> bytes:
    """A JPEG of what the mask keeps, black elsewhere; full colour resolution, so that blocks stand alone."""
    import numpy as np
    from PIL import Image

    out = BytesIO()
    kept = np.where(mask[:, :, None], picture, np.uint8(0))
    Image.fromarray(kept).save(out, "JPEG", quality=_QUALITY, subsampling=0)
    return out.getvalue()


def _shown(data: bytes, mask: NDArray[np.bool_]) -> Colours:
    """What a viewer will see of a JPEG, which must be black where the mask keeps nothing."""
    shown = _colours(data, "JPEG")
    if shown is None or shown.shape[:2] != mask.shape or shown[~mask].any():
        raise Quarantined("pixels-not-rewritten", "pixels")
    return shown
