"""Selection of the lines of a frame that identify a person."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf
from typing import Protocol, TypeVar

from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.text.machine_lines import is_machine_line

Terms = TypeVar("Terms", contravariant=True)

LEGIBLE = 0.6
"""Certainty from which a line counts as legible."""
# Least letters of an illegible line that identifies; largest height (pixels) of it and of a line at the edge.
_LETTERS = 5
_LARGEST = 64
# Ratio of height to width from which a line is vertical.
_TALL = 1.5
# Boxes of one line: largest gap in line heights, and largest ratio of their heights.
_GAP = 3.0
_SIZES = 2.0
# Largest gap (line heights) to a line to which a fragment belongs; less for laterality and projection.
_BESIDE = 1.3
_TOUCHING = 0.5
# Largest gap (line heights) of boxes between which no space fits: parts of one word.
_NO_SPACE = 0.1
# Part of the height of a captured screen, at its top and at its bottom, that names institutions and people.
_EDGE = 0.12
# Most letters of a fragment.
_SCRAP = 3
_SIDES = frozenset("R L RT LT RE LI D G DX SX H V AP PA LAT".split())
_LABEL_ENDS = (":", "：")


class TextClassifier(Protocol[Terms]):
    """Decides which text identifies; implemented by `TextCleaner`."""

    def identifying(self, text: str, terms: Terms, *, noisy: bool) -> bool:
        """Return whether ``text`` identifies a person; ``noisy`` if it was read by OCR."""


def find_identifying_boxes(
    boxes: tuple[TextBox, ...],
    cleaner: TextClassifier[Terms],
    terms: Terms,
    *,
    screen_rows: int | None = None,
) -> tuple[TextBox, ...]:
    """Select the boxes that identify a person, by their own text and by that of their neighbors.

    Parameters
    ----------
    boxes : tuple of TextBox
        All boxes of one frame.
    cleaner : TextClassifier
    terms
        Identifiers of the patient and study.
    screen_rows : int, optional
        Height of the frame of a captured screen, at whose edges only lines of the machine stay.

    Returns
    -------
    tuple of TextBox
        The boxes to blank, in the order of ``boxes`` and with unchanged bounds (see `area_to_blank`).
    """
    # Patches without letters are anatomy, rulers or gray scales; illegible text may be a name (fail closed).
    read = [box for box in boxes if _letters(box)]
    chosen = {box for box in read if _unreadable(box)}
    legible = [box for box in read if box.score >= LEGIBLE]
    chosen |= {box for box in legible if cleaner.identifying(box.text, terms, noisy=True)}
    # Harmless words may form a name together, or be the value of a label such as "Name:".
    for group in _groups(legible):
        rest = [box for box in group if box not in chosen]
        if _together(rest, cleaner, terms) or (rest and _labeled(group) and _together(group, cleaner, terms)):
            chosen.update(group)
    if screen_rows is not None:
        for line in _lines([box for box in legible if _at_edge(box, screen_rows)], upright=False):
            if not is_machine_line(" ".join(box.text for box in line)):
                chosen.update(line)
    for parts in _tokens(legible):
        # The reader may make two boxes of one word, of which a part alone is an ordinary word.
        if any(box in chosen for box in parts) or _is_hidden_name(parts, cleaner, terms):
            chosen.update(parts)
    for upright in (False, True):
        mine = [box for box in read if _upright(box) is upright or _letters(box) <= _SCRAP]
        for line in _lines(mine, upright):
            chosen.update(list(_scraps(line, chosen, upright)))
    return tuple(box for box in boxes if box in chosen)


def _at_edge(box: TextBox, rows: int) -> bool:
    """Whether the middle of a line is near the top or the bottom of the screen; large letters are anatomy."""
    middle = (box.top + box.bottom) / 2
    near = middle < _EDGE * rows or middle > (1 - _EDGE) * rows
    return near and box.height <= _LARGEST and not _upright(box)


def _tokens(boxes: list[TextBox]) -> Iterator[list[TextBox]]:
    """Boxes of a line between which no space fits, in reading order."""
    for line in _lines([box for box in boxes if not _upright(box)], upright=False):
        parts = line[:1]
        for before, box in pairwise(line):
            if box.left - before.right > _NO_SPACE * min(before.height, box.height):
                yield from [parts] if len(parts) > 1 else []
                parts = []
            parts.append(box)
        yield from [parts] if len(parts) > 1 else []


def _is_hidden_name(parts: list[TextBox], cleaner: TextClassifier[Terms], terms: Terms) -> bool:
    """Whether parts of a word identify when they are joined, unless each is of the machine ("GE" "2D")."""
    if all(is_machine_line(box.text) for box in parts):
        return False
    return cleaner.identifying("".join(box.text.strip() for box in parts), terms, noisy=True)


def _labeled(group: list[TextBox]) -> bool:
    """Whether the group begins with a label, after which an ordinary word may be a name."""
    ends = (group[0], group[-1]) if _upright(group[0]) else group[:1]
    return any(_is_label(end) for end in ends)


def _is_label(box: TextBox) -> bool:
    return box.text.rstrip().endswith(_LABEL_ENDS)


def _scraps(line: list[TextBox], chosen: set[TextBox], upright: bool) -> Iterator[TextBox]:
    """Fragments and labels directly next to a chosen box, to which they belong."""
    for one, other in pairwise(line):
        gap = _along(other, upright)[0] - _along(one, upright)[1]
        for box, beside in ((one, other), (other, one)):
            if beside in chosen and gap < _reach(box) * max(one.height, other.height):
                yield box


def _reach(box: TextBox) -> float:
    """Largest gap (line heights) at which a box belongs to a line; small for laterality and projection."""
    if _letters(box) > _SCRAP and not _is_label(box):
        return -inf
    return _TOUCHING if box.text.strip(" .").upper() in _SIDES else _BESIDE


def _letters(box: TextBox) -> int:
    return sum(char.isalnum() for char in box.text)


def _unreadable(box: TextBox) -> bool:
    """Whether a box has several letters but no legible text; large letters are always legible."""
    return box.score < LEGIBLE and _letters(box) >= _LETTERS and box.height <= _LARGEST


def _together(group: list[TextBox], cleaner: TextClassifier[Terms], terms: Terms) -> bool:
    """Whether the joined text of a group identifies; vertical groups are joined in both directions."""
    if len(group) < 2:
        return False
    words = [box.text for box in group]
    orders = [words, words[::-1]] if _upright(group[0]) else [words]
    return any(cleaner.identifying(" ".join(order), terms, noisy=True) for order in orders)


def _groups(boxes: list[TextBox]) -> Iterator[list[TextBox]]:
    """Boxes that belong together: those of one line, and a label with the value below it."""
    for upright in (False, True):
        mine = [box for box in boxes if _upright(box) is upright]
        yield from (line for line in _lines(mine, upright) if len(line) > 1)
    flat = sorted((box for box in boxes if not _upright(box)), key=lambda box: (box.top, box.left))
    for label in flat:
        if _is_label(label):
            yield from ([label, box] for box in flat if _below(label, box))


def _lines(boxes: list[TextBox], upright: bool) -> list[list[TextBox]]:
    """Group boxes by line, in reading order."""
    lines: list[list[TextBox]] = []
    for box in sorted(boxes, key=lambda one: _along(one, upright)):
        for line in lines:
            if _follows(line[-1], box, upright):
                line.append(box)
                break
        else:
            lines.append([box])
    return lines


def _follows(before: TextBox, after: TextBox, upright: bool) -> bool:
    if not _alike(before, after):
        return False
    low, high = _along(after, not upright)
    low_before, high_before = _along(before, not upright)
    shared = min(high, high_before) - max(low, low_before)
    gap = _along(after, upright)[0] - _along(before, upright)[1]
    smaller = min(before.height, after.height)
    return shared * 2 > min(high - low, high_before - low_before) and -smaller < gap < _GAP * smaller


def _below(label: TextBox, box: TextBox) -> bool:
    gap = box.top - label.bottom
    aligned = abs(box.left - label.left) <= 2 * label.height
    return box is not label and _alike(label, box) and aligned and -label.height / 2 < gap < label.height


def _alike(one: TextBox, other: TextBox) -> bool:
    """Whether two boxes have letters of similar size."""
    return max(one.height, other.height) <= _SIZES * min(one.height, other.height)


def _along(box: TextBox, upright: bool) -> tuple[int, int]:
    return (box.top, box.bottom) if upright else (box.left, box.right)


def _upright(box: TextBox) -> bool:
    """Whether the line is vertical."""
    return box.bottom - box.top > _TALL * (box.right - box.left)
