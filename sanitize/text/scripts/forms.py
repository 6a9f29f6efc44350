"""Forms of words in the vocabulary: prefixes of Arabic and Hebrew, endings of Korean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from medsanitize.policies.tables.script_words import (
    OPEN_SCRIPTS,
    fold_script,
    script_cues,
    script_names,
    script_open_words,
    script_words,
)
from medsanitize.sanitize.text.scripts.characters import UNSPACED, script_of
from medsanitize.sanitize.text.scripts.compounds import is_clinical_compound
from medsanitize.sanitize.text.scripts.loanwords import is_loanword
from medsanitize.sanitize.text.scripts.segmentation import is_segment

_ARABIC_PREFIXES: Final = ("وال", "بال", "فال", "كال", "ولل", "لل", "ال", "و", "ب", "ل", "ف", "ك")
_ARABIC_SUFFIXES: Final = ("", "ها", "هم", "ه", "ات", "ان", "ين", "ون", "يه", "ي", "نا", "ا")
_HEBREW_PREFIXES: Final = (
    "וה",
    "וב",
    "ול",
    "ומ",
    "וש",
    "מה",
    "שה",
    "לה",
    "בה",
    "כש",
    "ה",
    "ו",
    "ב",
    "ל",
    "מ",
    "ש",
    "כ",
)
_HEBREW_SUFFIXES: Final = ("", "ים", "ות", "ית", "י", "ה", "ת", "ו")
_HEBREW_FINALS: Final = {"מ": "ם", "נ": "ן", "פ": "ף", "צ": "ץ", "כ": "ך"}
_SHORTEST_STEM: Final = 3
_SHORTEST_OPEN_STEM: Final = 4
_PREPOSITIONS: Final = frozenset("وبلفكובלכ")
# The article and "and", unlike other prefixes, are seldom the first letters of a name.
_SAFE_PREFIXES: Final = ("ال", "وال", "لل", "و", "ה", "ו")
_LONGEST: Final = 40
_MIXED: Final = re.compile(r"[^\W\d_]{1,2}\d{1,2}")
_SYLLABLES: Final = re.compile("[\uac00-\ud7a3]+")
_SHORTEST_NOUN: Final = 2
_LONG_LOAN: Final = 10
# Particles after a Latin word or a number: 12 mm의.
_PARTICLES: Final = frozenset("의 로 에 를 을 는 가 와 과 도 에서 으로 까지 부터 보다".split())
_NAME_LENGTHS: Final = (2, 3, 4, 5)
_SURNAMES: Final = frozenset(
    "김이박최정강조윤장임한오서신권황안송류유전홍고문손양배백허남심노하곽성차주우구나민진지엄채원천방공현함변염여추도석선설마길연위표명기"
)
_GIVEN: Final = frozenset(
    "민준서연지우현수은영희철호진성정미숙경자순옥상훈동원재윤아하나나라린빈예유주혜선승규태건도시온율채다인가람솔별보슬기봄이안찬혁욱석"
    "종병기범창근식용복봉만일남광덕열환길금말분임례춘화란애향연난명중"
)


def is_script_word(word: str) -> bool:
    """Return whether a word of another script is ordinary or clinical, by itself or in an inflected form."""
    return is_listed_word(word) or is_open_word(word)


@lru_cache(maxsize=65536)
def is_open_word(word: str) -> bool:
    """Return whether only an open list has a word: it is in no list of names, but may equal a rare one."""
    script = script_of(word[0]) if word else ""
    if script not in OPEN_SCRIPTS or len(word) > _LONGEST or is_listed_word(word):
        return False
    folded, words = fold_script(word), script_open_words(script)
    if folded in script_names():
        return False
    if folded in words:
        return True
    if script == "arabic":
        stems = _stems(folded, _ARABIC_PREFIXES, _ARABIC_SUFFIXES)
    elif script == "hebrew":
        stems = _hebrew(folded)
    else:
        return False
    return any(len(stem) >= _SHORTEST_OPEN_STEM and stem in words for stem in stems)


def has_preposition(word: str) -> bool:
    """Return whether an Arabic or Hebrew word is a longer word behind "and", "in", "to" or "as"."""
    prefixed = len(word) > _SHORTEST_OPEN_STEM and word[0] in _PREPOSITIONS
    return prefixed and is_script_word(word[1:])


@lru_cache(maxsize=65536)
def is_listed_word(word: str) -> bool:
    """Return whether a word is in the vocabulary of its script without the open lists, or a form of one."""
    script = next((found for found in map(script_of, word) if found), "")
    if (
        not script
        or len(word) > _LONGEST
        or any(script_of(char) != script for char in word if char.isalpha())
    ):
        return False
    folded = fold_script(word)
    if any(folded in words for words in script_cues().values()):
        return True
    if folded in script_names() and folded not in script_words(script):
        return False
    return _is_known(folded, word, script)


def is_script_name(word: str) -> bool:
    """Return whether a word is in a list of names of people and places."""
    return fold_script(word) in script_names()


def _is_known(folded: str, word: str, script: str) -> bool:
    if script in UNSPACED:
        return is_segment(word, script)
    if folded in script_words(script):
        return True
    if is_clinical_compound(folded, script):
        return True
    # A name has a capital, which the longest words only may have at the start of a sentence.
    if script == "cyrillic" and (word.islower() or len(word) >= _LONG_LOAN) and is_loanword(folded):
        return True
    if script == "hangul":
        return _is_korean(folded)
    if script == "arabic":
        return any(
            stem in script_words(script) for stem in _stems(folded, _ARABIC_PREFIXES, _ARABIC_SUFFIXES)
        )
    if script == "hebrew":
        return any(stem in script_words(script) for stem in _hebrew(folded))
    return bool(script in ("cyrillic", "greek") and _MIXED.fullmatch(folded))


def _stems(word: str, prefixes: tuple[str, ...], suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield a word without a prefix and a suffix; stems of fewer than three letters are too ambiguous."""
    for prefix in ("", *prefixes):
        if not word.startswith(prefix):
            continue
        for suffix in suffixes:
            stem = word[len(prefix) : len(word) - len(suffix)] if word.endswith(suffix) else ""
            if len(stem) >= (_SHORTEST_STEM if suffix or prefix not in _SAFE_PREFIXES else 2):
                yield stem
                # A feminine ending is written as t before a suffix, and is missing before a plural.
                if suffix:
                    yield f"{stem}ه"
                    if stem.endswith("ت"):
                        yield f"{stem[:-1]}ه"


def _hebrew(word: str) -> Iterator[str]:
    for stem in _stems(word, _HEBREW_PREFIXES, _HEBREW_SUFFIXES):
        yield stem
        yield f"{stem[:-1]}{_HEBREW_FINALS.get(stem[-1], stem[-1])}"
        yield f"{stem}ה"


def _is_korean(word: str) -> bool:
    """Return whether a word is made of nouns of the vocabulary and an ending."""
    # With the form of address, the word is a name: 김철수씨.
    if not _SYLLABLES.fullmatch(word) or (len(word) > _SHORTEST_NOUN and word.endswith("씨")):
        return False
    if word in _PARTICLES:
        return True
    typed, words = listed_nouns(), script_words("hangul")
    for cut in range(len(word), 0, -1):
        tail = word[cut:]
        if tail and tail not in korean_tails():
            continue
        stem = word[:cut]
        if stem in typed or _nouns(stem, typed):
            return True
        # A name may equal a rare noun and an ending: only listed nouns are accepted there.
        if not is_name_shaped(word) and ((stem in words and len(stem) >= _SHORTEST_NOUN) or _compound(stem)):
            return True
    return False


def _nouns(stem: str, typed: frozenset[str]) -> bool:
    """Return whether a stem consists of listed nouns."""
    ends = {0}
    for start in range(len(stem)):
        if start in ends:
            ends.update(end for end in range(start + 2, len(stem) + 1) if stem[start:end] in typed)
    return len(stem) in ends and len(stem) > 1


def _compound(stem: str) -> bool:
    """Return whether a stem consists of two nouns of at least two syllables."""
    words = script_words("hangul")
    return any(stem[:cut] in words and stem[cut:] in words for cut in range(2, len(stem) - 1))


def is_name_shaped(word: str) -> bool:
    """Return whether a Korean word begins with a surname and syllables of given names."""
    if len(word) not in _NAME_LENGTHS or word[0] not in _SURNAMES:
        return False
    return all(char in _GIVEN for char in word[1:3])


@cache
def korean_tails() -> frozenset[str]:
    """Return particles and endings that follow a Korean noun."""
    return _section("ko", "tails")


@cache
def listed_nouns() -> frozenset[str]:
    """Return the listed Korean words and predicates."""
    return _section("ko", "words") | _section("ko", "predicates")


@cache
def listed_thai_words() -> frozenset[str]:
    """Return the listed Thai words: unlike words of the open list, they are no parts of names."""
    return _section("th", "words")


def _section(language: str, wanted: str) -> frozenset[str]:
    text = (files("medsanitize.policies.tables") / f"plain_{language}.txt").read_text(encoding="utf-8")
    section, found = "words", set()
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#") and section == wanted:
            found.update(line.split())
    return frozenset(found)
