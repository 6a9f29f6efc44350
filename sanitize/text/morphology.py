"""Recognition of clinical words that no list can contain in full: derivations and compounds.

A word counts if it consists entirely of Greek and Latin parts or of clinical words, or has an ordinary
ending. Surnames that end like a disease (Politis, Thoma) do not count, as the rest of them is no such part.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from medsanitize.policies.tables import vocabulary
from medsanitize.sanitize.text.cognates import is_cognate

_SHORTEST = 7
_SHORTEST_COMPOUND = 9
_SHORTEST_PART = 4
_LONGEST = 48
_LONGEST_STEM = 14
_SHORTEST_INFLECTED = 6
_MOST_PARTS = 3
_SHORTEST_DERIVED = 9
_SHORTEST_VERBAL = 6
# Prefixes of verbs, and endings of their forms, in English and the Romance languages.
_PREFIXES = tuple("re ri des dis pre pré inter trans sub sobre over under mis un auto pós".split())
_VERBAL = re.compile(
    "(?:[aiu]d[oa]s?|[aiu]t[oaei]|[aei]r(?:e|si)?|ção|ções|ci[oó]n(?:es)?|zion[ei]|tions?|ment[oi]s?|mientos?"
    "|ed|ing|ée?s?)$"
)
_LINKS = ("", "s", "n", "en", "es", "er", "e")


@lru_cache(maxsize=65536)
def is_clinical(word: str) -> bool:
    """Return whether a folded word consists of clinical parts or is a compound of clinical words."""
    if not _SHORTEST <= len(word) <= _LONGEST:
        return False
    plain = _plain(word)
    # Names are excluded first: the parts of some of them are clinical.
    if plain in _names():
        return False
    if _is_derived(word):
        return True
    if len(word) < _SHORTEST_COMPOUND:
        return _is_classical(plain)
    return plain.endswith(_suffixes()) or _is_classical(plain) or _is_compound(word)


@lru_cache(maxsize=65536)
def is_composed(word: str) -> bool:
    """Return whether a folded word consists of clinical parts, whatever its ending."""
    return _SHORTEST <= len(word) <= _LONGEST and (_is_classical(_plain(word)) or _is_compound(word))


def _is_derived(word: str) -> bool:
    """Return whether a word is a verb with a prefix: Portuguese ``reavaliada``."""
    if len(word) < _SHORTEST_DERIVED or not _VERBAL.search(word):
        return False
    return any(
        word.startswith(prefix)
        and len(word) - len(prefix) >= _SHORTEST_VERBAL
        and word[len(prefix) :] in vocabulary.plain_words()
        for prefix in _PREFIXES
    )


def _plain(word: str) -> str:
    spread = unicodedata.normalize(
        "NFKD",
        word.replace("ß", "ss")
        .replace("ı", "i")
        .replace("ł", "l")
        .replace("ø", "o")
        .replace("œ", "oe")
        .replace("æ", "ae"),
    )
    return "".join(char for char in spread if not unicodedata.combining(char))


@cache
def _names() -> frozenset[str]:
    return frozenset(_plain(word) for word in vocabulary.doubtful_words())


@cache
def _suffixes() -> tuple[str, ...]:
    return tuple(sorted({_plain(suffix) for suffix in vocabulary.suffixes()}))


@cache
def _parts() -> tuple[frozenset[str], frozenset[str]]:
    stems, endings = vocabulary.morphemes()
    return stems, endings


def _is_classical(word: str) -> bool:
    """Return whether a word consists of stems, at least one of four letters or more, and an ending."""
    # Each state is visited once: plain backtracking may take exponential time.
    stems, endings = _parts()
    reached, seen = [(0, False)], {(0, False)}
    while reached:
        place, sure = reached.pop()
        if sure and word[place:] in endings:
            return True
        for size in range(2, min(_LONGEST_STEM, len(word) - place) + 1):
            step = (place + size, sure or size >= _SHORTEST_PART)
            if step not in seen and word[place : place + size] in stems:
                seen.add(step)
                reached.append(step)
    return False


def _is_in_web_texts(word: str) -> bool:
    return len(word) >= _SHORTEST_INFLECTED and word in vocabulary.corpus_words()


def _is_compound(word: str) -> bool:
    """Return whether a word is a compound of two or three words, one of them clinical."""
    clinical, ordinary = vocabulary.compounding(), vocabulary.ordinary_parts()
    start = (0, 0, False)
    reached, seen = [start], {start}
    while reached:
        place, count, sure = reached.pop()
        rest = word[place:]
        if (
            count
            and len(rest) >= _SHORTEST_PART
            and (
                rest in clinical
                or is_cognate(rest)
                or (sure and (rest in ordinary or _is_in_web_texts(rest)))
            )
        ):
            return True
        if count == _MOST_PARTS - 1:
            continue
        for size in range(_SHORTEST_PART, len(rest) - _SHORTEST_PART + 1):
            part = rest[:size]
            # German drops the e of some words inside a compound: Gewebe, Gewebsnekrose.
            named = part in clinical or is_cognate(part) or f"{part}e" in clinical
            if named or part in ordinary or f"{part}e" in ordinary:
                for link in _LINKS:
                    step = (place + size + len(link), count + 1, sure or named)
                    if rest.startswith(link, size) and step not in seen:
                        seen.add(step)
                        reached.append(step)
    return False
