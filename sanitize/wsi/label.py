"""A label made anew: a picture that shows what the release calls the slide, and nothing else."""

from __future__ import annotations

from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values
from medsanitize.sanitize.formats.tiff_directory import Dialect

_LINE = 11
"""Characters a line, so that a UID of 44 makes four lines."""
_MARGIN, _SPACING, _SCALE = 4, 3, 3


def label_page(dialect: Dialect, instance: str, described: str) -> OutputPage:
    """A page in one strip of uncompressed RGB that shows the slide's name, marked as a label.

    Parameters
    ----------
    dialect : Dialect
        The file's byte order and kind.
    instance : str
        What the release calls the slide: printable ASCII.
    described : str
        ImageDescription by which the vendor's readers take the page for a label.
    """
    width, height, pixels = _drawn(instance)
    shorts = {254: [1], 258: [8, 8, 8], 259: [1], 262: [2], 277: [3], 284: [1]}
    longs = {256: [width], 257: [height], 278: [height]}
    values = {tag: integer_values(dialect, 3, given) for tag, given in shorts.items()}
    values |= {tag: integer_values(dialect, 4, given) for tag, given in longs.items()}
    return OutputPage(values | {DESCRIPTION: ascii_value(described)}, [(pixels,)], tiled=False)


def label_size(instance: str) -> tuple[int, int]:
    """Width and height in pixels of the picture of a name."""
    return _drawn(instance)[:2]


def _drawn(instance: str) -> tuple[int, int, bytes]:
    """Width, height and RGB samples: black letters of Pillow's own bitmap font, enlarged, on white."""
    from PIL import Image, ImageDraw, ImageFont

    lines = "\n".join(instance[at : at + _LINE] for at in range(0, len(instance), _LINE))
    font = ImageFont.load_default_imagefont()
    box = ImageDraw.Draw(Image.new("L", (1, 1))).multiline_textbbox((0, 0), lines, font, spacing=_SPACING)
    small = Image.new("L", (int(box[2]) + 2 * _MARGIN, int(box[3]) + 2 * _MARGIN), 255)
    ImageDraw.Draw(small).multiline_text((_MARGIN, _MARGIN), lines, 0, font, spacing=_SPACING)
    shown = small.resize((small.width * _SCALE, small.height * _SCALE), Image.Resampling.NEAREST)
    return shown.width, shown.height, shown.convert("RGB").tobytes()
