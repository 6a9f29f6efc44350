"""Graphic annotations (PS3.3 C.10.5) that may be handwriting: they are drawn and searched for text.

Lines, points, circles and ellipses are numbers in the header, but a viewer draws them over the image. Letters
that are written with them are found as burned-in text is, and never read: drawings are not acquitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from medsanitize.sanitize.dicom.assemble import raw_value
from medsanitize.sanitize.formats.dicom.elements import read_element_header
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout
from medsanitize.sanitize.quarantine import Quarantined
from numpy.typing import NDArray

GRAPHIC_OBJECTS = 0x00700009
"""Graphic Object Sequence."""
_ANNOTATIONS, _COMPOUND = 0x00700001, 0x00700209
_UNITS, _COMPOUND_UNITS, _DATA, _TYPE, _COMPOUND_TYPE = (
    0x00700005,
    0x00700282,
    0x00700022,
    0x00700023,
    0x00700294,
)
_SEQUENCES = frozenset([_ANNOTATIONS, GRAPHIC_OBJECTS, _COMPOUND])
_ITEM = 8  # bytes of the header of an item
# Fewer points of lines cannot be a word.
_FEWEST = 8
# Sides (pixels) to which letters and the whole drawing are scaled, and the largest of a picture.
_LETTER, _VIEWS, _LARGEST = 24.0, (1024.0, 512.0, 256.0, 128.0), 4096.0
# Points of a closed line, the first twice, and the part of its convex hull from which it is a region.
_CORNERS, _CONVEX = 4, 0.85
# Width of lines and margin (pixels).
_WIDTH, _MARGIN = 2, 48
# Two scales that differ by less show the same.
_SAME_SCALE = 1.3
_INK = 255.0


@dataclass(frozen=True, slots=True)
class Graphic:
    """A graphic object: its units, its type, and its points, shape (points, 2)."""

    units: str
    kind: str
    points: NDArray[np.float64]


def read_graphics(out: list[bytes], layout: Layout) -> tuple[Graphic, ...]:
    """Return the graphic objects of the annotations in rewritten elements.

    Parameters
    ----------
    out : list of bytes
    layout : Layout

    Raises
    ------
    Quarantined
        The rewritten sequences are malformed.
    """
    return tuple(_graphics(raw_value(out, layout, _ANNOTATIONS), layout))


def may_write(graphics: Sequence[Graphic]) -> bool:
    """Return whether graphic objects have enough points to write a word with."""
    return sum(len(one.points) for one in graphics) >= _FEWEST


def shows_text(graphics: Sequence[Graphic]) -> bool:
    """Return whether graphic objects look like text if they are drawn.

    Parameters
    ----------
    graphics : sequence of Graphic
        Of one object; those of the same units are drawn together.
    """
    from medsanitize.sanitize.burned_in.strokes import find_lines
    from medsanitize.sanitize.burned_in.text_map import text_chances

    for units in sorted({one.units for one in graphics}):
        for picture in _pictures([one for one in graphics if one.units == units]):
            if find_lines(picture, text_chances(picture)):
                return True
    return False


def _graphics(value: bytes, layout: Layout) -> Iterator[Graphic]:
    """Graphic objects in the value of a sequence, at any depth."""
    pos = 0
    while pos + _ITEM <= len(value):
        size = layout.length.unpack_from(value, pos + 4)[0]
        item = value[pos + _ITEM : pos + _ITEM + size]
        pos += _ITEM + size
        texts, data, at = {}, b"", 0
        while at < len(item):
            tag, _, length, start = read_element_header(item, at, len(item), layout)
            at = start + length
            if tag in _SEQUENCES:
                yield from _graphics(item[start:at], layout)
            elif tag == _DATA:
                data = item[start:at]
            else:
                texts[tag] = item[start:at].decode("latin-1").strip(" \0")
        numbers = np.frombuffer(data[: len(data) // 8 * 8], ">f4" if layout.big else "<f4")
        if not np.isfinite(numbers).all():
            raise Quarantined("drawn-text", "(0070,0022)")
        units = texts.get(_UNITS) or texts.get(_COMPOUND_UNITS, "")
        kind = texts.get(_TYPE) or texts.get(_COMPOUND_TYPE, "")
        if len(numbers):
            yield Graphic(units, kind, numbers.reshape(-1, 2).astype(np.float64))


def _pictures(graphics: Sequence[Graphic]) -> Iterator[NDArray[np.float32]]:
    """Drawings of graphic objects in several sizes: the width of strokes does not tell that of letters."""
    outlines = [outline for one in graphics if not _is_region(outline := _outline(one))]
    if not outlines:
        return
    every = np.concatenate(outlines)
    least, whole = every.min(axis=0), float(np.ptp(every, axis=0).max())
    if not whole:
        return
    sides = np.array([np.ptp(one, axis=0) for one in outlines])
    # A stroke is as long as a letter is high, or a whole word is one line, which is as high as a letter.
    heights = [
        float(np.median(some[some > 0])) for some in (sides.max(axis=1), sides.min(axis=1)) if some.any()
    ]
    scales = [_LETTER / one for one in heights] + [view / whole for view in _VIEWS]
    drawn: list[float] = []
    for scale in (min(one, _LARGEST / whole) for one in scales):
        if all(max(scale, one) > _SAME_SCALE * min(scale, one) for one in drawn):
            drawn.append(scale)
            yield _drawn([(one - least) * scale + _MARGIN for one in outlines])


def _is_region(outline: NDArray[np.float64]) -> bool:
    """Whether a line is closed and hardly bent inwards: a marked region, not the outline of a letter."""
    import cv2

    if len(outline) < _CORNERS or not np.allclose(outline[0], outline[-1]):
        return False
    line = outline.astype(np.float32)
    return cv2.contourArea(line) >= _CONVEX * cv2.contourArea(cv2.convexHull(line))


def _drawn(outlines: Sequence[NDArray[np.float64]]) -> NDArray[np.float32]:
    import cv2

    columns, rows = (int(side) + _MARGIN for side in np.concatenate(outlines).max(axis=0))
    picture = np.zeros((rows, columns), np.float32)
    for outline in outlines:
        cv2.polylines(picture, [np.rint(outline).astype(np.int32)], False, _INK, _WIDTH)
    return picture


def _outline(graphic: Graphic) -> NDArray[np.float64]:
    """Points of the line that a viewer draws (PS3.3 C.10.5.1.2)."""
    points, line = graphic.points, graphic.points
    turn = np.linspace(0, 2 * np.pi, 33)[:, None]
    if graphic.kind == "CIRCLE" and len(points) == 2:
        radius = float(np.hypot(*(points[1] - points[0])))
        line = points[0] + radius * np.hstack([np.cos(turn), np.sin(turn)])
    if graphic.kind == "ELLIPSE" and len(points) == 4:
        middle = points[:2].mean(axis=0)
        line = middle + np.cos(turn) * (points[1] - middle) + np.sin(turn) * (points[3] - points[2]) / 2
    return line
