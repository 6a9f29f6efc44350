"""Training samples: a ground with lines of text in any script, at any angle, and where the text is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from medsanitize.tools.text_detector.fonts import Font, random_line, sized
from medsanitize.tools.text_detector.grounds import (
    Ground,
    Mask,
    Values,
    draw_distractors,
    part_of_image,
    simulated,
)
from numpy.typing import NDArray
from PIL import Image, ImageDraw

SIDE = 256
"""Side of a sample in pixels."""
CELL = 4
"""Side of the cells (pixels) for which the network predicts text."""
# Sizes of fonts (pixels): of all lines, and those that the network must find at this resolution.
_SIZES, _FOUND = (6, 56), (7, 34)
# Sizes of small letters, and the part of the lines that have them: their few pixels are the hardest to tell.
_SMALL_SIZES, _SMALL = (7, 12), 0.3
# Part of a cell that text covers from which the cell must be found; any part below it is not judged.
_COVERED = 0.25
# Least contrast of ink, in deviations of the fine detail of its ground, and in stored values.
_LEGIBLE, _LEAST = 3.0, 1.0
# Contrast (part of the range of values) below which compression would remove a line.
_FAINT = 0.08
_SHORT = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """Stored values, shape (SIDE, SIDE); cells with text; weights of cells in the loss (0 or 1)."""

    values: Values
    text: NDArray[np.uint8]
    weight: NDArray[np.uint8]


def samples(seed: Sequence[int], images: list[Ground], fonts: list[Font]) -> Iterator[Sample]:
    """Draw an endless sequence of samples."""
    rng = np.random.default_rng(list(seed))
    while True:
        yield _sample(rng, images, fonts)


def _sample(rng: np.random.Generator, images: list[Ground], fonts: list[Font]) -> Sample:
    ground = part_of_image(rng, images, SIDE) if images and rng.random() < 0.7 else simulated(rng, SIDE)
    values = ground.values.copy()
    if rng.random() < 0.45:
        draw_distractors(rng, values)
    if rng.random() < 0.2:
        grain = rng.uniform(0, 0.03) * max(float(np.ptp(values)), 1.0)
        values += rng.normal(0, grain, values.shape).astype(np.float32)
    text, unknown = np.zeros(values.shape, np.float32), ground.unknown.astype(np.float32)
    taken = np.zeros(values.shape, bool)
    lines = int(rng.integers(1, 7)) if rng.random() < 0.75 else 0
    faint = False
    if rng.random() < 0.15:
        faint = _page(rng, fonts, values, text, unknown, taken)
        lines = 0
    for _ in range(lines):
        path, line = random_line(rng, fonts)
        size = int(np.exp(rng.uniform(*np.log(_SMALL_SIZES if rng.random() < _SMALL else _SIZES))))
        faint |= _draw(rng, path, line, size, values, text, unknown, taken)
    return _finished(rng, values, text, unknown, compressed=rng.random() < 0.3 and not faint)


def _page(
    rng: np.random.Generator, fonts: list[Font], values: Values, text: Values, unknown: Values, taken: Mask
) -> bool:
    """Draw lines of one font and size below each other, as on a captured screen; whether one is faint."""
    faint = False
    path, _ = random_line(rng, fonts)
    size = int(np.exp(rng.uniform(np.log(8), np.log(24))))
    fitting = [font for font in fonts if font.path == path]
    left = int(rng.integers(0, SIDE // 2))
    for top in range(int(rng.integers(0, size)), SIDE - size, int(size * rng.uniform(1.05, 1.8))):
        if rng.random() < 0.8:
            try:
                _, line = random_line(rng, fitting)
            except ValueError:  # a font without letters of the script that was drawn
                continue
            faint |= _draw(rng, path, line, size, values, text, unknown, taken, at=(top, left))
    return faint


def _draw(
    rng: np.random.Generator,
    path: str,
    line: str,
    size: int,
    values: Values,
    text: Values,
    unknown: Values,
    taken: Mask,
    at: tuple[int, int] | None = None,
) -> bool:
    """Draw one line where nothing is drawn yet; return whether it is faint."""
    glyphs = _glyphs(rng, path, line, size, straight=at is not None)
    if glyphs is None:
        return False
    height, width = glyphs.shape
    if at is None:
        # Some lines begin or end outside the sample.
        top, left = (int(rng.integers(-side // 3, SIDE - side // 2)) for side in (height, width))
    else:
        top, left = at
    y, x = slice(max(top, 0), min(top + height, SIDE)), slice(max(left, 0), min(left + width, SIDE))
    if y.stop <= y.start or x.stop <= x.start or taken[y, x].any():
        return False
    glyphs = glyphs[y.start - top : y.stop - top, x.start - left : x.stop - left]
    under = values[y, x]
    if not (glyphs > 0.4).any():
        return False
    span = max(float(np.ptp(values)), 8.0)
    detail = float(np.abs(under - cv2.blur(under, (3, 3))).mean()) * 1.9
    contrast = float(np.exp(rng.uniform(np.log(0.03), 0))) * span
    contrast = max(contrast, _LEGIBLE * detail, _LEAST)
    level = float(np.median(under))
    sign = 1 if level < values.mean() else -1
    sign = sign if rng.random() < 0.8 else -sign
    taken[y, x] = True
    strokes = (glyphs > 0.4).astype(np.float32)
    # The line with the gaps between its letters, but not those between words.
    gap = max(3, int(0.35 * size)) | 1
    line_mask = cv2.morphologyEx(
        cv2.copyMakeBorder(strokes, gap, gap, gap, gap, cv2.BORDER_CONSTANT, value=0),
        cv2.MORPH_CLOSE,
        np.ones((gap, gap), np.uint8),
    )[gap:-gap, gap:-gap]
    judged = _FOUND[0] <= size <= _FOUND[1] and sum(map(str.isalnum, line)) >= _SHORT
    target = text if judged else unknown
    target[y, x] = np.maximum(target[y, x], line_mask)
    _ink(rng, glyphs, under, level, sign * contrast)
    return contrast < _FAINT * span


def _ink(rng: np.random.Generator, glyphs: Values, under: Values, level: float, contrast: float) -> None:
    """Put ink on a ground: of one value, translucent, outlined, on a box, or embossed."""
    style = rng.random()
    if style < 0.12:  # on a box of its own value
        under[:] = level
    elif style < 0.24:  # with an outline or shadow of the opposite value
        around = cv2.dilate(glyphs, np.ones((3, 3), np.uint8))
        if rng.random() < 0.5:
            around = np.roll(glyphs, (1, 1), (0, 1))
        under += around * (level - contrast * 0.5 - under)
    if style > 0.9:  # embossed: light from one side
        shadow = np.roll(glyphs, (1, 1), (0, 1))
        under += (glyphs - shadow) * contrast
        return
    if style > 0.75:  # translucent: the ground shows through
        under += glyphs * contrast
        return
    under += glyphs * (level + contrast - under)


def _glyphs(rng: np.random.Generator, path: str, line: str, size: int, *, straight: bool) -> Values | None:
    """Coverage of the pixels by the ink of a line, 0 to 1."""
    plotted = rng.random() < 0.12 and line.isascii()
    layer = _hershey(rng, line, size) if plotted else _rendered(rng, path, line, size)
    if layer is None:
        return None
    if not straight:
        if rng.random() < 0.08:
            layer = _bent(rng, layer, size)
        layer = _turned(rng, layer)
    if rng.random() < 0.15:
        layer = np.asarray(cv2.GaussianBlur(layer, (0, 0), float(rng.uniform(0.3, 0.9))), np.float32)
    return layer


def _rendered(rng: np.random.Generator, path: str, line: str, size: int) -> Values | None:
    font = sized(path, size)
    if font is None:
        return None
    left, top, right, bottom = font.getbbox(line)
    width, height = int(right - left) + 4, int(bottom - top) + 4
    if not (4 < width < 1500 and 4 < height < 300):
        return None
    # Overlays of devices often have no anti-aliasing.
    mode = "1" if rng.random() < 0.4 else "L"
    layer = Image.new(mode, (width, height))
    ImageDraw.Draw(layer).text((2 - left, 2 - top), line, fill=255, font=font)
    return (np.asarray(layer.convert("L")) / np.float32(255)).astype(np.float32)


def _hershey(rng: np.random.Generator, line: str, size: int) -> Values:
    """Letters of strokes, as plotters and many devices draw them."""
    face, scale = int(rng.integers(8)), size / 30
    thick = int(rng.integers(1, 3))
    (width, height), below = cv2.getTextSize(line, face, scale, thick)
    layer = np.zeros((height + below + 6, width + 6), np.uint8)
    kind = (cv2.LINE_8, cv2.LINE_AA)[rng.integers(2)]
    cv2.putText(layer, line, (3, height + 2), face, scale, 255, thick, kind)
    return (layer / np.float32(255)).astype(np.float32)


def _turned(rng: np.random.Generator, layer: Values) -> Values:
    kind = rng.random()
    if kind < 0.5:
        return layer
    if kind < 0.7:
        return np.ascontiguousarray(np.rot90(layer, int(rng.integers(1, 4))))
    image = Image.fromarray((layer * 255).astype(np.uint8))
    method = (Image.Resampling.BICUBIC, Image.Resampling.NEAREST)[int(rng.random() < 0.2)]
    angle = float(rng.uniform(-180, 180)) if kind < 0.9 else float(rng.uniform(-12, 12))
    return (np.asarray(image.rotate(angle, method, expand=True)) / np.float32(255)).astype(np.float32)


def _bent(rng: np.random.Generator, layer: Values, size: int) -> Values:
    """Bend the base line."""
    height, width = layer.shape
    rise = float(rng.uniform(0.2, 1.5)) * size
    pad = int(rise) + 2
    wide = cv2.copyMakeBorder(layer, pad, pad, 0, 0, cv2.BORDER_CONSTANT, value=0)
    y, x = np.mgrid[: height + 2 * pad, :width].astype(np.float32)
    bend = rise * np.sin(np.pi * x / max(width, 1) * float(rng.uniform(0.5, 2.5))).astype(np.float32)
    return np.asarray(cv2.remap(wide, x, y + bend, cv2.INTER_LINEAR), np.float32)


def _finished(
    rng: np.random.Generator, values: Values, text: Values, unknown: Values, *, compressed: bool
) -> Sample:
    """Blur or compress; then divide into cells."""
    span = max(float(np.ptp(values)), 1.0)
    if rng.random() < 0.1:
        values = np.asarray(cv2.GaussianBlur(values, (0, 0), float(rng.uniform(0.3, 0.7))), np.float32)
    if compressed:
        low = float(values.min())
        gray = np.clip((values - low) / span * 255, 0, 255).astype(np.uint8)
        _, code = cv2.imencode(".jpg", gray, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(40, 98))])
        values = np.asarray(cv2.imdecode(code, cv2.IMREAD_GRAYSCALE), np.float32)
    if rng.random() < 0.5:
        values = values.max() - values
    cells = SIDE // CELL
    covered, open_ = (
        cv2.resize(one, (cells, cells), interpolation=cv2.INTER_AREA) for one in (text, unknown)
    )
    found = covered >= _COVERED
    near = cv2.dilate(found.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    weight = found | ~(near | (open_ > 0) | (covered > 0))
    return Sample(np.round(values).astype(np.float32), found.astype(np.uint8), weight.astype(np.uint8))
