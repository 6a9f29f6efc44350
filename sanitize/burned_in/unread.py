"""Areas of a frame that look like text and that no line read with certainty accounts for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from medsanitize.sanitize.burned_in.areas import covered_fraction, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.strokes import StrokeLine
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from numpy.typing import NDArray

# Letters that were read, per piece of ink in the line, from which the reading accounts for the ink.
_READ = 0.45
# Pieces of ink that no line accounts for: so many, or this part of their group, are unread text.
_FEW, _MOSTLY = 3, 0.5
# Part of a letter of a harmless line that may be blanked: with more, its word is blanked.
_TOUCHED = 0.2
# Most times that words next to blanked ones are looked for.
_ROUNDS = 3
# Gap (letter sizes) below which letters are of one word, and their least shared height.
_WORD, _LEVEL = 0.3, 0.4
# Margin (letter sizes), which contains dots and accents; sides (letter sizes) of a group on one line.
_MARGIN, _FLAT = 0.35, 2.2
# Largest distance (letter sizes) of the centers of letters between which another one may be.
_NEIGHBOR = 2.5

Bounds = NDArray[np.int64]


def unread_areas(
    lines: Sequence[StrokeLine],
    harmless: Sequence[TextBox],
    blanked: Sequence[Area],
    shape: tuple[int, int],
) -> tuple[Area, ...]:
    """Return the areas to blank: unread text, and whole words of which a part is blanked.

    Parameters
    ----------
    lines : sequence of StrokeLine
    harmless : sequence of TextBox
        Lines that were read with certainty and do not identify.
    blanked : sequence of Area
        Areas that are blanked anyway.
    shape : tuple of int
        Rows and columns of the frame.
    """
    found: tuple[Area, ...] = ()
    # A word that is blanked may cut the one beside it.
    for _ in range(_ROUNDS):
        before, cutting = found, [*blanked, *found]
        found = merge_areas(area for line in lines for area in _of_line(line, harmless, cutting, shape))
        if found == before:
            break
    return found


def _of_line(
    line: StrokeLine, harmless: Sequence[TextBox], blanked: Sequence[Area], shape: tuple[int, int]
) -> Iterator[Area]:
    """Areas of unread letters of one line, and of its words of which a part is blanked."""
    pieces = (*line.letters, *line.doubtful)
    sure = len(line.letters)
    read = _accounted(pieces, sure, harmless)
    unread = {at for at, known in enumerate(read[:sure]) if not known}
    if len(unread) < min(_FEW, max(1, _MOSTLY * sure)):
        unread = set()
    elif len(unread) >= _MOSTLY * sure:
        unread |= {at for at, known in enumerate(read) if not known}
    shares = [max((covered_fraction(area, one) for one in blanked), default=0.0) for area in pieces]
    # A line that was read completely as harmless may touch the margin of a blanked one.
    cut = {at for at, share in enumerate(shares) if share > (_TOUCHED if read[at] else 0)}
    yield from _areas(pieces, sorted(unread | _words(pieces, cut, line.size)), line.size, shape)


def _accounted(pieces: Sequence[Area], sure: int, harmless: Sequence[TextBox]) -> list[bool]:
    """Whether each piece is inside a line whose text has enough letters for the sure ones in it."""
    read = [False] * len(pieces)
    for box in harmless:
        inside = [at for at, area in enumerate(pieces) if _is_center_inside(area, box)]
        letters = sum(at < sure for at in inside)
        if letters and sum(map(str.isalnum, box.text)) >= _READ * letters:
            for at in inside:
                read[at] = True
    return read


def _is_center_inside(area: Area, box: TextBox) -> bool:
    x, y = (area[0] + area[2]) / 2, (area[1] + area[3]) / 2
    return box.left <= x <= box.right and box.top <= y <= box.bottom


def _words(pieces: Sequence[Area], cut: set[int], size: float) -> set[int]:
    """Extend letters to their words: no gap of the width of a space divides a word."""
    whole, waiting = set(cut), list(cut)
    while waiting:
        one = pieces[waiting.pop()]
        for at, other in enumerate(pieces):
            gap = max(one[0], other[0]) - min(one[2], other[2])
            shared = min(one[3], other[3]) - max(one[1], other[1])
            level = shared >= _LEVEL * min(one[3] - one[1], other[3] - other[1])
            if at not in whole and level and gap <= _WORD * size:
                whole.add(at)
                waiting.append(at)
    return whole


def _areas(
    pieces: Sequence[Area], chosen: Sequence[int], size: float, shape: tuple[int, int]
) -> Iterator[Area]:
    """Areas with a margin: one for a horizontal or vertical line, else one for each two neighbors."""
    if not chosen:
        return
    letters = np.array([pieces[at] for at in chosen])
    around = np.concatenate([letters[:, :2].min(axis=0), letters[:, 2:].max(axis=0)])
    if min(around[2] - around[0], around[3] - around[1]) <= _FLAT * size and _is_dense(letters, size):
        letters = around[None]
    else:
        letters = np.concatenate([letters, _joined(letters, size)])
    margin = max(2, round(_MARGIN * size))
    for left, top, right, bottom in letters.tolist():
        yield (
            max(0, left - margin),
            max(0, top - margin),
            min(shape[1], right + margin),
            min(shape[0], bottom + margin),
        )


def _joined(letters: Bounds, size: float) -> Bounds:
    """Bounds around letters and their neighbors, between which a letter may have been missed."""
    centers = (letters[:, :2] + letters[:, 2:]) / 2
    apart = np.hypot(*(centers[:, None] - centers[None]).transpose(2, 0, 1))
    one, other = np.nonzero(np.triu(apart <= _NEIGHBOR * size, 1))
    low = np.minimum(letters[one, :2], letters[other, :2])
    return np.concatenate([low, np.maximum(letters[one, 2:], letters[other, 2:])], axis=1)


def _is_dense(letters: Bounds, size: float) -> bool:
    """Whether no harmless text fits between the letters."""
    across = letters[:, 2:].max(axis=0) - letters[:, :2].min(axis=0)
    along = 0 if across[0] >= across[1] else 1
    order = letters[np.argsort(letters[:, along])]
    ends = np.maximum.accumulate(order[:, along + 2])
    return bool((order[1:, along] - ends[:-1] <= 2 * size).all())
