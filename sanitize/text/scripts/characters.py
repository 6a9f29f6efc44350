"""Letters, marks and punctuation of the scripts that have a vocabulary."""

from __future__ import annotations

import re
from typing import Final

_RANGES: Final = {
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "cyrillic": "\u0400-\u04ff",
    "hebrew": "\u0590-\u05ff",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "devanagari": "\u0900-\u097f",
    "thai": "\u0e00-\u0e7f",
    "hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3",
    "cjk": "\u3005\u3006\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
}
MARKS: Final = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u093c"
    "\u093e-\u094f\u0951-\u0957\u0962\u0963\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
)
"""Vowel signs and points, which Python's ``\\w`` does not match, as ranges of a character class."""
PUNCTUATION: Final = "、。「」『』（），：；！？・〜～［］【】〈〉《》％＋－／．＝、،؛؟٪।॥·׳״־№"
"""Punctuation that is kept, as characters of a class."""
WORD: Final = rf"(?:[^\W_]|[{MARKS}])"
"""One character of a word."""

_ANY: Final = re.compile(f"[{''.join(_RANGES.values())}\uff10-\uff19\uff21-\uff5a]")
_SCRIPTS: Final = {name: re.compile(f"[{span}]") for name, span in _RANGES.items()}
UNSPACED: Final = ("cjk", "thai")
"""Scripts without spaces between words."""
_GLUED: Final = (*UNSPACED, "hangul")
_DIGITS: Final = {
    start + value: str(value) for start in (0x0660, 0x06F0, 0x0966, 0x0E50, 0xFF10) for value in range(10)
}
_LETTERS: Final = {code: chr(code - 0xFEE0) for code in (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}
_SIGNS: Final = str.maketrans("、。（），：；！？％＋－／．＝［］～，،؛؟٪।־", ",.(),:;!?%+-/.=[]~,,;?%.-")
# Spaces that do not break, of a fixed width, or ideographic; hyphens.
_SPACES: Final = dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
_HYPHENS: Final = dict.fromkeys((0x2010, 0x2011, 0x2012), "-")
_ASCII: Final[dict[int, str | int]] = {**_DIGITS, **_LETTERS, **_SIGNS, **_SPACES, **_HYPHENS}
_MARK: Final = re.compile(f"[{MARKS}]")


def has_script(text: str) -> bool:
    """Return whether a text contains a letter or digit of one of these scripts."""
    return not text.isascii() and _ANY.search(text) is not None


def count_letters(text: str) -> int:
    """Return the number of letters and digits of these scripts in a text."""
    return 0 if text.isascii() else len(_ANY.findall(text))


def script_of(char: str) -> str:
    """Return the script of a character, empty if it has no vocabulary."""
    if char.isascii():
        return ""
    return next((name for name, letters in _SCRIPTS.items() if letters.match(char)), "")


def with_ascii_signs(text: str) -> str:
    """Replace digits, full-width letters, punctuation and spaces by ASCII, character by character.

    Examples
    --------
    >>> with_ascii_signs("٢٠٢١، ＣＴ")
    '2021, CT'
    """
    return text if text.isascii() else text.translate(_ASCII)


def with_letters_for_marks(text: str) -> str:
    """Replace vowel signs by letters, for patterns that take a sign for the end of a word."""
    return text if text.isascii() else _MARK.sub("ー", text)


def without_unspaced(text: str, start: int, end: int) -> tuple[int, int]:
    """Shorten a span by the letters before it that no space divides from it: ``邮箱name@mail.example``.

    Only spans that end in another script are shortened; an address in Chinese stays whole.
    """
    if script_of(text[end - 1]) in _GLUED:
        return start, end
    while start < end and script_of(text[start]) in _GLUED:
        start += 1
    return start, end
