"""Recognition of clinical words by their Greek and Latin roots, however a language spells and inflects them.

``pediculosis``, ``Pedikulose`` and ``pediculose`` have one key. A word counts if its key is that of a word of
a terminology and of no name: both are known when the table is made, so only the key is looked up.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from medsanitize.policies.tables import vocabulary

SHORTEST_KEY = 6
_SHORTEST = 7
_LONGEST = 48
_SHORTEST_STEM = 3
_PLURALS = ("tos", "dos", "nos", "ros", "cos", "sos", "los", "vos", "ios")
_LETTERS = str.maketrans(
    {"ß": "ss", "ı": "i", "ł": "l", "ø": "e", "ö": "e", "ä": "e", "œ": "e", "æ": "e", "đ": "d"}
)
# Order matters: digraphs before the letters that they consist of.
_SPELLINGS = tuple(
    (re.compile(pattern), letters)
    for pattern, letters in (
        ("ae|oe|ea", "e"),
        ("ph", "f"),
        ("tch", "c"),
        ("sch", "sc"),
        ("ch|ck|kh|qu|k|z|q", "c"),
        ("h", ""),
        ("[yj]", "i"),
        ("w", "v"),
        (r"(.)\1+", r"\1"),
        ("x|cs", "s"),
        ("[cp]t", "t"),
        ("bs", "s"),
        # Lymph, linfa.
        ("m(?=[fpbv])", "n"),
        # Stenosis, estenosis.
        ("^es(?=[ptcnml])", "s"),
        (r"(.)\1+", r"\1"),
    )
)
_ENDINGS = tuple(
    (re.compile(f"(?:{pattern})$"), letters)
    for pattern, letters in (
        ("(?:ti|si)on(?:e|en|s|es|er|erna)?|cion(?:e|i|es)?|cao|coes|ci[aie]|ti[ae]", "ti"),
        ("os(?:is|es|i|e|en|er|a|as|os|o)?|oca|ous|eus(?:e|es)?|ocni", "os"),
        ("om(?:a|as|ata|e|en|es|er|i|s|ati|u|et|os)?", "om"),
        ("it(?:is|ide|iden|es|e|er|as|i|a|at|aten|et|eit|ies)|idad(?:e|es)?", "it"),
        ("ic(?:al|ali|o|a|os|as|ue|ues|i|e|es|en|um|us|ni|na|ne|nego)?|isc(?:e|en|er|es|em|a|t)?|itni", "ic"),
        ("al(?:e|en|er|es|em|is|t|a|i|ni|ne|na|nego|nei|um)?|a[iu]s|au|aus|el(?:e|en|er|es|em)", "al"),
        ("ar(?:e|en|er|es|em|is|t|a|i|ni|ne|na|io|ia|ios|ias|ium|ius)?|aires?|er(?:e|en|er|es|em)", "ar"),
        ("at(?:e|es|ed|o|a|os|as|us|um|i)?|ad(?:o|a|os|as)|ees?", "at"),
        ("iv(?:e|es|en|er|em|o|a|os|as|i|um|us|t)?|ifs?", "iv"),
        (
            "i?(?:es|ai|en|as|um|us|os|a|e|o)|i|ums|ons?|er|n|s|em|m|ii|eis|ens|is",
            "",
        ),
    )
)


@lru_cache(maxsize=65536)
def is_cognate(word: str) -> bool:
    """Return whether a folded word has the root of a clinical word, and that of no name."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isalpha()):
        return False
    if _has_root(word):
        return True
    # Plurals in -os look like diseases in -osis.
    return word.endswith(_PLURALS) and len(word) > _SHORTEST and _has_root(word[:-1])


def _has_root(word: str) -> bool:
    key = cognate_key(word)
    return len(key) >= SHORTEST_KEY and key in vocabulary.clinical_roots()


def cognate_key(word: str) -> str:
    """Return what the spellings of a folded word in the languages have in common.

    Examples
    --------
    >>> cognate_key("pedikulose"), cognate_key("linfocítica"), cognate_key("tularämie")
    ('pediculos', 'linfocitic', 'tularem')
    """
    spread = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    word = "".join(char for char in spread if not unicodedata.combining(char))
    for pattern, letters in _SPELLINGS:
        word = pattern.sub(letters, word)
    for pattern, letters in _ENDINGS:
        found = pattern.search(word)
        if found and found.start() + len(letters) >= _SHORTEST_STEM:
            return word[: found.start()] + letters
    return word
