"""Clinical words of Greek and Russian by their parts.

Greek and Russian derive clinical words from the same stems and endings in any number; lists never have all.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

from medsanitize.policies.tables.script_words import script_morphemes, script_names, script_words

_SCRIPTS: Final = ("greek", "cyrillic")
_LINKS: Final = {"greek": "οαι", "cyrillic": "оеи"}
# Surnames are short: Kolios, "colic".
_SHORTEST: Final = 8
_SHORTEST_REST: Final = 6
_LONG: Final = 10


@lru_cache(maxsize=65536)
def is_clinical_compound(word: str, script: str) -> bool:
    """Return whether a word, as `fold_script` returns it, is made of clinical stems, or a prefix and a word.

    Examples
    --------
    >>> is_clinical_compound("οπισθοπεριτοναικο", "greek")
    True
    >>> is_clinical_compound("цистоуретрография", "cyrillic")
    True
    """
    if script not in _SCRIPTS or len(word) < _SHORTEST or word in script_names():
        return False
    found = _pattern(script).fullmatch(word)
    if found and (found[1] or len(word) >= _LONG):
        return True
    return _is_prefixed(word, script)


def _is_prefixed(word: str, script: str) -> bool:
    words = script_words(script)
    return any(
        word.startswith(prefix)
        and len(word) - len(prefix) >= _SHORTEST_REST
        and word[len(prefix) :] in words
        and word[len(prefix) :] not in script_names()
        for prefix in script_morphemes()[f"{script} prefixes"]
    )


@cache
def _pattern(script: str) -> re.Pattern[str]:
    prefixes, stems, endings = (
        "|".join(sorted(script_morphemes()[f"{script} {part}"], key=lambda one: (-len(one), one)))
        for part in ("prefixes", "stems", "endings")
    )
    link = f"[{_LINKS[script]}]?"
    return re.compile(
        f"(?:{prefixes})*((?:(?:{stems}){link})*(?:{stems}))(?:{endings})|(?:{prefixes})+(?:{endings})"
    )
