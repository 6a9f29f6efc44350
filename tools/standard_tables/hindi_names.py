"""Hindi spellings of Latin names, by a key that both have: for lists of Indian names in Latin letters."""

# ruff: noqa: E501  (one table of letters a line)

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Hunterian romanization without the inherent vowel.
_LETTERS: Final = {
    **dict(zip("कखगघङचछजझञटठडढणतथदधनपफबभमयरलवशषसहळ",
               "k kh g gh n ch ch j jh n t th d dh n t th d dh n p f b bh m y r l v s s s h l".split(), strict=True)),
    **dict(zip("इईउऊएऐओऔऋॉऑ", "i i u u e ai o au ri o o".split(), strict=True)),
    **dict(zip("िीुूेैोौृ", "i i u u e ai o au ri".split(), strict=True)),
    "अ": "a", "आ": "a", "ा": "a", "ं": "n", "ँ": "n", "्": "", "़": "", "ः": "",
}  # fmt: skip
_LATIN: Final = (
    ("x", "ks"),
    ("sh", "s"),
    ("ph", "f"),
    ("w", "v"),
    ("ee", "i"),
    ("oo", "u"),
    ("chh", "ch"),
    ("z", "j"),
    ("q", "k"),
)
_SHORTEST: Final = 3


def hindi_key(word: str) -> str:
    """Return the letters of a Hindi word without *a* after the first letter, or nothing for another script.

    Examples
    --------
    >>> hindi_key("दीक्षित") == latin_key("Dixit"), hindi_key("शब्द") == latin_key("Subodh")
    (True, False)
    """
    letters = [_LETTERS.get(char) for char in unicodedata.normalize("NFD", word)]
    return "" if None in letters else _reduced("".join(letter or "" for letter in letters))


def latin_key(name: str) -> str:
    """Return the key of a name in Latin letters."""
    key = name.lower()
    for letters, other in _LATIN:
        key = key.replace(letters, other)
    return _reduced(key)


def _reduced(key: str) -> str:
    key = re.sub(r"(.)\1", r"\1", key.replace("y", "i"))
    key = key[:1] + key[1:].replace("a", "")
    return key if len(key) >= _SHORTEST else ""
