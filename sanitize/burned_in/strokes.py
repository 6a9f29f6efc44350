"""Lines of burned-in letters in a rendered frame, in any script and at any angle.

Nothing is read here. Burned-in letters are thin strokes of one gray value with sharp edges; several of them,
of similar size, stand next to each other on a line. What looks like that and is not read as harmless text is
blanked (see `medsanitize.sanitize.burned_in.clean`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Numbers = NDArray[np.float64]

# Widest stroke (pixels), and contrasts (gray values) at which ink is separated from its surroundings.
_WIDEST = 9
_LEVELS = (110, 60, 30)
# Least and largest side of a letter (pixels), and the part of its bounds that is ink.
_SMALL, _LARGE, _LONGEST = 5, 64, 400
_FULL, _EMPTY = 0.85, 0.08
# Outline over that of the bounds: 1 for bars and dots at any angle, more for letters.
_BRANCHED, _WORD = 1.2, 1.7
# Of the ink, least part close to its brightest value, and how close (part of the contrast).
_EVEN, _CLOSE = 0.35, 0.25
# Sharpness: contrast within one pixel of the outline, as a part of the contrast of the ink.
_SHARP = 0.6
# Neighbors: largest gap (letter sizes), ratio of their sizes, and difference of their ink (part of contrast).
_GAP, _SIZES, _INKS = 1.2, 2.2, 0.15
# Least letters, how many of them (part) are branched, and how branched a single joined word is.
_LETTERS, _BRANCHES, _LONE = 4, 0.5, 2.0
# Most pieces of ink at one level that are grouped: more are texture.
_MOST = 6000


@dataclass(frozen=True, slots=True)
class StrokeLine:
    """Letters next to each other on a line: the bounds of each, in pixels."""

    letters: tuple[Area, ...]

    @property
    def size(self) -> float:
        """Typical side of a letter in pixels."""
        return float(np.median([max(x1 - x, y1 - y) for x, y, x1, y1 in self.letters]))


@dataclass(slots=True)
class _Ink:
    """Properties of the connected pieces of ink at one level: one row or value per piece."""

    bounds: NDArray[np.int64]
    ink: Numbers
    branched: Numbers

    def of(self, chosen: NDArray[np.intp]) -> _Ink:
        return _Ink(self.bounds[chosen], self.ink[chosen], self.branched[chosen])


def find_lines(picture: Picture, ignored: NDArray[np.bool_] | None = None) -> tuple[StrokeLine, ...]:
    """Find lines of letters in one rendering of a frame.

    Parameters
    ----------
    picture : array of uint8, shape (rows, columns)
    ignored : array of bool, shape (rows, columns), optional
        Pixels that are no ink, such as those already blanked.
    """
    import cv2

    if min(picture.shape) < _SMALL or picture.min() == picture.max():
        return ()
    found: list[StrokeLine] = []
    window = np.ones((2 * _WIDEST + 1, 2 * _WIDEST + 1), np.uint8)
    for method in (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT):
        # Only what is narrower than the window is left, without the slope of what is behind it.
        thin = np.asarray(cv2.morphologyEx(picture, method, window), np.uint8)
        if ignored is not None:
            thin[ignored] = 0
        for level in _LEVELS:
            ink = thin >= level
            if ink.any():
                found += _lines(_pieces(thin, ink))
    return tuple(found)


def _pieces(thin: Picture, ink: NDArray[np.bool_]) -> _Ink:
    """Connected pieces of ink that may be letters or joined words."""
    import cv2

    mask = ink.astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    x, y, width, height, size = (stats[:, at].astype(np.int64) for at in range(5))
    longer, shorter = np.maximum(width, height), np.minimum(width, height)
    share = size / np.maximum(width * height, 1)
    fits = (longer >= _SMALL) & (shorter <= _LARGE) & (longer <= _LONGEST) & (share >= _EMPTY)
    fits[0] = False
    if not fits.any():
        return _Ink(np.zeros((0, 4), np.int64), np.zeros(0), np.zeros(0))
    at = np.flatnonzero(fits[labels.ravel()])
    rows, columns = np.divmod(at, labels.shape[1])
    mine, values = labels.ravel()[at], thin.ravel()[at].astype(np.float64)
    # The brightest tenth of a piece is free of the borders of its strokes.
    order = np.lexsort((values, mine))
    ends = np.searchsorted(mine[order], np.arange(1, count + 1))
    starts = np.concatenate([[0], ends[:-1]])
    top = np.zeros(count)
    inked = ends > starts
    top[inked] = values[order][(starts + (ends - starts) * 9 // 10)[inked]]
    even = np.bincount(mine, values >= (1 - _CLOSE) * top[mine], count) / np.maximum(size, 1)
    outline, steps = np.zeros(count), np.zeros(count)
    padded = np.pad(labels, 1)
    lifted = np.pad(thin, 1).astype(np.float64)
    for down, across in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        there = rows + 1 + down, columns + 1 + across
        border = padded[there] != mine
        # One more pixel: anti-aliased borders take two.
        far = (
            np.clip(rows + 1 + 2 * down, 0, lifted.shape[0] - 1),
            np.clip(columns + 1 + 2 * across, 0, lifted.shape[1] - 1),
        )
        outline += np.bincount(mine[border], minlength=count)
        beyond = np.minimum(lifted[there], lifted[far])
        steps += np.bincount(mine[border], (values - beyond)[border], count)
    sharp = steps / np.maximum(outline * top, 1)
    branched = outline / np.maximum(2 * (width + height), 1)
    fits &= (even >= _EVEN) & (sharp >= _SHARP)
    fits &= (branched >= _BRANCHED) | (share <= _FULL) | (shorter <= 4)
    fits &= (longer <= _LARGE) | (branched >= _WORD)
    chosen = np.flatnonzero(fits)
    bounds = np.stack([x, y, x + width, y + height], axis=1)[chosen]
    return _Ink(bounds, top[chosen], branched[chosen])


def _lines(pieces: _Ink) -> Iterator[StrokeLine]:
    """Group pieces of similar size and ink that stand next to each other."""
    count = len(pieces.bounds)
    if count < 2 or count > _MOST:
        return
    low, high = pieces.bounds[:, :2].astype(np.float64), pieces.bounds[:, 2:].astype(np.float64)
    sides = high - low
    # A joined word is as large as it is thick.
    size = np.minimum(sides.max(axis=1), np.maximum(1.5 * sides.min(axis=1), _SMALL))
    groups = list(range(count))

    def root(one: int) -> int:
        while groups[one] != one:
            groups[one] = groups[groups[one]]
            one = groups[one]
        return one

    order = np.argsort(low[:, 0], kind="stable")
    lefts = low[order, 0]
    for one in order.tolist():
        reach = _GAP * size[one] * _SIZES
        near = order[
            np.searchsorted(lefts, low[one, 0]) : np.searchsorted(lefts, high[one, 0] + reach, "right")
        ]
        gap = np.maximum(0, np.maximum(low[near] - high[one], low[one] - high[near]))
        apart = np.hypot(gap[:, 0], gap[:, 1])
        larger, smaller = np.maximum(size[near], size[one]), np.minimum(size[near], size[one])
        ink = np.abs(pieces.ink[near] - pieces.ink[one]) <= _INKS * np.maximum(
            pieces.ink[near], pieces.ink[one]
        )
        joined = (apart <= _GAP * larger) & (larger <= _SIZES * smaller) & ink
        for other in near[joined].tolist():
            groups[root(other)] = root(one)
    roots = np.array([root(one) for one in range(count)])
    for group in np.unique(roots):
        mine = np.flatnonzero(roots == group)
        if _is_text(pieces.of(mine), size[mine]):
            yield StrokeLine(tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in pieces.bounds[mine]))


def _is_text(pieces: _Ink, size: Numbers) -> bool:
    """Whether pieces are letters or joined words and not ticks, dots or texture."""
    sides = (pieces.bounds[:, 2:] - pieces.bounds[:, :2]).astype(np.float64)
    # A joined word has about one letter per size.
    letters = np.where(pieces.branched >= _WORD, np.maximum(1, np.round(sides.max(axis=1) / size)), 1)
    if len(size) == 1 and pieces.branched[0] < _LONE:
        return False
    branched = letters[pieces.branched >= _BRANCHED].sum()
    return bool(letters.sum() >= _LETTERS and branched >= max(2, _BRANCHES * letters.sum()))
