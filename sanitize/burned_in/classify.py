"""Which of the lines found in a frame identify somebody."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf
from typing import Protocol, TypeVar

from medsanitize.sanitize.burned_in.boxes import TextBox
from medsanitize.sanitize.burned_in.ocr import Frame, TextReader

Terms = TypeVar("Terms", contravariant=True)

LEGIBLE = 0.6
"""Certainty from which a line counts as read."""
_LETTERS = 5
_LARGEST = 64
_TALL = 1.5
_GAP = 3.0
_SIZES = 2.0
_BESIDE = 1.3
_TOUCHING = 0.5
_SCRAP = 3
_SIDES = frozenset("R L RT LT RE LI D G DX SX H V AP PA LAT".split())
_LABEL_ENDS = (":", "：")


class TextClassifier(Protocol[Terms]):
    """What tells identifying text from other text; `TextCleaner` is one."""

    def identifying(self, text: str, terms: Terms, *, noisy: bool) -> bool:
        """Whether ``text`` identifies somebody; ``noisy`` when it was read by machine."""


def find_identifying_boxes(
    boxes: tuple[TextBox, ...], cleaner: TextClassifier[Terms], terms: Terms
) -> tuple[TextBox, ...]:
    """The boxes that identify somebody, each line judged alone and with what belongs to it.

    What is evidently text and cannot be read identifies. A patch in which next to nothing is read is
    anatomy, a ruler or a wedge of greys: it does not.

    Parameters
    ----------
    boxes : tuple of TextBox
        All that was found in one frame.
    cleaner : Cleaner
    terms
        What is known of the patient, the study and the run.

    Returns
    -------
    tuple of TextBox
        Those to blank, in the order given, with their bounds as found (`grow` says what to blank).
    """
    read = [box for box in boxes if _letters(box)]
    chosen = {box for box in read if _unreadable(box)}
    legible = [box for box in read if box.score >= LEGIBLE]
    chosen |= {box for box in legible if cleaner.identifying(box.text, terms, noisy=True)}
    for group in _groups(legible):
        rest = [box for box in group if box not in chosen]
        if _together(rest, cleaner, terms) or (
            rest and _labelled(group) and _together(group, cleaner, terms)
        ):
            chosen.update(group)
    for upright in (False, True):
        mine = [box for box in read if _upright(box) is upright or _letters(box) <= _SCRAP]
        for line in _lines(mine, upright):
            chosen.update(list(_scraps(line, chosen, upright)))
    return tuple(box for box in boxes if box in chosen)


def find_remaining_text(
    reader: TextReader, frame: Frame, cleaner: TextClassifier[Terms], terms: Terms
) -> tuple[TextBox, ...]:
    """What still identifies in a frame after blanking: empty when the blanking is proved."""
    return find_identifying_boxes(reader.read(frame), cleaner, terms)


def _labelled(group: list[TextBox]) -> bool:
    """Whether the group begins with a label, which may make a plain word after it a name."""
    ends = (group[0], group[-1]) if _upright(group[0]) else group[:1]
    return any(_is_label(end) for end in ends)


def _is_label(box: TextBox) -> bool:
    return box.text.rstrip().endswith(_LABEL_ENDS)


def _scraps(line: list[TextBox], chosen: set[TextBox], upright: bool) -> Iterator[TextBox]:
    """A few letters, or a label, straight beside what is chosen: they belong to it."""
    for one, other in pairwise(line):
        gap = _along(other, upright)[0] - _along(one, upright)[1]
        for box, beside in ((one, other), (other, one)):
            if beside in chosen and gap < _reach(box) * max(one.height, other.height):
                yield box


def _reach(box: TextBox) -> float:
    """How far from a line a box may stand and go with it, in heights; a side or projection stands alone."""
    if _letters(box) > _SCRAP and not _is_label(box):
        return -inf
    return _TOUCHING if box.text.strip(" .").upper() in _SIDES else _BESIDE


def _letters(box: TextBox) -> int:
    return sum(char.isalnum() for char in box.text)


def _unreadable(box: TextBox) -> bool:
    """Whether several letters stand here that cannot be told; large ones always can."""
    return box.score < LEGIBLE and _letters(box) >= _LETTERS and box.height <= _LARGEST


def _together(group: list[TextBox], cleaner: TextClassifier[Terms], terms: Terms) -> bool:
    """Whether a group read as one line identifies, from either end where it runs upwards or downwards."""
    if len(group) < 2:
        return False
    words = [box.text for box in group]
    orders = [words, words[::-1]] if _upright(group[0]) else [words]
    return any(cleaner.identifying(" ".join(order), terms, noisy=True) for order in orders)


def _groups(boxes: list[TextBox]) -> Iterator[list[TextBox]]:
    """Boxes that read as one: those of one line, and a label with the value below it."""
    for upright in (False, True):
        mine = [box for box in boxes if _upright(box) is upright]
        yield from (line for line in _lines(mine, upright) if len(line) > 1)
    flat = sorted((box for box in boxes if not _upright(box)), key=lambda box: (box.top, box.left))
    for label in flat:
        if _is_label(label):
            yield from ([label, box] for box in flat if _below(label, box))


def _lines(boxes: list[TextBox], upright: bool) -> list[list[TextBox]]:
    """Boxes of one line, in order along it."""
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
    """Whether two boxes are of letters of about one size."""
    return max(one.height, other.height) <= _SIZES * min(one.height, other.height)


def _along(box: TextBox, upright: bool) -> tuple[int, int]:
    return (box.top, box.bottom) if upright else (box.left, box.right)


def _upright(box: TextBox) -> bool:
    """Whether the line runs from top to bottom or back."""
    return box.bottom - box.top > _TALL * (box.right - box.left)
