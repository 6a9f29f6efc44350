"""Ink of burned-in letters: thin strokes of one gray value with sharp edges, unlike tissue and noise."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Mask = NDArray[np.bool_]

# Widest stroke (pixels), and contrasts (gray values) at which ink is separated from its surroundings.
_WIDEST = 9
_LEVELS = (150, 110, 60, 30)
# Longer side of a letter and of a joined word (pixels), and the part of its oriented bounds that is ink.
_SMALL, _LARGE, _LONGEST = 5, 64, 400
_FULL, _EMPTY = 0.85, 0.08
# Outline over that of the bounds: 1 for bars and dots, more for letters, still more for joined words.
_BRANCHED, _WORD = 1.2, 1.7
# Of the ink, least part close to its brightest value, and how close (part of the contrast).
_EVEN, _CLOSE = 0.35, 0.25
# Contrast within one pixel of the outline, as a part of the contrast of the ink.
_SHARP = 0.6
# Letters that a printer or a display makes of dots: least dots, the contrast (gray values) at which they are
# looked for, how much areas and brightness vary (deviation over mean), and gaps (pixels) that are closed.
_DOTS, _DOT_LEVEL, _ALIKE, _GAPS = 12, 110, (0.4, 0.15), (3, 5)
# What a bar or a dot counts, which may be part of a letter as well as of a ruler.
_PLAIN = 0.5


def count_letters(picture: Picture, inside: Mask, enough: float = inf) -> float:
    """Count the pieces of ink in an area that look like letters.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns)
        A part of a frame, stretched to 0 to 255, with letters of at most 64 pixels.
    inside : array of bool, shape (rows, columns)
        The area; a piece counts if its center is in it.
    enough : float, optional
        Number of letters from which none are counted any more.

    Returns
    -------
    float
        At the contrast, of dark or bright ink, at which most are found; a joined word counts per branch.
    """
    import cv2

    window = np.ones((2 * _WIDEST + 1, 2 * _WIDEST + 1), np.uint8)
    most = 0.0
    for method in (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT):
        # Only what is narrower than the window is left, without the slope of what is behind it.
        thin = np.asarray(cv2.morphologyEx(picture, method, window), np.uint8)
        for level in _LEVELS:
            most = max(most, _letters(thin, level, inside, enough))
            if most >= enough:
                return most
        if _is_dotted(thin, inside):
            for gap in _GAPS:
                near = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (gap, gap))
                joined = np.asarray(cv2.morphologyEx(thin, cv2.MORPH_CLOSE, near), np.uint8)
                most = max(most, _letters(joined, _DOT_LEVEL, inside, enough))
    return most


def _is_dotted(thin: Picture, inside: Mask) -> bool:
    """Whether the ink of an area is many dots of one size and brightness: specks of noise vary."""
    import cv2

    mask = ((thin >= _DOT_LEVEL) & inside).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    longer = np.maximum(stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT])
    dots = longer < _SMALL
    dots[0] = False
    areas = stats[:, cv2.CC_STAT_AREA].astype(np.float64)
    if dots.sum() < _DOTS or 2 * areas[dots].sum() < areas[1:].sum():
        return False
    bright = np.zeros(count)
    np.maximum.at(bright, np.asarray(labels, np.int64).ravel(), thin.ravel())
    measured = ((areas[dots], _ALIKE[0]), (bright[dots], _ALIKE[1]))
    return all(float(one.std()) <= most * float(one.mean()) for one, most in measured)


def _letters(thin: Picture, level: int, inside: Mask, enough: float) -> float:
    """Count letters at one contrast, until there are enough."""
    import cv2

    mask = (thin >= level).astype(np.uint8)
    _, labels, stats, centers = cv2.connectedComponentsWithStats(mask, connectivity=8)
    columns, rows = (
        np.rint(centers[:, at]).astype(int).clip(0, side - 1)
        for at, side in ((0, thin.shape[1]), (1, thin.shape[0]))
    )
    longer = np.maximum(stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT])
    chosen = inside[rows, columns] & (longer >= _SMALL) & (longer <= _LONGEST)
    chosen[0] = False
    found = plain = 0.0
    for label in np.flatnonzero(chosen).tolist():
        x, y, width, height, _ = (int(value) for value in stats[label])
        around = np.s_[max(0, y - 2) : y + height + 2, max(0, x - 2) : x + width + 2]
        branched = _branches(thin[around], labels[around] == label)
        if not branched:
            continue
        if branched >= _BRANCHED:
            found += round(branched) if branched >= _WORD else 1
        else:
            plain += _PLAIN
        if found and found + plain >= enough:
            break
    # Bars and squares alone are a ruler or a test pattern.
    return found + plain if found else 0.0


def _branches(thin: Picture, own: Mask) -> float:
    """Outline of a piece over that of its bounds; 0 if it is no even ink with sharp edges."""
    import cv2

    values = thin[own].astype(np.float32)
    # The brightest tenth of a piece is free of the borders of its strokes.
    top = float(np.partition(values, values.size * 9 // 10)[values.size * 9 // 10])
    if float((values >= (1 - _CLOSE) * top).mean()) < _EVEN:
        return 0.0
    rows, columns = np.nonzero(own)
    width, height = int(np.ptp(columns)) + 1, int(np.ptp(rows)) + 1
    _, sides, _ = cv2.minAreaRect(np.stack([columns, rows], axis=1).astype(np.float32))
    long, short = sorted((float(side) + 1 for side in sides), reverse=True)
    branched, sharp = _outline(thin, own, top)
    branched /= 2 * (width + height)
    share = values.size / (long * short)
    thick = share > _FULL and branched < _BRANCHED and min(width, height) > _SMALL
    wide = short > _LARGE or (long > _LARGE and branched < _WORD)
    return 0.0 if sharp < _SHARP or share < _EMPTY or thick or wide else branched


def _outline(thin: Picture, own: Mask, top: float) -> tuple[float, float]:
    """Length of the outline of a piece (pixels), and the contrast across it as a part of ``top``."""
    rows, columns = own.shape
    padded = np.zeros((rows + 4, columns + 4), bool)
    values = np.zeros((rows + 4, columns + 4), np.int16)
    padded[2:-2, 2:-2], values[2:-2, 2:-2] = own, thin
    inside, flat = padded.ravel(), values.ravel()
    ink = np.flatnonzero(inside)
    length = steps = 0
    for step in (1, -1, columns + 4, -columns - 4):
        border = ink[~inside[ink + step]]
        # One more pixel: anti-aliased borders take two.
        beyond = np.minimum(flat[border + step], flat[border + 2 * step])
        length += border.size
        steps += int((flat[border] - beyond).sum())
    return float(length), steps / max(length * top, 1.0)
