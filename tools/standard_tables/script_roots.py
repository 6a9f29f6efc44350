"""Derive Arabic and Hebrew words from the roots of known words.

Both languages form verbs, participles and nouns by setting three consonants into patterns; digits stand for
them. A root counts if at least two known words have it. Not every form exists: the caller checks their use.
"""

# ruff: noqa: E501  (one table of patterns a line)

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

# Patterns of Hebrew (binyanim and nouns) in full spelling, and of Arabic (forms I to X and their nouns).
PATTERNS = {
    "hebrew": (
        "123 1ו23 1ו23ת 1ו23ים 1ו23ות 12ו3 12ו3ה 12ו3ים 12ו3ות 12י3ה 12י3ת 12י3ות ל12ו3 י12ו3 ת12ו3 "
        "נ123 נ123ה נ123ו נ123ת נ123ים נ123ות להי123 הי123ות 1י23 1י23ה 1י23ו 1י2ו3 1י2ו3ים 1י2ו3י 1י2ו3ית "
        "מ123 מ123ת מ123ים מ123ות ל123 י123 ת123 1ו23ה 1ו23ו מ1ו23 מ1ו23ת מ1ו23ים מ1ו23ות ה12י3 ה12י3ה "
        "ה12י3ו ה123ה ה123ת ה123ות מ12י3 מ12י3ה מ12י3ים מ12י3ות לה12י3 י12י3 ת12י3 הו123 הו123ה הו123ו מו123 "
        "מו123ת מו123ים מו123ות הת123 הת123ה הת123ו הת123ות מת123 מת123ת מת123ים מת123ות להת123 ית123 תת123 "
        "מ123ה מ12ו3 123ת 123ון 123ן 123ני ת12ו3ה"
    ).split(),
    "arabic": (
        "123 123ت 123وا ي123 ت123 ن123 ي123ون 1ا23 1ا23ه 1ا23ون 1ا23ين 1ا23ات م12و3 م12و3ه م12و3ين م12و3ات "
        "12ي3 12ي3ه 12ا3 12ا3ه 12و3 123ه 123ات 123ان 1وا23 ا12ا3 م123 م123ه م1ا23 م1ا23ه "
        "ي123ه ت12ي3 ت12ي3ه ت12ي3ات م123ين م1ا23ين ي1ا23 ت1ا23 ا123 ا123ت ا12ا3ات ي1ت23 ت1ت23 ا1ت23 ا1ت23ت "
        "ا1ت2ا3 ا1ت2ا3ات م1ت23 م1ت23ه ان123 ان123ت ين123 تن123 ان12ا3 ان12ا3ات من123 من123ه ت123ت يت123 تت123 "
        "مت123 مت123ه ت1ا23ت يت1ا23 تت1ا23 مت1ا23 مت1ا23ه است123 است123ت يست123 تست123 است12ا3 است12ا3ات "
        "مست123 مست123ه مست123ين 123ي 123يه"
    ).split(),
}
# A root with a vowel letter changes its form, and with two of them equals too many words.
_STRONG = {"hebrew": "אבגדהזחטכלמנסעפצקרשת", "arabic": "بتثجحخدذرزسشصضطظعغفقكلمنه"}
_TO_FINAL = str.maketrans({"כ": "ך", "מ": "ם", "נ": "ן", "פ": "ף", "צ": "ץ"})
_TO_MEDIAL = str.maketrans({"ך": "כ", "ם": "מ", "ן": "נ", "ף": "פ", "ץ": "צ"})
_LEAST_WORDS = 2
_LEAST_LETTERS = 4
"""Letters of a pattern that shows a root: with "123", every three letters would be one."""


def derived(words: Iterable[str], script: str) -> set[str]:
    """Return the forms of the roots that at least two of the words have, in the script's spelling."""
    roots: Counter[str] = Counter()
    for word in words:
        roots.update(set(_roots(word.translate(_TO_MEDIAL), script)))
    known = [root for root, count in roots.items() if count >= _LEAST_WORDS]
    return {form for root in known for form in _forms(root, script)}


def _roots(word: str, script: str) -> Iterator[str]:
    for pattern in _matchers(script):
        found = pattern.fullmatch(word)
        if found:
            yield "".join(found.group("a", "b", "c"))


def _forms(root: str, script: str) -> Iterator[str]:
    for pattern in PATTERNS[script]:
        form = pattern.replace("1", root[0]).replace("2", root[1]).replace("3", root[2])
        yield form[:-1] + form[-1].translate(_TO_FINAL)


@cache
def _matchers(script: str) -> list[re.Pattern[str]]:
    letters = _STRONG[script]
    return [
        re.compile(
            pattern.replace("1", f"(?P<a>[{letters}])")
            .replace("2", f"(?P<b>[{letters}])")
            .replace("3", f"(?P<c>[{letters}])")
        )
        for pattern in PATTERNS[script]
        if len(pattern) >= _LEAST_LETTERS
    ]
