"""Bar codes and matrix codes in a rendered frame: those that can be decoded, and what looks like one.

Codes on labels and in captured screens hold the number of a patient, a study or a specimen. A reader that
decodes finds them at any angle, but not when they are damaged, cut off or blurred, so dense patterns of two
flat gray values count as codes as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize.burned_in.areas import covered_fraction, join_overlapping, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.dotted_codes import dotted_codes
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

_SYMBOLOGIES = "QRCode MicroQRCode DataMatrix Aztec PDF417 Code128 Code39 Code93 Codabar ITF EANUPC".split()
_LINEAR = "Code128 Code39 Code93 Codabar ITF EANUPC".split()
# Sides of the window (pixels) in which modules are counted, and of the one that has both gray values.
_WINDOW, _RANGE = 25, 13
# Least difference of the two gray values, and how far (part of it) flat values are from one of them.
_CONTRAST, _FLAT = 40, 0.2
# Of a window with modules: least part of flat pixels, parts of bright ones, least part of pixels at an edge.
_FLATLY, _BALANCED, _EDGES = 0.7, (0.36, 0.68), 0.25
# The same with parallel bars, which text has not: least coherence of the gradient (0 to 1).
_BARS_BALANCED, _BARS_EDGES, _PARALLEL = (0.2, 0.8), 0.12, 0.75
# The same where a code is certain, for regions that merge with what is beside them.
_SURE_EDGES, _SURELY_FLAT = 0.4, 0.9
# Least sides of a pattern (pixels), and the part of the smallest rectangle around it that it fills.
_SHORT, _LONG, _FILLED = 16, 28, 0.6
# Of the pixels of either value in a pattern, least part close to it; least number of bars or modules.
_SAME_VALUE, _PIECES = 0.5, 12
# Patterns of larger modules are found in the reduced frame.
_REDUCED = (1, 2, 4)
# Correlation of two lines of pixels that cross the same bars.
_SAME_BARS = 0.8
# Contrast (gray values) below which no part of a frame is a code.
_LEAST = 24
# Part of a code from which a harmless line covers it.
_TEXT = 0.4


def find_codes(picture: Picture, *, patterns: bool = True) -> tuple[Area, ...]:
    """Return the areas of codes in one rendering of a frame, with a margin.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns)
    patterns : bool
        Whether to find codes by their pattern as well, in addition to those that can be decoded.
    """
    if picture.size == 0 or int(picture.max()) - int(picture.min()) < _LEAST:
        return ()
    found = list(_decoded(picture))
    if patterns:
        found += [area for reduced in _REDUCED for area in _patterns(picture, reduced)]
        found += dotted_codes(picture)
    return merge_areas(_with_margin(area, picture.shape) for area in join_overlapping(found))


def without_letters(
    codes: Sequence[Area], harmless: Sequence[TextBox], pictures: Sequence[Picture]
) -> list[Area]:
    """Leave out letters that look like the modules of a code: they were read, and decode to nothing.

    Parameters
    ----------
    codes : sequence of Area
        As `find_codes` returns them for the renderings of a frame.
    harmless : sequence of TextBox
        Lines that were read with certainty.
    pictures : sequence of arrays of uint8, shape (rows, columns)
        The renderings.
    """
    read = [one for one in codes if any(covered_fraction(one, box.bounds) >= _TEXT for box in harmless)]
    letters = undecoded(read, pictures)
    return [one for one in codes if one not in letters]


def undecoded(codes: Sequence[Area], pictures: Sequence[Picture]) -> list[Area]:
    """Return the codes that decode in no rendering: they may be letters or a test pattern.

    Parameters
    ----------
    codes : sequence of Area
        As `find_codes` returns them for the renderings of a frame.
    pictures : sequence of arrays of uint8, shape (rows, columns)
        The renderings.
    """
    decoded = [area for one in pictures if codes for area in find_codes(one, patterns=False)]
    return [one for one in codes if not any(covered_fraction(one, area) > 0 for area in decoded)]


def _decoded(picture: Picture) -> Iterator[Area]:
    """Areas of codes that can be decoded, at any angle."""
    try:
        import zxingcpp
    except ImportError:
        raise EnvironmentFailure(
            "Bar codes are found with the extra 'pixels'", "Install medsanitize[pixels]"
        ) from None
    every, linear = (
        zxingcpp.BarcodeFormats([getattr(zxingcpp.BarcodeFormat, name) for name in names])
        for names in (_SYMBOLOGIES, _LINEAR)
    )
    rows, columns = picture.shape
    codes = [*zxingcpp.read_barcodes(np.ascontiguousarray(picture), every)]
    # The reader itself inverts for matrix codes only.
    codes += zxingcpp.read_barcodes(255 - picture, linear)
    for code in codes:
        at = code.position
        ends = (at.top_left, at.top_right, at.bottom_right, at.bottom_left)
        corners = _whole_bars(picture, np.array([(end.x, end.y) for end in ends], np.float32))
        left, top = (max(0, int(side)) for side in corners.min(axis=0))
        right, bottom = (int(side) + 1 for side in corners.max(axis=0))
        if min(right, columns) > left and min(bottom, rows) > top:
            yield left, top, min(right, columns), min(bottom, rows)


def _whole_bars(picture: Picture, corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Extend the corners of a code along its bars: linear codes are decoded from a few lines of pixels."""
    import cv2

    first, last = (corners[0] + corners[3]) / 2, (corners[1] + corners[2]) / 2
    length = int(np.hypot(*(last - first)))
    if length < _SHORT:
        return corners
    along = (last - first) / length
    across = np.array([-along[1], along[0]], np.float32)
    reach = np.arange(-length, length + 1, dtype=np.float32)
    points = (
        first + np.arange(length, dtype=np.float32)[:, None] * along + (reach[:, None] * across)[:, None]
    ).astype(np.float32)
    lines = cv2.remap(picture, points[..., 0], points[..., 1], cv2.INTER_LINEAR).astype(np.float32)
    lines -= lines.mean(axis=1, keepdims=True)
    spread = np.sqrt((lines**2).sum(axis=1)) + 1e-3
    other = (lines @ lines[length]) / (spread * spread[length]) < _SAME_BARS
    above, below = np.flatnonzero(other[:length]), np.flatnonzero(other[length + 1 :])
    up = float(length - above[-1]) if above.size else float(length)
    down = float(below[0] + 1) if below.size else float(length)
    bars = [end + shift * across for end in (first, last) for shift in (-up, down)]
    return np.concatenate([corners, np.array(bars, np.float32)])


def _patterns(picture: Picture, reduced: int) -> Iterator[Area]:
    """Areas of dense patterns of two flat gray values in about equal parts."""
    import cv2

    rows, columns = (side // reduced for side in picture.shape)
    if min(rows, columns) < _SHORT or max(rows, columns) < _LONG:
        return
    frame = picture
    if reduced > 1:
        frame = np.asarray(cv2.resize(picture, (columns, rows), interpolation=cv2.INTER_AREA), np.uint8)
    near = np.ones((_RANGE, _RANGE), np.uint8)
    low, high = cv2.erode(frame, near), cv2.dilate(frame, near)
    contrast = cv2.subtract(high, low)
    if not (contrast >= _CONTRAST).any():
        return
    above, below = cv2.subtract(frame, low), cv2.subtract(high, frame)
    closer = cv2.min(above, below)
    strong = contrast >= _CONTRAST
    flat = strong & (closer <= _FLAT * contrast)
    if reduced == 1:
        # The borders of modules may have values between the two.
        flat |= strong & (
            cv2.morphologyEx(frame, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0.6 * contrast
        )
    bright = above > below
    edges = bright[1:, 1:] != bright[:-1, 1:]
    edges |= bright[1:, 1:] != bright[1:, :-1]
    flatly, balance, edge = (_share(one & strong) for one in (flat, bright, np.pad(edges, ((1, 0), (1, 0)))))
    modules = (edge >= _EDGES) & (balance >= _BALANCED[0]) & (balance <= _BALANCED[1])
    bars = (edge >= _BARS_EDGES) & (balance >= _BARS_BALANCED[0]) & (balance <= _BARS_BALANCED[1])
    bars &= flatly >= _FLATLY
    if bars.any():
        bars &= _coherence(frame) >= _PARALLEL
    dense = (modules & (flatly >= _FLATLY)) | bars
    # The edge of an organ beside a code is parallel too: what is dense for certain is looked at by itself.
    sure = dense & (edge >= _SURE_EDGES) & (flatly >= _SURELY_FLAT)
    for outline in (*_outlines(dense), *(_outlines(sure) if (sure != dense).any() else ())):
        _, sides, _ = cv2.minAreaRect(outline)
        if min(sides) < _SHORT / 2 or cv2.contourArea(outline) < _FILLED * sides[0] * sides[1]:
            continue
        x, y, width, height = cv2.boundingRect(outline)
        # Windows at the border of a pattern are half empty.
        around = _WINDOW // 4
        left, top = max(0, x - around), max(0, y - around)
        right, bottom = min(columns, x + width + around), min(rows, y + height + around)
        large = min(right - left, bottom - top) >= _SHORT and max(right - left, bottom - top) >= _LONG
        if large and _has_two_values(
            frame[y : y + height, x : x + width], np.asarray(outline - np.array((x, y)), np.int32)
        ):
            yield left * reduced, top * reduced, right * reduced, bottom * reduced


def _outlines(dense: NDArray[np.bool_]) -> Sequence[NDArray[np.int32]]:
    """Outlines of the regions of a mask whose gaps are closed."""
    import cv2

    if not dense.any():
        return ()
    window = np.ones((_WINDOW, _WINDOW), np.uint8)
    closed = cv2.morphologyEx(dense.astype(np.uint8), cv2.MORPH_CLOSE, window)
    outlines, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return [np.asarray(outline, np.int32) for outline in outlines]


def _has_two_values(patch: Picture, outline: NDArray[np.int32]) -> bool:
    """Whether a pattern has two flat gray values, the same ones everywhere, in many bars or modules."""
    import cv2

    inside = cv2.drawContours(np.zeros(patch.shape, np.uint8), [outline], -1, 1, cv2.FILLED) > 0
    level, _ = cv2.threshold(patch[inside], 0, 1, cv2.THRESH_OTSU)
    bright = patch > level
    groups = (patch[inside & bright].astype(np.float32), patch[inside & ~bright].astype(np.float32))
    if min(one.size for one in groups) < _BARS_BALANCED[0] * inside.sum():
        return False
    high, low = (float(np.median(one)) for one in groups)
    contrast = high - low
    near = [
        float((np.abs(one - middle) <= _FLAT * contrast).mean())
        for one, middle in zip(groups, (high, low), strict=True)
    ]
    if contrast < _CONTRAST or min(near) < _SAME_VALUE:
        return False
    pieces = (
        cv2.connectedComponents((inside & one).astype(np.uint8), connectivity=4)[0]
        for one in (bright, ~bright)
    )
    return sum(pieces) - 2 >= _PIECES


def _coherence(frame: Picture) -> NDArray[np.float32]:
    """How parallel the edges in the window around each pixel are, 0 to 1, at any angle."""
    import cv2

    across, down = (cv2.Sobel(frame, cv2.CV_32F, *order, ksize=3) for order in ((1, 0), (0, 1)))
    window = (_WINDOW, _WINDOW)
    xx, yy, xy = (cv2.blur(one, window) for one in (across * across, down * down, across * down))
    return np.asarray(np.hypot(xx - yy, 2 * xy) / (xx + yy + 1e-3), np.float32)


def _share(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Part of the pixels of the window around each pixel that are in the mask."""
    import cv2

    return np.asarray(cv2.blur(mask.astype(np.float32), (_WINDOW, _WINDOW)), np.float32)


def _with_margin(area: Area, shape: tuple[int, ...]) -> Area:
    """Grow an area by a twelfth of its shorter side: finder patterns and outer bars."""
    left, top, right, bottom = area
    margin = max(4, min(right - left, bottom - top) // 12)
    return (
        max(0, left - margin),
        max(0, top - margin),
        min(shape[1], right + margin),
        min(shape[0], bottom + margin),
    )
