"""Distinction between an identifier in a text and the same characters by chance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from medsanitize.sanitize.text.name_variants import IdentifierForm

_UNIT: Final = re.compile(
    r"\s?(?:[mcµu]?m|[mµu]?s(?:ec)?|min|k[vV]p?|m?[aA]s?|m[gl]|ml/s|[kM]?Hz|°|%|x\s?\d|/|G[yY]|HU|bpm|mmHg|T"
    r"|days?|weeks?|months?|years?|images?|slices?|views?)(?![^\W_])|x\d|\.\d"
)
_APART: Final = re.compile(r"[\s.,;:'’`´\-_/^()\[\]#*|\\=+&]{1,3}")
_RUNS: Final = re.compile(r"\+?\d++(?:[ .\-/_()]{1,3}+\d++)*+")
_ABROAD: Final = re.compile(r"(?:\+\s?|00)\d{1,3}[\s().\-/0]{0,5}$|\(?\+?$")
_ADDRESSES: Final = (
    "さん",
    "様",
    "さま",
    "氏",
    "先生",
    "君",
    "医生",
    "医師",
    "医师",
    "女士",
    "小姐",
    "씨",
    "님",
)
_HEAD: Final = 12
_LONG_NAME: Final = 9
_LONG_CODE: Final = 12
_FREE: Final = 7
_FREE_CODE: Final = 5
_CROSSING: Final = 6
_BESIDE_LETTERS: Final = 5
_SHORT: Final = 3


@dataclass(frozen=True, slots=True)
class TextCut:
    """A half-open span of characters to cut, and the rule that found it."""

    start: int
    end: int
    rule: str


def placed(text: str, form: IdentifierForm, places: list[int]) -> TextCut | None:
    """Return the cut for a spelling found in a text, if its surroundings fit the shape of the form.

    * ``syllables`` match anywhere.
    * A ``word`` must not touch a letter, unless it is a name of nine or more letters without separators. A
      single character, such as 森 or 王, may be followed by a form of address.
    * ``digits`` must be whole runs: with five or more digits they may touch letters, with six or more they
      may contain separators.
    * A ``code`` or ``phrase`` must not touch a letter or digit, unless it is a code of twelve or more
      characters without separators; a ``login`` must not contain separators.

    Parameters
    ----------
    text : str
    form : IdentifierForm
        The form that was found.
    places : list of int
        Position in ``text`` of each character of ``form.key``.

    Returns
    -------
    TextCut or None
        None if the match is taken for chance.
    """
    start, end = places[0], places[-1] + 1
    if form.shape == "syllables":
        return TextCut(start, end, form.rule)
    if form.shape == "digits":
        return _number(text, form, start, end)
    before, after = text[start - 1 : start], text[end : end + 1]
    whole = end - start == len(form.key)
    if form.shape == "word":
        addressed = len(form.key) == 1 and text.startswith(_ADDRESSES, end)
        alone = not before.isalpha() and (not after.isalpha() or addressed)
        long = whole and len(form.key) >= _LONG_NAME and form.rule == "known-name"
    else:
        alone = not before.isalnum() and not after.isalnum() and (whole or form.shape != "login")
        long = whole and len(form.key) >= _LONG_CODE and form.shape == "code"
    return TextCut(start, end, form.rule) if (alone or long) and _holds_together(text, form, places) else None


def _holds_together(text: str, form: IdentifierForm, places: list[int]) -> bool:
    """Return whether the separators inside a match fit the form: ``as a`` is not ``Asa``."""
    if places[-1] - places[0] < len(places):
        return True
    gaps = [place for place in range(1, len(places)) if places[place] - places[place - 1] > 1]
    if any(not _APART.fullmatch(text, places[place - 1] + 1, places[place]) for place in gaps):
        return False
    if form.shape == "code":
        return len(places) >= _FREE_CODE or all(text[places[place] - 1] in "-_" for place in gaps)
    if form.shape == "phrase" or len(places) >= _FREE or len(gaps) == len(places) - 1:
        return True
    return all(place in form.breaks or text[places[place] - 1] in "'’`´-^_." for place in gaps)


def _number(text: str, form: IdentifierForm, start: int, end: int) -> TextCut | None:
    size = len(form.key)
    inner = text[start:end]
    if not inner.isdigit() and (size < _CROSSING or not _RUNS.fullmatch(inner)):
        return None
    # Systems pad numbers with zeros, which the form does not have.
    while start and text[start - 1] == "0":
        start -= 1
    # The country code was removed from the form; it is cut with the number.
    if form.rule == "known-phone":
        head = text[max(0, start - _HEAD) : start]
        abroad = _ABROAD.search(head)
        start -= len(head) - abroad.start() if abroad else 0
    before, after = text[start - 1 : start], text[end : end + 1]
    if before.isdigit() or after.isdigit():
        return None
    if size < _BESIDE_LETTERS and (before.isalpha() or after.isalpha()):
        return None
    # Three digits with a unit, or after a decimal point, are a measurement.
    if size <= _SHORT and (_UNIT.match(text, end) or before in (".", "x", "/")):
        return None
    # Letters attached to a number are its prefix or suffix ("MRN12345").
    while start and text[start - 1].isalpha():
        start -= 1
    while end < len(text) and text[end].isalpha():
        end += 1
    return TextCut(start, end, form.rule)
