"""Comparison of names in Latin with names in Cyrillic and Greek letters.

Systems of romanization differ: Khrushchev, Chruščëv, Hruschtschow. Both spellings are therefore reduced to
classes of consonants with one sign for any vowels between them, and compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from medsanitize.sanitize.text.folding import fold_letters
from medsanitize.sanitize.text.scripts.characters import has_script, script_of

_CYRILLIC: Final = "абвгґдежзиіїйклмнопрстуфхцчшщъыьэюяђјљњћџє"
_FROM_CYRILLIC: Final = (
    *("a b v g g d e zh z i i i i k l m n o p r s t u f kh ts ch sh shch".split()),
    *("", "i", "", "e", "iu", "ia", "d", "i", "l", "n", "ch", "zh", "e"),
)
_GREEK: Final = "αβγδεζηθικλμνξοπρσςτυφχψω"
_FROM_GREEK: Final = "a v g d e z i th i k l m n ks o p r s s t i f kh ps o".split()
_LETTERS: Final = {
    ord(letter): latin
    for letter, latin in zip(_CYRILLIC + _GREEK, (*_FROM_CYRILLIC, *_FROM_GREEK), strict=True)
}
_GREEK_PAIRS: Final = (("ου", "ω"), ("μπ", "б"), ("ντ", "δ"), ("γκ", "γ"), ("αυ", "αβ"), ("ευ", "εβ"))
# In order: longer spellings of a letter before shorter ones.
_CLASSES: Final = tuple(
    (re.compile(spelling), reduced)
    for spelling, reduced in (
        ("schtsch|shch|tsch|sch|sh|zh|ts|tz|dz", "s"),
        ("kh", "h"),
        ("ph", "f"),
        ("th", "t"),
        ("mp", "b"),
        ("nt", "d"),
        ("gk", "g"),
        ("x", "ks"),
        ("ck|q", "k"),
        ("w", "v"),
        ("[zc]", "s"),
        ("[aeiouyj]+", "a"),
        (r"(.)\1+", r"\1"),
    )
)
_SHORTEST: Final = 4
_CASED: Final = ("cyrillic", "greek")


@dataclass(frozen=True, slots=True, repr=False)
class RomanizedNames:
    """Known names by their reduced spelling; the repr shows none.

    Attributes
    ----------
    latin, other : frozenset of str
        Reduced spellings of names in Latin, and in Cyrillic or Greek letters.
    """

    latin: frozenset[str]
    other: frozenset[str]

    def __repr__(self) -> str:
        return "RomanizedNames(...)"

    def known(self, word: str) -> bool:
        """Return whether a word of a text is a known name in the other script."""
        names = self.other if word.isascii() or not has_script(word) else self.latin
        return bool(names) and not names.isdisjoint(reduced_spellings(fold_letters(word)))


def romanized_names(words: Iterable[str]) -> RomanizedNames:
    """Reduce known names, given as `fold_letters` returns them."""
    latin: set[str] = set()
    other: set[str] = set()
    for word in words:
        (other if has_script(word) else latin).update(reduced_spellings(word))
    return RomanizedNames(frozenset(latin), frozenset(other))


@lru_cache(maxsize=65536)
def reduced_spellings(word: str) -> frozenset[str]:
    """Return the reduced spellings of a folded word; none if it is short or of a third script."""
    if len(word) < _SHORTEST or any(script_of(char) not in ("", *_CASED) for char in word):
        return frozenset()
    return frozenset(found for found in _reduced(word) if len(found) >= _SHORTEST)


def _reduced(word: str) -> Iterator[str]:
    for pair, letter in _GREEK_PAIRS:
        word = word.replace(pair, letter)
    latin = word.translate(_LETTERS)
    # "Ch" is a sibilant in English, and the letter kh in other languages.
    for sound in ("sh", "kh") if "ch" in latin else ("",):
        found = latin.replace("ch", sound) if sound else latin
        for spelling, reduced in _CLASSES:
            found = spelling.sub(reduced, found)
        yield found
