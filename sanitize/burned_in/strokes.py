"""Lines of burned-in letters in a rendered frame, in any script and at any angle.

Nothing is read here. Burned-in letters are thin strokes of one gray value with sharp edges; several of them,
of similar size, stand next to each other on a line. What looks like that and is not read as harmless text is
blanked (see `medsanitize.sanitize.burned_in.clean`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Numbers = NDArray[np.float64]

# Widest stroke (pixels), and contrasts (gray values) at which ink is separated from its surroundings.
_WIDEST = 9
_LEVELS = (110, 60, 30)
# Contrast at which faint pieces are separated that continue a line.
_FAINT = 15
# Least side of a piece (pixels); least and largest side of a letter, and the part of its bounds that is ink.
_LEAST = 2
_SMALL, _LARGE, _LONGEST = 5, 64, 400
_FULL, _EMPTY = 0.85, 0.08
# Outline over that of the bounds: 1 for bars and dots at any angle, more for letters.
_BRANCHED, _WORD = 1.2, 1.7
# Part of its oriented bounds that is ink, up to which a piece may be a letter: bars and dots are full.
_HOLLOW = 0.5
# Of the ink, least part close to its brightest value, and how close (part of the contrast).
_EVEN, _CLOSE = 0.35, 0.25
# Sharpness: contrast within one pixel of the outline, as a part of the contrast of the ink.
_SHARP = 0.6
# Neighbors: largest gap (letter sizes), ratio of their sizes, and difference of their ink (part of contrast).
_GAP, _SIZES, _INKS = 1.2, 2.2, 0.15
# Least letters, how many of them (part) are branched, and how branched a single joined word is.
_LETTERS, _BRANCHES, _LONE = 4, 0.5, 2.0
# Least letters of a line in which most have the shape of letters without branches, and least ratio of the
# sides of a joined word.
_SEVERAL, _JOINED = 6, 1.4
# Sides of a ruler, long over short.
_RULER = 8
# Most pieces of ink at one level that are grouped: more are texture.
_MOST = 6000
# Pieces that continue a line: least sharpness and ink (part of that of the line); largest distance from its
# band, gap, and size (letter sizes); and how far beyond its length they are looked for (letter sizes).
_ROUGH, _PALE = 0.3, 0.15
_BESIDE, _NEXT, _GIANT, _ENDS = 0.3, 1.5, 2.5, 6.0
# Gap between the centers of two lines, and largest thickness of a line (letter sizes).
_ROW, _FLAT = 0.35, 2.2
# Letters of at most this size (part of that of a line), so many of which are inside it, show that it is their
# ground.
_WITHIN, _FEW = 0.5, 4
# Part of the letters of a line with about the same height, and how far they differ.
_REGULAR, _HEIGHTS = 0.6, 0.25


@dataclass(frozen=True, slots=True)
class StrokeLine:
    """Letters next to each other on a line.

    Attributes
    ----------
    letters : tuple of Area
        Bounds of each, in pixels.
    size : float
        Typical side of a letter in pixels.
    doubtful : tuple of Area
        Pieces that continue the line and may be letters on a ground from which they hardly differ.
    """

    letters: tuple[Area, ...]
    size: float
    doubtful: tuple[Area, ...] = ()

    @property
    def is_regular(self) -> bool:
        """Whether most letters have the same height and stand on one horizontal or vertical line."""
        bounds = np.array(self.letters)
        for across in (1, 0):
            heights = bounds[:, across + 2] - bounds[:, across]
            same = np.abs(heights - np.median(heights)) <= _HEIGHTS * np.median(heights)
            if np.ptp(bounds[:, [across, across + 2]]) <= _FLAT * self.size and same.mean() >= _REGULAR:
                return True
        return False


@dataclass(slots=True)
class _Ink:
    """Properties of the connected pieces of ink at one level: one row or value per piece.

    ``sides`` are those of the oriented bounds: long and short; ``sure`` is unset for pieces that can only
    continue a line.
    """

    bounds: NDArray[np.int64]
    ink: Numbers
    branched: Numbers
    sides: Numbers
    hollow: NDArray[np.bool_]
    sure: NDArray[np.bool_]

    def of(self, chosen: NDArray[Any]) -> _Ink:
        return _Ink(
            self.bounds[chosen],
            self.ink[chosen],
            self.branched[chosen],
            self.sides[chosen],
            self.hollow[chosen],
            self.sure[chosen],
        )


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
    found: list[tuple[StrokeLine, float, int]] = []
    inks: list[list[_Ink]] = []
    window = np.ones((2 * _WIDEST + 1, 2 * _WIDEST + 1), np.uint8)
    for method in (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT):
        # Only what is narrower than the window is left, without the slope of what is behind it.
        thin = np.asarray(cv2.morphologyEx(picture, method, window), np.uint8)
        if ignored is not None:
            thin[ignored] = 0
        inks.append([_pieces(thin, level) for level in _LEVELS])
        found += [(*line, len(inks) - 1) for pieces in inks[-1] for line in _lines(pieces.of(pieces.sure))]
        if any(polarity == len(inks) - 1 for *_, polarity in found):
            inks[-1].append(_pieces(thin, _FAINT))
    letters = [line for line, *_ in found]
    return tuple(
        _continued(line, ink, inks[polarity])
        for line, ink, polarity in found
        if not _is_ground(line, letters)
    )


def _is_ground(line: StrokeLine, others: Sequence[StrokeLine]) -> bool:
    """Whether a line is what is left between the smaller letters of others."""
    bounds = np.array(line.letters)
    low, high = bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
    for other in others:
        if other.size <= _WITHIN * line.size:
            centers = np.array(other.letters)
            inside = (centers[:, :2] >= low).all(axis=1) & (centers[:, 2:] <= high).all(axis=1)
            if inside.sum() >= _FEW:
                return True
    return False


def _pieces(thin: Picture, level: int) -> _Ink:
    """Connected pieces of ink that may be letters or joined words."""
    import cv2

    mask = (thin >= level).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    x, y, width, height, size = (stats[:, at].astype(np.int64) for at in range(5))
    longer, shorter = np.maximum(width, height), np.minimum(width, height)
    fits = (longer >= _LEAST) & (longer <= _LONGEST)
    fits[0] = False
    chosen = np.flatnonzero(fits)
    if not chosen.size:
        none = np.zeros(0)
        return _Ink(np.zeros((0, 4), np.int64), none, none, np.zeros((0, 2)), none > 0, none > 0)
    # From here on, pieces are numbered in the order of ``chosen``.
    number = np.full(count, -1)
    number[chosen] = np.arange(chosen.size)
    count = chosen.size
    x, y, width, height, size, longer, shorter = (
        one[chosen] for one in (x, y, width, height, size, longer, shorter)
    )
    mine = number[labels.ravel()]
    at = np.flatnonzero(mine >= 0)
    mine, values = mine[at], thin.ravel()[at].astype(np.float64)
    rows, columns = np.divmod(at, labels.shape[1])
    order = np.lexsort((values, mine))
    starts = np.concatenate([[0], np.cumsum(size)[:-1]])
    # The brightest tenth of a piece is free of the borders of its strokes.
    top = values[order][starts + size * 9 // 10]
    even = np.bincount(mine, values >= (1 - _CLOSE) * top[mine], count) / size
    outline, steps = np.zeros(count), np.zeros(count)
    padded = np.pad(labels, 1)
    lifted = np.pad(thin, 1).astype(np.float64)
    own = chosen[mine]
    for down, across in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        there = rows + 1 + down, columns + 1 + across
        border = padded[there] != own
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
    sides = _oriented(rows, columns, mine, order, starts, size)
    share = size / np.maximum(sides.prod(axis=1), 1)
    box = size / (width * height)
    sure = (longer >= _SMALL) & (sides[:, 1] <= _LARGE) & (share >= _EMPTY)
    sure &= (even >= _EVEN) & (sharp >= _SHARP)
    sure &= (branched >= _BRANCHED) | (box <= _FULL) | (shorter <= 4)
    sure &= (longer <= _LARGE) | (branched >= _WORD)
    bounds = np.stack([x, y, x + width, y + height], axis=1)
    hollow = (branched >= _BRANCHED) | (share <= _HOLLOW)
    found = _Ink(bounds, top, branched, sides, hollow, sure)
    return found.of(sure | ((sharp >= _ROUGH) & (longer <= _LARGE)))


def _oriented(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    mine: NDArray[np.int64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    size: NDArray[np.int64],
) -> Numbers:
    """Long and short side of each piece along its principal axes."""
    count = len(size)
    across, down = (
        one - (np.bincount(mine, one, count) / size)[mine]
        for one in (columns.astype(np.float64), rows.astype(np.float64))
    )
    xx, yy, xy = (np.bincount(mine, one, count) for one in (across**2, down**2, across * down))
    angle = 0.5 * np.arctan2(2 * xy, xx - yy)
    cos, sin = np.cos(angle)[mine], np.sin(angle)[mine]
    sides = []
    for along in (across * cos + down * sin, down * cos - across * sin):
        along = along[order]
        sides.append(np.maximum.reduceat(along, starts) - np.minimum.reduceat(along, starts) + 1)
    both = np.stack(sides, axis=1)
    return np.sort(both, axis=1)[:, ::-1]


def _lines(pieces: _Ink) -> Iterator[tuple[StrokeLine, float]]:
    """Group pieces of similar size and ink that stand next to each other; with the ink of each line."""
    count = len(pieces.bounds)
    if count < 1 or count > _MOST:
        return
    low, high = pieces.bounds[:, :2].astype(np.float64), pieces.bounds[:, 2:].astype(np.float64)
    # A joined word is as large as it is thick.
    size = np.minimum(pieces.sides[:, 0], np.maximum(1.5 * pieces.sides[:, 1], _SMALL))
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
            typical = float(np.median(size[mine]))
            for row in _rows(pieces.bounds[mine], typical):
                line = StrokeLine(_areas(pieces.bounds[mine][row]), typical)
                yield line, float(np.median(pieces.ink[mine][row]))


def _rows(bounds: NDArray[np.int64], size: float) -> list[NDArray[np.intp]]:
    """Divide a block of horizontal or vertical lines; a line at another angle is left as it is."""
    everything = [np.arange(len(bounds))]
    centers = (bounds[:, :2] + bounds[:, 2:]) / 2
    for across in (1, 0):
        order = np.argsort(centers[:, across], kind="stable")
        ends = np.flatnonzero(np.diff(centers[order, across]) > _ROW * size) + 1
        rows = np.split(order, ends)
        flat = [
            bounds[row, across + 2].max() - bounds[row, across].min() <= _FLAT * size
            for row in rows
            if len(row) > 1
        ]
        if len(rows) <= len(bounds) / 2 and all(flat):
            return rows
    return everything


def _areas(bounds: NDArray[np.int64]) -> tuple[Area, ...]:
    return tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in bounds)


def _continued(line: StrokeLine, ink: float, levels: Sequence[_Ink]) -> StrokeLine:
    """Add the pieces that continue a line, on a ground from which they differ less than its letters do."""
    letters = np.array(line.letters, np.float64)
    size = line.size
    centers = (letters[:, :2] + letters[:, 2:]) / 2
    middle = centers.mean(axis=0)
    spread = centers - middle
    if len(letters) == 1:
        spread = np.diag(letters[0, 2:] - letters[0, :2])
    along = np.linalg.svd(spread, full_matrices=False)[2][0]
    across = np.array([-along[1], along[0]])
    reach = np.abs((letters[:, 2:] - letters[:, :2]) / 2 @ np.abs(across)) * 0.7
    off = (centers - middle) @ across
    low, high = float((off - reach).min()) - _BESIDE * size, float((off + reach).max()) + _BESIDE * size
    # A block of several lines at an angle has neighbors on all sides.
    if high - low > (_FLAT + 2 * _BESIDE) * size:
        return line
    known = set(line.letters)
    # No further than the line is long: the same again may be hidden.
    on = spread @ along
    far = float(np.ptp(on)) + _ENDS * size
    ends = float(on.min()) - far, float(on.max()) + far
    levels = [one.of((one.ink >= _PALE * ink) & (one.sides[:, 0] <= _GIANT * size)) for one in levels]
    pool = np.concatenate(
        [_within(one.bounds, middle, (along, ends), (across, (low, high))) for one in levels]
    )
    more: list[Area] = []
    waiting = [one for one in dict.fromkeys(map(tuple, pool.tolist())) if one not in known]
    rest = np.array(waiting, np.float64).reshape(-1, 4)
    front = letters
    while len(front) and len(rest):
        gap = np.maximum(
            0,
            np.maximum(rest[:, None, :2] - front[None, :, 2:], front[None, :, :2] - rest[:, None, 2:]),
        )
        near = np.hypot(gap[..., 0], gap[..., 1]).min(axis=1) <= _NEXT * size
        front, rest = rest[near], rest[~near]
        more += _areas(front.astype(np.int64))
    return StrokeLine(line.letters, size, tuple(more))


def _within(
    bounds: NDArray[np.int64], middle: Numbers, *limits: tuple[Numbers, tuple[float, float]]
) -> NDArray[np.int64]:
    """Bounds whose centers, seen from ``middle``, are between limits along each direction."""
    centers = (bounds[:, :2] + bounds[:, 2:]) / 2 - middle
    inside = [(centers @ along >= low) & (centers @ along <= high) for along, (low, high) in limits]
    return bounds[np.logical_and.reduce(inside)]


def _is_text(pieces: _Ink, size: Numbers) -> bool:
    """Whether pieces are letters or joined words and not ticks, dots or texture."""
    # A joined word has about one letter per size, or per branch.
    words = np.round(pieces.sides[:, 0] / size)
    ruler = pieces.sides[:, 0] > _RULER * pieces.sides[:, 1]
    long = (pieces.branched >= _LONE) & (pieces.sides[:, 0] >= _JOINED * pieces.sides[:, 1])
    words = np.where(long, np.maximum(words, np.round(pieces.branched)), words)
    letters = np.where(pieces.branched >= _WORD, np.maximum(1, words), 1)
    # A single long piece with branches is a ruler.
    if len(size) == 1 and (pieces.branched[0] < _LONE or ruler[0]):
        return False
    least = max(2, _BRANCHES * letters.sum())
    branched, shaped = (letters[one].sum() for one in (pieces.branched >= _BRANCHED, pieces.hollow))
    if letters.sum() < _LETTERS:
        return False
    return bool(branched >= least or (letters.sum() >= _SEVERAL and shaped >= least))
