"""Clinical words of Russian that are spelled as in other languages: ``экстравазация``, extravasation.

A word is written in Latin letters, its ending as in Latin, and looked up by its root as words of other
languages are. Letters with several sources (Cyrillic г is g or h) have several spellings.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product
from typing import Final

from medsanitize.policies.tables.script_words import script_names
from medsanitize.sanitize.text.cognates import is_cognate

_SHORTEST: Final = 8
_LONGEST: Final = 40
_ADJECTIVE: Final = "(?:ый|ий|ая|яя|ое|ее|ые|ие|ого|его|ой|ей|ому|ему|ым|им|ых|их|ую|юю|ыми|ими|ом|ем)"
_CASE: Final = "(?:а|у|ом|е|ы|ов|ам|ами|ах|и|ой|я|ю|ей|ям|ями|ях|ем)?"
# In order: the first that matches replaces the ending.
_ENDINGS: Final = tuple(
    (re.compile(f"{pattern}$"), ending)
    for pattern, ending in (
        (f"ическ{_ADJECTIVE}|ичн{_ADJECTIVE}", "ик"),
        (f"(?:а|я)льн{_ADJECTIVE}", "ал"),
        (f"(?:а|я)рн{_ADJECTIVE}", "ар"),
        (f"ивн{_ADJECTIVE}", "ив"),
        (f"озн{_ADJECTIVE}", "ос"),
        (f"итн{_ADJECTIVE}", "ит"),
        (f"атн{_ADJECTIVE}", "ат"),
        (f"(?<=[еа]нт)н{_ADJECTIVE}", ""),
        ("ци(?:я|и|ю|ей|ям|ями|ях|й)", "циа"),
        ("и(?:я|и|ю|ей|ям|ями|ях)", "иа"),
        (f"оз{_CASE}", "ос"),
        (_CASE, ""),
    )
)
_SOUNDS: Final = (("невр", "неур"), ("пневм", "пнеум"), ("ля", "ла"), ("лю", "лу"))
_LATIN: Final = str.maketrans(
    dict(
        zip(
            "абвдежийклмнопрстуфцчшыэ",
            "abvdegiiclmnoprstufccsie",
            strict=True,
        )
    )
    | {"х": "ch", "щ": "sc", "ъ": "", "ь": "", "ю": "iu", "я": "ia"}
)
_SPELLINGS: Final = {"г": ("g", "h"), "з": ("s", "z")}
_MOST_LETTERS: Final = 3
"""Most letters with several spellings."""


@lru_cache(maxsize=65536)
def is_loanword(word: str) -> bool:
    """Return whether a word, as `fold_script` returns it, has the root of a clinical word.

    Examples
    --------
    >>> is_loanword("экстравазация"), is_loanword("макулярный"), is_loanword("мышечный")
    (True, True, False)
    """
    if not _SHORTEST <= len(word) <= _LONGEST or word in script_names():
        return False
    stem = next(pattern.sub(ending, word, count=1) for pattern, ending in _ENDINGS if pattern.search(word))
    for sound, letters in _SOUNDS:
        stem = stem.replace(sound, letters)
    stem = stem.translate(_LATIN)
    parts = re.split("([гз])", stem)
    choices = [_SPELLINGS.get(part, (part,)) for part in parts]
    if sum(len(choice) > 1 for choice in choices) > _MOST_LETTERS:
        return False
    return any(is_cognate("".join(spelled)) for spelled in product(*choices))
