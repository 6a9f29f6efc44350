"""Replacement label: an image that shows the pseudonym of the slide and nothing else."""

from __future__ import annotations

from medsanitize.sanitize.formats.tiff.page import OutputPage
from medsanitize.sanitize.formats.tiff.pyramid import DESCRIPTION
from medsanitize.sanitize.formats.tiff.writer import ascii_value, integer_values
from medsanitize.sanitize.formats.tiff_directory import Dialect

# Characters per line: a UID of 44 characters fills four lines.
_PER_LINE = 11
_MARGIN, _SPACING, _SCALE = 4, 3, 3


def label_page(dialect: Dialect, instance: str, described: str) -> OutputPage:
    """Create a TIFF page, one strip of uncompressed RGB, that shows the slide's pseudonym.

    Parameters
    ----------
    dialect : Dialect
        Byte order and TIFF variant of the file.
    instance : str
        Pseudonym of the slide, in printable ASCII.
    described : str
        ImageDescription by which readers of the format recognize the label.

    Returns
    -------
    OutputPage
    """
    width, height, pixels = _drawn(instance)
    shorts = {254: [1], 258: [8, 8, 8], 259: [1], 262: [2], 277: [3], 284: [1]}
    longs = {256: [width], 257: [height], 278: [height]}
    values = {tag: integer_values(dialect, 3, given) for tag, given in shorts.items()}
    values |= {tag: integer_values(dialect, 4, given) for tag, given in longs.items()}
    return OutputPage(values | {DESCRIPTION: ascii_value(described)}, [(pixels,)], tiled=False)


def label_size(instance: str) -> tuple[int, int]:
    """Return width and height, in pixels, of the label image for a pseudonym."""
    return _drawn(instance)[:2]


def _drawn(instance: str) -> tuple[int, int, bytes]:
    """Return width, height and RGB samples of the pseudonym in black on white."""
    from PIL import Image, ImageDraw, ImageFont

    lines = "\n".join(instance[at : at + _PER_LINE] for at in range(0, len(instance), _PER_LINE))
    # Pillow's built-in bitmap font: the bytes must not depend on the fonts of the machine.
    font = ImageFont.load_default_imagefont()
    box = ImageDraw.Draw(Image.new("L", (1, 1))).multiline_textbbox((0, 0), lines, font, spacing=_SPACING)
    small = Image.new("L", (int(box[2]) + 2 * _MARGIN, int(box[3]) + 2 * _MARGIN), 255)
    ImageDraw.Draw(small).multiline_text((_MARGIN, _MARGIN), lines, 0, font, spacing=_SPACING)
    shown = small.resize((small.width * _SCALE, small.height * _SCALE), Image.Resampling.NEAREST)
    return shown.width, shown.height, shown.convert("RGB").tobytes()
