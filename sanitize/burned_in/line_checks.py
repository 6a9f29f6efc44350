"""What a line of text, as OCR read it, may be: a part of another, a speck of noise, anatomy."""

from __future__ import annotations

from medsanitize.sanitize.burned_in.boxes import TextBox

# Most letters of a fragment.
_FEW = 3
# Different letters of text, and of uncertain text.
_DIFFERENT, _DIFFERENT_IF_UNCERTAIN = 3, 5
# Height (pixels) of letters that OCR reads better than at this certainty.
_PLAIN, _READ = 20, 0.5

LARGE = 40
"""Height (pixels) above which organs may be read as letters."""
SURE = 0.9
"""Certainty from which a line is read beyond doubt."""
ACQUITTED = 0.85
"""Certainty from which a harmless reading acquits what is there."""


def is_same_word(box: TextBox, other: TextBox) -> bool:
    """Return whether two boxes touch end to end: no gap of a space's width divides a word."""
    shared = min(box.bottom, other.bottom) - max(box.top, other.top)
    along = min(box.right, other.right) - max(box.left, other.left)
    if box.bottom - box.top > box.right - box.left:
        shared, along = along, shared
    return along >= 0 and 2 * shared > min(box.height, other.height)


def may_be_anatomy(box: TextBox) -> bool:
    """Return whether a box, uncertain or of the same few letters, may be anatomy or noise."""
    different = len(set(filter(str.isalnum, box.text.casefold())))
    if box.height > LARGE:
        return box.score < SURE or different < _DIFFERENT
    if box.height > _PLAIN and box.score < _READ:
        return True
    return box.score < ACQUITTED and different < _DIFFERENT_IF_UNCERTAIN


def is_speck(box: TextBox) -> bool:
    """Return whether a box has a few letters at most, read with low certainty."""
    return sum(letter.isalnum() for letter in box.text) <= _FEW and box.score < SURE


def is_part(box: TextBox, line: TextBox) -> bool:
    """Return whether the letters of a box are a substring of those of a line that was read with certainty."""
    part, whole = ("".join(filter(str.isalnum, one.text)).casefold() for one in (box, line))
    return line.score >= SURE and part in whole
