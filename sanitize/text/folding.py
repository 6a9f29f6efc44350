"""Folding of texts to letters and digits, with a mapping back to the original characters."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

# Letters that Unicode does not decompose into a base letter and an accent.
_PLAIN: Final = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ß": "ss"}
_WIDE: Final = {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "æ": "ae"}
_NO_WORD: Final = "".join(chr(code) for code in range(128) if not chr(code).isalnum())
_DELETE: Final = str.maketrans("", "", _NO_WORD)


def fold_letters(text: str, *, wide: bool = False) -> str:
    """Reduce a text to letters and digits in lower case without accents.

    Parameters
    ----------
    text : str
    wide : bool
        Replace ü by ue, ø by oe and so on, as systems without these letters do.

    Examples
    --------
    >>> fold_letters("O'Brien, Zoë"), fold_letters("Müller", wide=True)
    ('obrienzoe', 'mueller')
    """
    if text.isascii():
        return text.lower().translate(_DELETE)
    return "".join(_folded(char, wide) for char in text)


def letter_offsets(text: str, *, wide: bool = False) -> list[int]:
    """Return, for each character of ``fold_letters(text)``, its position in ``text``."""
    if text.isascii():
        return [place for place, char in enumerate(text) if char.isalnum()]
    return [place for place, char in enumerate(text) for _ in _folded(char, wide)]


def is_syllabic(char: str) -> bool:
    """Return whether a character is of a script written in syllables or ideographs (CJK, Hangul, Kana)."""
    # The CJK blocks begin at U+2E80.
    return char >= "\u2e80"


@lru_cache(maxsize=8192)
def _folded(char: str, wide: bool) -> str:
    # Python lowers İ to two characters, an i and a combining dot.
    lower = char.lower() if char != "İ" else "i"
    if wide and lower in _WIDE:
        return _WIDE[lower]
    if lower in _PLAIN:
        return _PLAIN[lower]
    # NFKD would split a Hangul syllable into its letters.
    if is_syllabic(char):
        return "".join(one for one in unicodedata.normalize("NFKC", char).lower() if one.isalnum())
    spread = unicodedata.normalize("NFKD", char.casefold())
    return "".join(one for one in spread if one.isalnum() and not unicodedata.combining(one))
