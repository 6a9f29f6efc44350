"""A slide for the demo export: a small Aperio SVS with thumbnail, label and macro."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from medsanitize.pipeline.demo.images import scan
from medsanitize.pipeline.demo.pictures import Planted
from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values, write_tiff
from medsanitize.sanitize.formats.tiff_directory import Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CLASSIC: Final = Dialect("<", "classic")
_TILE: Final = 128
_LABEL, _MACRO = 1, 9
"""Values of NewSubfileType for the pictures other than tissue."""


def slide(name: str, number: str, user: str) -> tuple[bytes, Planted]:
    """Create an SVS of two levels, with identifiers in description, tiles and label."""
    host, when = "AHGH-SCANSCOPE-2", "07/11/23"
    said = (
        "Aperio Image Library v12.0.15\r\n512x512 (128x128) JPEG/RGB Q=85|AppMag = 20|MPP = 0.5"
        f"|ScanScope ID = {host}|Filename = {number}|Title = {name}|User = {user}|Date = {when}"
    )
    tissue = _tissue()
    pages = [
        _page(tissue, said, number),
        _page(tissue[::4, ::4].copy(), said, number, tiled=False),
        _page(tissue[::2, ::2].copy(), said, number),
        _page(
            _label(f"{name} {number}"), "Aperio Image Library\r\nlabel", number, tiled=False, subfile=_LABEL
        ),
        _page(tissue[:160, ::2].copy(), "Aperio Image Library\r\nmacro", number, tiled=False, subfile=_MACRO),
    ]
    data = b"".join(piece for piece in write_tiff(_CLASSIC, pages) if isinstance(piece, bytes))
    planted = [("(270)", value) for value in (host, number, name, user, when)]
    return data, [*planted, ("tiles", number), ("pixels", f"{name} {number}")]


def _tissue() -> NDArray[Any]:
    """Return a tissue-like picture of 512 x 512 pixels."""
    import numpy as np

    rings = scan(512, 512).astype(int)
    channels = [235 - rings // 5, 190 - rings // 2, 215 - rings // 4]
    return np.stack(channels, axis=2).clip(0, 255).astype(np.uint8)


def _label(burned: str) -> NDArray[Any]:
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (360, 120), (250, 250, 245))
    ImageDraw.Draw(image).text((10, 45), burned, font=ImageFont.load_default(18), fill=(20, 20, 20))
    return np.asarray(image)


def _page(
    picture: NDArray[Any], said: str, comment: str, *, tiled: bool = True, subfile: int = 0
) -> OutputPage:
    high, wide = picture.shape[:2]
    shorts = {254: subfile, 259: 7, 262: 6, 277: 3, 284: 1}
    longs = {256: wide, 257: high} | ({322: _TILE, 323: _TILE} if tiled else {278: high})
    values = {tag: integer_values(_CLASSIC, 3, [value]) for tag, value in shorts.items()}
    values |= {tag: integer_values(_CLASSIC, 4, [value]) for tag, value in longs.items()}
    values |= {
        258: integer_values(_CLASSIC, 3, [8, 8, 8]),
        530: integer_values(_CLASSIC, 3, [1, 1]),
        270: ascii_value(said),
    }
    cut = [picture]
    if tiled:
        places = [(y, x) for y in range(0, high, _TILE) for x in range(0, wide, _TILE)]
        cut = [picture[y : y + _TILE, x : x + _TILE] for y, x in places]
    return OutputPage(values, [(_jpeg(one, comment),) for one in cut], tiled)


def _jpeg(picture: NDArray[Any], comment: str) -> bytes:
    from PIL import Image

    stream = BytesIO()
    Image.fromarray(picture).save(stream, "JPEG", quality=85, subsampling=0, comment=comment.encode())
    return stream.getvalue()
