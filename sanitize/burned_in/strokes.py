"""Lines of burned-in letters in a frame, in any script and at any angle, with the ink of each letter.

Nothing is read here. `text_map` says where text is; here its connected ink is found, so that what is
blanked is whole letters and whole words. What looks like text and is not read as harmless is blanked (see
`medsanitize.sanitize.burned_in.clean`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from medsanitize.sanitize.burned_in.letter_ink import count_letters
from medsanitize.sanitize.burned_in.local_contrast import local_contrast
from medsanitize.sanitize.burned_in.text_evidence import (
    POSSIBLE,
    TEXT,
    Evidence,
    evidence,
    letters_needed,
    log_odds,
)
from medsanitize.sanitize.burned_in.text_map import CELL
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

Values = NDArray[np.float32]
Mask = NDArray[np.bool_]

# Chance of a cell that shows text, and of cells that continue it.
_TEXT, _CONTINUED = 0.7, 0.5
# The same for parts of a piece that is no text as a whole.
_SURER = ((0.85, 0.95), (0.97, 0.99))
# Further log odds that such a part needs, of which there are many, and letters: it was chosen for its chance.
_PART, _LETTERS = 3.0, 2.0
# Quantile of the chances of the cells of a piece that is typical of it.
_TYPICAL = 0.75
# Sizes (pixels) above which letters are reduced before their ink is looked at, and to which.
_BIG, _REDUCED = 28.0, 24.0
# Least number of such cells in a piece of a line.
_CELLS = 2
# Extent across the page (sizes) beyond which a line is slanted.
_SLANTED = 1.8
# Gap (letter sizes) up to which pieces are of one line, and largest ratio of their sizes.
_GAP, _SIZES = 1.2, 2.0
# Least length of a line in letter sizes: shorter ones are markers of one or two letters.
_LENGTH = 2.2
# Letters with wide spaces, in letter sizes: longest piece, gap and offset across the line of neighbors;
# ratio of height and width of a narrow one, largest ratio of sizes, and how many make a line.
_FEW, _WIDE, _OFF, _NARROW, _EVEN, _SPACED = 3.0, 5.0, 0.35, 1.5, 1.7, 4
# Chance from which cells at the ends of a line belong to it, and how far from its ends and axis (sizes).
_POSSIBLE, _ENDS, _BAND = 0.15, 3.0, 0.6
# Letters of a block of several short lines, and their least longer side in pixels.
_SEVERAL, _SMALL = 6, 5
# Local contrast from which pixels are ink, and how far around a piece (letter sizes) its ink is followed.
_INK, _AROUND = 0.35, 0.5
# The same in pixels, for pieces of several lines.
_FARTHEST = 12
# Least pixels of a letter; least part of a cell that letters cover, else the cell counts as a letter itself.
_DOT, _COVERED = 3, 0.25
# Dots, smaller than `_SMALL`, of which letters are made: how many, least part of the ink in dots of about one
# area and of dots that are as far from the next one as most are, and by what part that distance varies.
_DOTS, _ALIKE, _REGULAR, _PITCH = 24, 0.7, 0.7, 0.25
# Most dots whose distances are measured.
_MOST_DOTS = 256
# Sides of letters in letter sizes: longer ink is a joined word or a border.
_JOINED = 1.5


@dataclass(frozen=True, slots=True)
class StrokeLine:
    """Letters next to each other on a line.

    Attributes
    ----------
    letters : tuple of Area
        Bounds of the connected ink of each, in pixels.
    size : float
        Typical side of a letter in pixels.
    doubtful : tuple of Area
        Parts of the line in which no connected ink was found.
    """

    letters: tuple[Area, ...]
    size: float
    doubtful: tuple[Area, ...] = ()


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Connected cells with text.

    Attributes
    ----------
    bounds : Area
        In pixels; both sides are multiples of `CELL`.
    cells : array of bool
        Cells inside the bounds.
    length, size : float
        Sides of the oriented bounds in pixels.
    chance : float
        Chance of text of a typical cell.
    """

    bounds: Area
    cells: Mask
    length: float
    size: float
    chance: float

    @property
    def place(self) -> Area:
        """The bounds in cells."""
        left, top, right, bottom = (side // CELL for side in self.bounds)
        return left, top, right, bottom

    @property
    def is_slanted(self) -> bool:
        """Whether the line is neither horizontal nor vertical."""
        left, top, right, bottom = self.bounds
        return min(right - left, bottom - top) > _SLANTED * self.size

    def letters_in(self, area: Area) -> float:
        """Return about how many letters of the piece an area holds, one for each size along the line."""
        left, top = (side // CELL for side in self.bounds[:2])
        rows = slice(max(0, area[1] // CELL - top), max(0, -(-area[3] // CELL) - top))
        columns = slice(max(0, area[0] // CELL - left), max(0, -(-area[2] // CELL) - left))
        return self.length / self.size * float(self.cells[rows, columns].sum() / self.cells.sum())


def find_lines(
    values: Values,
    chances: NDArray[np.float32],
    least: float = TEXT,
    near: Sequence[Area] | None = None,
) -> tuple[StrokeLine, ...]:
    """Find lines of letters.

    Parameters
    ----------
    values : array of float32, shape (rows, columns)
        Stored gray values.
    chances : array of float32, shape (ceil(rows / 4), ceil(columns / 4))
        As returned by `text_chances` for ``values``.
    least : float
        Log odds of text that a line needs.
    near : sequence of Area, optional
        Lines that reach none of these areas may be left out.

    Returns
    -------
    tuple of StrokeLine
        One for each word, or for each line if its words stand close together. Single letters and pairs of
        letters without others beside them are left out.
    """
    pieces = list(pieces_of_letters(values, chances, near))
    text = [list(_pieces_of_text(*one, values, chances, least)) for one in pieces]
    alone = [piece for piece, _ in pieces]
    for number in _beside_text(alone, [bool(parts) for parts in text]):
        text[number] = [_extended(alone[number], chances)]
    for number in _next_to_text(alone, [bool(parts) for parts in text]):
        if _is_text(*pieces[number], values, min(least, POSSIBLE)):
            text[number] = [_extended(alone[number], chances)]
    return tuple(line_of(piece, values) for parts in text for piece in parts)


def _beside_text(pieces: list[TextPiece], are_text: list[bool]) -> Iterator[int]:
    """Yield the numbers of pieces in rows or columns of single letters of which half are text."""
    for group in _rows_of_letters(pieces):
        found = sum(are_text[one] for one in group)
        if 2 * found >= len(group) and found > 1:
            yield from (one for one in group if not are_text[one])


def _next_to_text(pieces: list[TextPiece], are_text: list[bool]) -> Iterator[int]:
    """Yield the numbers of the pieces that are neighbors of text on a line."""
    sides = np.array([piece.bounds for piece in pieces], np.int64).reshape(-1, 4)
    sizes = np.array([piece.size for piece in pieces])
    text = np.array(are_text, bool)
    for one in np.flatnonzero(~text).tolist():
        if _are_neighbors(sides[text], sizes[text], sides[one], sizes[one]).any():
            yield one


def _pieces_of_text(
    piece: TextPiece, line: StrokeLine, values: Values, chances: NDArray[np.float32], least: float
) -> Iterator[TextPiece]:
    """Yield a piece if it is text, else the parts of it that are: a line may touch what is taken for text."""
    if _is_text(piece, line, values, least):
        yield _extended(piece, chances)
    else:
        # Parts are not extended: around them is what is no text.
        yield from _parts_of_text(piece, values, chances, least)


def _parts_of_text(
    piece: TextPiece, values: Values, chances: NDArray[np.float32], least: float
) -> Iterator[TextPiece]:
    """Yield the parts of a piece that are text: cells with higher chances than those around them."""
    left, top, right, bottom = (side // CELL for side in piece.bounds)
    alone = np.zeros_like(chances)
    alone[top:bottom, left:right] = np.where(piece.cells, chances[top:bottom, left:right], 0)
    for continued, sure in _SURER:
        parts = list(text_pieces(alone, continued, sure))
        for part, is_long in zip(parts, _are_long_enough(parts), strict=True):
            if is_long and _is_drawn(part, line_of(part, values), values, least + _PART):
                x, y, x1, y1 = (side // CELL for side in part.bounds)
                alone[y:y1, x:x1][part.cells] = 0
                yield part


def _is_drawn(part: TextPiece, line: StrokeLine, values: Values, least: float) -> bool:
    """Whether a part has the log odds of text and ink that looks like letters."""
    return letter_count(part, line.size, values, _LETTERS) >= _LETTERS and _is_text(part, line, values, least)


def pieces_of_letters(
    values: Values, chances: NDArray[np.float32], near: Sequence[Area] | None = None
) -> Iterator[tuple[TextPiece, StrokeLine]]:
    """Yield the pieces that may hold several letters, with their ink; all, or those near areas."""
    pieces = list(text_pieces(chances))
    for piece, is_long in zip(pieces, _are_long_enough(pieces), strict=True):
        if near is not None and not _may_reach(piece, near):
            continue
        line = line_of(piece, values)
        if is_long or _has_several_letters(line):
            yield piece, line


def text_pieces(
    chances: NDArray[np.float32], continued: float = _CONTINUED, sure: float = _TEXT
) -> Iterator[TextPiece]:
    """Yield connected cells, with at least one chance, of which one has a chance that is sure."""
    import cv2

    mask = (chances >= continued).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    certain = np.bincount(labels.ravel(), (chances >= sure).ravel(), count)
    for label in range(1, count):
        x, y, width, height, size = (int(value) for value in stats[label])
        if not certain[label] or size < _CELLS:
            continue
        cells = labels[y : y + height, x : x + width] == label
        points = np.argwhere(cells).astype(np.float32)
        _, sides, _ = cv2.minAreaRect(points)
        thin, length = sorted(CELL * (float(side) + 1) for side in sides)
        bounds = CELL * x, CELL * y, CELL * (x + width), CELL * (y + height)
        inside = chances[y : y + height, x : x + width][cells]
        yield TextPiece(bounds, cells, length, thin, float(np.quantile(inside, _TYPICAL)))


def _may_reach(piece: TextPiece, areas: Sequence[Area]) -> bool:
    """Whether a piece may have letters in an area, also when it is extended."""
    around = _ENDS * piece.size + 2 * CELL + _FARTHEST
    left, top, right, bottom = piece.bounds
    return any(
        left - around < area[2]
        and area[0] < right + around
        and top - around < area[3]
        and area[1] < bottom + around
        for area in areas
    )


def _extended(piece: TextPiece, chances: NDArray[np.float32]) -> TextPiece:
    """Add the fainter ends of a line: connected cells in its direction that may show text."""
    import cv2

    reach = max(1, round(_ENDS * piece.size / CELL))
    left, top, right, bottom = (side // CELL for side in piece.bounds)
    y, x = max(0, top - reach), max(0, left - reach)
    possible = chances[y : bottom + reach, x : right + reach] >= _POSSIBLE
    own = np.zeros(possible.shape, np.uint8)
    own[top - y : bottom - y, left - x : right - x] = piece.cells
    points = np.argwhere(own).astype(np.float64)
    middle = points.mean(axis=0)
    along = np.linalg.svd(points - middle, full_matrices=False)[2][0]
    away = np.argwhere(np.ones(own.shape, bool)) - middle
    band = np.abs(away @ np.array([-along[1], along[0]])).reshape(own.shape) <= _BAND * piece.size / CELL
    allowed = (possible & band).astype(np.uint8) | own
    for _ in range(reach):
        own = np.asarray(cv2.dilate(own, np.ones((3, 3), np.uint8))) & allowed
    rows, columns = np.flatnonzero(own.any(axis=1)), np.flatnonzero(own.any(axis=0))
    cells = own[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] > 0
    bounds = (x + int(columns[0]), y + int(rows[0]), x + int(columns[-1]) + 1, y + int(rows[-1]) + 1)
    left, top, right, bottom = (CELL * side for side in bounds)
    return replace(piece, bounds=(left, top, right, bottom), cells=cells)


def _are_long_enough(pieces: list[TextPiece]) -> list[bool]:
    """Whether each piece forms a line of several letters with its neighbors."""
    relative = np.array([piece.length / piece.size for piece in pieces])
    found = np.zeros(len(pieces), bool)
    for group in _groups(pieces, _are_neighbors):
        found[group] = relative[group].sum() >= _LENGTH
    for group in _rows_of_letters(pieces):
        found[group] = True
    return found.tolist()


def _rows_of_letters(pieces: list[TextPiece]) -> Iterator[list[int]]:
    """Yield the numbers of single letters, or a few, with wide spaces, in rows or columns."""
    single = [one for one, piece in enumerate(pieces) if piece.length <= _FEW * piece.size]
    for upright in (False, True):
        for group in _groups([pieces[one] for one in single], _are_spaced, upright=upright):
            if len(group) >= _SPACED:
                yield [single[one] for one in group]


def _groups(pieces: list[TextPiece], are_one: Callable[..., Mask], **how: bool) -> list[list[int]]:
    """Group pieces, by number, by a relation of the bounds and sizes of some with those of one."""
    groups = list(range(len(pieces)))

    def root(one: int) -> int:
        while groups[one] != one:
            groups[one] = groups[groups[one]]
            one = groups[one]
        return one

    sides = np.array([piece.bounds for piece in pieces], np.int64).reshape(-1, 4)
    # Single letters may be narrow.
    sizes = np.array([min(piece.length, _NARROW * piece.size) if how else piece.size for piece in pieces])
    for one in range(len(pieces)):
        related = are_one(sides[:one], sizes[:one], sides[one], sizes[one], **how)
        for other in np.flatnonzero(related).tolist():
            groups[root(other)] = root(one)
    members: dict[int, list[int]] = {}
    for one in range(len(pieces)):
        members.setdefault(root(one), []).append(one)
    return list(members.values())


def _has_several_letters(line: StrokeLine) -> bool:
    """Whether a short piece is a block of small lines, and no large letter."""
    return sum(max(x1 - x0, y1 - y0) >= _SMALL for x0, y0, x1, y1 in line.letters) >= _SEVERAL


def _are_neighbors(
    sides: NDArray[np.int64], sizes: NDArray[np.float64], own: NDArray[np.int64], size: np.float64
) -> NDArray[np.bool_]:
    """Whether pieces, by their bounds and sizes, are neighbors of one on a line."""
    smaller, larger = np.minimum(sizes, size), np.maximum(sizes, size)
    apart = np.maximum(np.maximum(own[:2] - sides[:, 2:], sides[:, :2] - own[2:]), 0)
    alike = larger <= _SIZES * smaller
    return np.asarray(alike & (np.hypot(apart[:, 0], apart[:, 1]) <= _GAP * larger))


def _are_spaced(
    sides: NDArray[np.int64],
    sizes: NDArray[np.float64],
    own: NDArray[np.int64],
    size: np.float64,
    *,
    upright: bool,
) -> NDArray[np.bool_]:
    """Whether pieces are letters beside one on a row, or above or below it in a column, with wide spaces."""
    along, across = (1, 0) if upright else (0, 1)
    smaller, larger = np.minimum(sizes, size), np.maximum(sizes, size)
    gap = np.maximum(own[along] - sides[:, along + 2], sides[:, along] - own[along + 2])
    off = np.abs(sides[:, across] + sides[:, across + 2] - own[across] - own[across + 2]) / 2
    alike = larger <= _EVEN * smaller
    return np.asarray(alike & (gap <= _WIDE * larger) & (off <= _OFF * larger + CELL / 2))


def _is_text(piece: TextPiece, line: StrokeLine, values: Values, least: float) -> bool:
    """Whether a piece has the log odds of text; its letters are counted until they decide."""
    length, ink, large = piece.length / piece.size, len(line.letters), piece.size > _BIG
    enough = letters_needed(piece.chance, length, ink, least, large=large)
    return log_odds(evidence_of(piece, line, values, enough)) >= least


def evidence_of(piece: TextPiece, line: StrokeLine, values: Values, enough: float = inf) -> Evidence:
    """Return what speaks for text in a piece whose connected ink is ``line``.

    Parameters
    ----------
    piece : TextPiece
    line : StrokeLine
    values : array of float32, shape (rows, columns)
    enough : float, optional
        Number of letters from which none are counted any more.
    """
    letters = letter_count(piece, line.size, values, enough)
    length = piece.length / piece.size
    return evidence(piece.chance, length, letters, len(line.letters), large=piece.size > _BIG)


def letter_count(piece: TextPiece, size: float, values: Values, enough: float) -> float:
    """Count the letters of a piece by the look of their ink.

    Parameters
    ----------
    piece : TextPiece
    size : float
        Side of its letters in pixels.
    values : array of float32, shape (rows, columns)
    enough : float
        Number of letters from which none are counted any more.
    """
    import cv2

    rows, columns = values.shape
    around = 3 * CELL
    left, top = max(0, piece.bounds[0] - around), max(0, piece.bounds[1] - around)
    part = values[top : piece.bounds[3] + around, left : piece.bounds[2] + around]
    inside = np.zeros(part.shape, np.uint8)
    own = np.kron(piece.cells.astype(np.uint8), np.ones((CELL, CELL), np.uint8))
    y, x = piece.bounds[1] - top, piece.bounds[0] - left
    own = own[
        : min(rows - piece.bounds[1], part.shape[0] - y), : min(columns - piece.bounds[0], part.shape[1] - x)
    ]
    inside[y : y + own.shape[0], x : x + own.shape[1]] = own
    low, high = float(part[inside > 0].min()), float(part[inside > 0].max())
    picture = np.clip((part - low) * (255 / max(high - low, 1e-6)), 0, 255).astype(np.uint8)
    if size > _BIG:
        sides = [max(1, round(side * _REDUCED / size)) for side in part.shape[::-1]]
        picture = np.asarray(cv2.resize(picture, sides, interpolation=cv2.INTER_AREA), np.uint8)
        inside = np.asarray(cv2.resize(inside, sides, interpolation=cv2.INTER_NEAREST), np.uint8)
    return count_letters(picture, inside > 0, enough)


def line_of(piece: TextPiece, values: Values) -> StrokeLine:
    """The letters of a piece: its connected ink, and its cells in which there is none."""
    import cv2

    rows, columns = values.shape
    around = max(CELL, min(_FARTHEST, round(_AROUND * piece.size)))
    left, top = max(0, piece.bounds[0] - around), max(0, piece.bounds[1] - around)
    right, bottom = min(columns, piece.bounds[2] + around), min(rows, piece.bounds[3] + around)
    inside = np.zeros((bottom - top, right - left), np.uint8)
    own = np.kron(piece.cells.astype(np.uint8), np.ones((CELL, CELL), np.uint8))
    y, x = piece.bounds[1] - top, piece.bounds[0] - left
    own = own[: inside.shape[0] - y, : inside.shape[1] - x]
    inside[y : y + own.shape[0], x : x + own.shape[1]] = own
    contrast = local_contrast(np.ascontiguousarray(values[top:bottom, left:right]))[0]
    near = cv2.dilate(inside, np.ones((2 * around + 1, 2 * around + 1), np.uint8)) > 0
    letters = [
        (x0 + left, y0 + top, x1 + left, y1 + top) for x0, y0, x1, y1 in _letters(contrast, inside > 0, near)
    ]
    size = piece.size
    if len(letters) > 1:
        # A piece of several lines is thicker than its letters; a joined word is longer than its letters.
        sides = [
            min(max(x1 - x0, y1 - y0), _JOINED * min(x1 - x0, y1 - y0) + CELL) for x0, y0, x1, y1 in letters
        ]
        size = min(size, max(float(np.median(sides)), CELL))
    bare = tuple(_bare_cells(piece, letters))
    if not letters:
        return StrokeLine(bare, size)
    return StrokeLine(tuple(letters), size, bare)


def _letters(contrast: NDArray[np.float32], inside: Mask, near: Mask) -> Iterator[Area]:
    """Bounds of the connected ink that lies in the cells of a piece, with what of it is around them."""
    import cv2

    values = contrast[inside]
    # Ink takes less room than its ground and differs more from the mean.
    bright = float(((values - values.mean()) ** 3).mean()) >= 0
    ink = ((contrast if bright else -contrast) >= _INK) & near
    count, labels, stats, _ = cv2.connectedComponentsWithStats(ink.astype(np.uint8), connectivity=8)
    side = _dot_side(np.asarray(stats[1:], np.int32))
    if side:
        # Letters of dots, whose gaps are about as wide as the dots.
        window = np.ones((2 * side + 1, 2 * side + 1), np.uint8)
        joined = cv2.morphologyEx(ink.astype(np.uint8), cv2.MORPH_CLOSE, window)
        count, labels, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    touching = np.bincount(labels[inside], minlength=count)
    for label in range(1, count):
        x, y, width, height, size = (int(value) for value in stats[label])
        if size >= _DOT and 2 * touching[label] >= size:
            yield x, y, x + width, y + height


def _dot_side(pieces: NDArray[np.int32]) -> int:
    """Side of the dots that make up ink, in pixels; 0 if sizes or distances vary, as those of noise do."""
    from cv2 import CC_STAT_AREA, CC_STAT_HEIGHT, CC_STAT_LEFT, CC_STAT_TOP, CC_STAT_WIDTH

    longer = pieces[:, CC_STAT_WIDTH : CC_STAT_HEIGHT + 1].max(axis=1)
    if len(pieces) <= _DOTS or np.median(longer) >= _SMALL:
        return 0
    areas = pieces[:, CC_STAT_AREA].astype(np.float64)
    alike = np.abs(np.log2(areas / np.median(areas))) <= 1
    if areas[alike].sum() < _ALIKE * areas.sum():
        return 0
    sides = pieces[:, CC_STAT_WIDTH : CC_STAT_HEIGHT + 1]
    far = _to_next(pieces[:, CC_STAT_LEFT : CC_STAT_TOP + 1] + sides / 2)
    pitch = float(np.median(far))
    regular = float((np.abs(far - pitch) <= _PITCH * pitch).mean())
    return int(np.median(longer)) if regular >= _REGULAR else 0


def _to_next(centers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances of some dots, chosen evenly, from the dot next to each."""
    chosen = centers[:: -(-len(centers) // _MOST_DOTS)]
    away = np.hypot(*(chosen[:, None, at] - centers[None, :, at] for at in (0, 1)))
    away[away == 0] = inf
    return np.asarray(away.min(axis=1))


def _bare_cells(piece: TextPiece, letters: list[Area]) -> Iterator[Area]:
    """Runs of cells of a piece that no letter covers."""
    left, top, right, bottom = piece.bounds
    covered = np.zeros((bottom - top, right - left), np.float32)
    for x0, y0, x1, y1 in letters:
        covered[max(0, y0 - top) : max(0, y1 - top), max(0, x0 - left) : max(0, x1 - left)] = 1
    rows, columns = piece.cells.shape
    share = covered.reshape(rows, CELL, columns, CELL).mean(axis=(1, 3))
    bare = piece.cells & (share < _COVERED)
    for row in np.flatnonzero(bare.any(axis=1)).tolist():
        for column in np.flatnonzero(bare[row]).tolist():
            x, y = left + CELL * column, top + CELL * row
            yield x, y, x + CELL, y + CELL
