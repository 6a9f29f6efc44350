"""Texts folded to letters and digits, with the way back to the characters they came from."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

_PLAIN: Final = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ß": "ss"}
_WIDE: Final = {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "æ": "ae"}
_NO_WORD: Final = "".join(chr(code) for code in range(128) if not chr(code).isalnum())
_DELETE: Final = str.maketrans("", "", _NO_WORD)


def fold_letters(text: str, *, wide: bool = False) -> str:
    """Letters and digits of ``text``, lower case, accents off; ``wide`` writes ü as ue, ø as oe.

    Examples
    --------
    >>> squeeze("O'Brien, Zoë"), squeeze("Müller", wide=True)
    ('obrienzoe', 'mueller')
    """
    if text.isascii():
        return text.lower().translate(_DELETE)
    return "".join(_folded(char, wide) for char in text)


def letter_offsets(text: str, *, wide: bool = False) -> list[int]:
    """For each character of ``fold_letters(text)`` its place in ``text``."""
    if text.isascii():
        return [place for place, char in enumerate(text) if char.isalnum()]
    return [place for place, char in enumerate(text) for _ in _folded(char, wide)]


def is_syllabic(char: str) -> bool:
    """Whether a character belongs to a script that sets no spaces between words (CJK, Hangul, Kana)."""
    return char >= "\u2e80"


@lru_cache(maxsize=8192)
def _folded(char: str, wide: bool) -> str:
    lower = char.lower() if char != "İ" else "i"
    if wide and lower in _WIDE:
        return _WIDE[lower]
    if lower in _PLAIN:
        return _PLAIN[lower]
    if is_syllabic(char):
        return "".join(one for one in unicodedata.normalize("NFKC", char).lower() if one.isalnum())
    spread = unicodedata.normalize("NFKD", char.casefold())
    return "".join(one for one in spread if one.isalnum() and not unicodedata.combining(one))
