"""Known names in a text that is written in another script than the header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from medsanitize.policies.tables.script_words import fold_script, script_cues, script_names, script_words
from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.text.folding import fold_letters
from medsanitize.sanitize.text.scripts.characters import WORD, has_script, script_of
from medsanitize.sanitize.text.scripts.forms import is_listed_word, korean_tails
from medsanitize.sanitize.text.scripts.readings import (
    chinese_spellings,
    kana_key,
    kanji_by_key,
    keys_by_kanji,
    latin_key,
    reads_as,
)
from medsanitize.sanitize.text.scripts.romanization import RomanizedNames, romanized_names
from medsanitize.sanitize.text.scripts.segmentation import is_segment, is_surname, split_run
from medsanitize.sanitize.text.scripts.transliteration import SCRIPTS, spells, syllable_spellings

_WORD: Final = re.compile(f"{WORD}+")
_LATIN: Final = re.compile("[A-Za-z\u00c0-\u024f]+(?:['’-][A-Za-z\u00c0-\u024f]+)*")
# Names of two words that are one in Latin letters: Abdunnasir, Benzohair.
_PAIR: Final = re.compile(
    r"(?<![\u0621-\u064a])[ولب]?((?:عبد|بن|ابن|أبو|ابو|أبا|أبي|آل|ذو|نور|سيف|صلاح|أم|بو|آية|ضياء|عز|جمال|محمد))\s"
    r"([\u0621-\u064a]{2,})"
)
_HAN_RUN: Final = re.compile("[\u3005\u3400-\u9fff]+")
_KANA_RUN: Final = re.compile("[\u3041-\u3096]+|[\u30a1-\u30fa\u30fc]+")
_HAN: Final = re.compile("[\u3400-\u9fff]")
# Before a name in Arabic and Hebrew: article, "and", "in", "to".
_PROCLITICS: Final = {
    "arabic": ("وال", "بال", "لل", "ال", "و", "ب", "ل", "ف"),
    "hebrew": ("וה", "ה", "ו", "ב", "ל", "מ", "ש"),
}
_ARTICLES: Final = ("al", "el", "ul")
_HONORIFICS: Final = (
    "さん",
    "様",
    "さま",
    "氏",
    "先生",
    "君",
    "くん",
    "ちゃん",
    "医師",
    "医生",
    "女士",
    "小姐",
)
_SHORTEST: Final = 3
_SHORTEST_LATIN: Final = 4
_SHORTEST_PAIR: Final = 6
_SHORTEST_HANGUL_NAME: Final = 5
_SHORTEST_KANA: Final = 2
_LONGEST_HAN_NAME: Final = 4
_MOST_PARTS: Final = 4


@dataclass(frozen=True, slots=True, repr=False)
class CrossScriptNames:
    """Known names, to be found in texts in another script; the repr shows none.

    Attributes
    ----------
    romanized : RomanizedNames
        Names in Latin, Cyrillic and Greek letters.
    latin : tuple of str
        Latin names, and family and given names in one word, folded.
    written : tuple of (str, str)
        Script and name, of the scripts of `transliteration`.
    sounds : frozenset of str
        Reduced romanizations of Japanese names.
    readings : frozenset of str
        Latin spellings of names in Chinese characters.
    beside : frozenset of str
        Latin spellings of names of one syllable, which are cut only next to another known name.
    """

    romanized: RomanizedNames
    latin: tuple[str, ...]
    written: tuple[tuple[str, str], ...]
    sounds: frozenset[str]
    readings: frozenset[str]
    beside: frozenset[str]

    def __repr__(self) -> str:
        return "CrossScriptNames(...)"

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the half-open spans of known names in a text in other letters."""
        if self.romanized.other or not text.isascii():
            for found in _WORD.finditer(text):
                if self.romanized.known(found[0]):
                    yield found.span()
        if self.written or self.readings or self.sounds:
            yield from self._in_latin(text)
        if not has_script(text):
            return
        if self.latin:
            yield from self._in_letters(text)
        if self.latin or self.sounds:
            yield from self._in_kana_and_han(text)

    def _in_latin(self, text: str) -> Iterator[tuple[int, int]]:
        for found in _LATIN.finditer(text):
            word = fold_letters(found[0])
            if len(word) < _SHORTEST_LATIN or word in vocabulary():
                continue
            read = word in self.readings or latin_key(word) in self.sounds
            if read or any(_spells(word, name, script) for script, name in self.written):
                yield found.span()

    def _in_letters(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield words of Arabic, Hebrew, Devanagari, Thai and Hangul letters."""
        for found in _WORD.finditer(text):
            script = script_of(found[0][0])
            if script not in SCRIPTS:
                continue
            for first, last in _candidates(found[0], script):
                if any(_is_spelt(latin, found[0][first:last], script) for latin in self.latin):
                    yield found.start() + first, found.start() + last
        for pair in _PAIR.finditer(text):
            name = f"{pair[1]} {pair[2]}"
            if any(spells(latin, name, "arabic") for latin in self.latin if len(latin) >= _SHORTEST_PAIR):
                yield pair.span(1)[0], pair.span(2)[1]

    def _in_kana_and_han(self, text: str) -> Iterator[tuple[int, int]]:
        sounds = self.sounds | {key for key in map(latin_key, self.latin) if key}
        for found in _KANA_RUN.finditer(text):
            yield from _kana_names(found, sounds)
        if not _HAN.search(text):
            return
        for found in _HAN_RUN.finditer(text):
            yield from _chinese_names(found, self.latin)
        for key in sounds:
            for name in kanji_by_key().get(key, ()):
                yield from _placed(text, name)


def cross_script_names(folded: Iterable[str], values: Iterable[str]) -> CrossScriptNames:
    """Prepare known names for texts in other scripts.

    Parameters
    ----------
    folded : iterable of str
        Single names, and family and given names in one word, as `fold_letters` returns them.
    values : iterable of str
        Names as they stand in the header (PS3.5 section 6.2).
    """
    listed = sorted(set(folded))
    latin = tuple(name for name in listed if name.isascii() and len(name) >= _SHORTEST)
    written: set[tuple[str, str]] = set()
    sounds: set[str] = set()
    readings: set[str] = set()
    beside: set[str] = set()
    for value in values:
        for group in value.split("="):
            words = _divided([found for part in group.split("^")[:3] for found in _WORD.findall(part)])
            for word in words:
                script = script_of(word[0])
                if script in SCRIPTS and len(word) > 1:
                    written.add((script, word))
            for first, second in pairwise(words):
                if script_of(first[0]) == script_of(second[0]) == "hangul":
                    written.add(("hangul", first + second))
                elif _PAIR.fullmatch(f"{first} {second}"):
                    written.add(("arabic", f"{first} {second}"))
            if words and all(script_of(char) == "cjk" for char in "".join(words)):
                _add_readings(words, sounds, readings)
                beside.update(one for word in words if len(word) == 1 for one in chinese_spellings(word))
            beside.update(one for word in words if len(word) == 1 for one in syllable_spellings(word))
    return CrossScriptNames(
        romanized_names(listed),
        latin,
        tuple(sorted(written)),
        frozenset(sounds),
        frozenset(readings),
        frozenset(beside),
    )


def _divided(words: list[str]) -> list[str]:
    """Divide a name that is written in one word, as in Chinese and Korean, into family and given name."""
    if len(words) != 1 or not 2 <= len(words[0]) <= _LONGEST_HAN_NAME:
        return words
    name = words[0]
    if script_of(name[0]) == "hangul" and len(name) > 2:
        return [name[:1], name[1:]]
    if is_surname(name[:2]) and len(name) > 2:
        return [name[:2], name[2:]]
    return [name[:1], name[1:]] if is_surname(name[0]) else words


def _add_readings(words: list[str], sounds: set[str], readings: set[str]) -> None:
    for word in words:
        sounds.update(key for key in (kana_key(word), *keys_by_kanji().get(word, ())) if key)
    spelt = [chinese_spellings(word) for word in words]
    for word, spellings in zip(words, spelt, strict=True):
        # One syllable is also a word, an abbreviation or part of one in other languages.
        readings.update(one for one in spellings if len(word) > 1 or len(one) > _SHORTEST_LATIN)
    if len(spelt) == 2:
        family, given = spelt
        readings.update(one + two for one in family for two in given)
        readings.update(two + one for one in family for two in given)


@lru_cache(maxsize=65536)
def _candidates(word: str, script: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of a word that may be a name: without prefixes, endings or neighbors."""
    # Many ordinary words without vowels resemble a name: Arabic "food", ṭaʿām, the name Tomi.
    if script != "thai" and _is_ordinary(word, script):
        return ()
    if script in _PROCLITICS:
        starts = [0] + [len(one) for one in _PROCLITICS[script] if word.startswith(one)]
        # A prefix is none if the rest is an ordinary word: "age" is also the name Omar.
        return tuple(
            (start, len(word))
            for start in dict.fromkeys(starts)
            if len(word) - start >= (_SHORTEST if start else 2)
            and not (start and _is_ordinary(word[start:], script))
        )
    if script == "hangul":
        ends = [
            end
            for end in range(2, min(len(word), _LONGEST_HAN_NAME) + 1)
            if end == len(word) or word[end:] in korean_tails() or word[end:].startswith(("씨", "님"))
        ]
        return tuple((0, end) for end in ends)
    if script == "thai":
        return tuple(_thai_candidates(word))
    return ((0, len(word)),) if len(word) > 1 else ()


def _thai_candidates(word: str) -> Iterator[tuple[int, int]]:
    """Yield spans of segments that are not all ordinary words, also behind a word: ``ผู้ป่วยสมชาย``."""
    parts = list(split_run(word))
    for first, (start, end) in enumerate(parts):
        starts = [start]
        if not is_segment(word[start:end], "thai"):
            starts += [cut for cut in range(start + 1, end) if is_segment(word[start:cut], "thai")]
        for last in range(first, min(len(parts), first + _MOST_PARTS)):
            end = parts[last][1]
            if not all(_is_ordinary(word[slice(*parts[one])], "thai") for one in range(first, last + 1)):
                yield from ((cut, end) for cut in starts if end - cut >= _SHORTEST)


def _is_ordinary(word: str, script: str) -> bool:
    """Return whether a word is ordinary and, with or without a prefix, no name."""
    folded = fold_script(word)
    if folded in script_cues()["function"]:
        return True
    stems = [folded[len(one) :] for one in _PROCLITICS.get(script, ()) if folded.startswith(one)]
    if any(stem in script_names() for stem in (folded, *stems)):
        return False
    return is_listed_word(word)


def _is_spelt(latin: str, word: str, script: str) -> bool:
    """Return whether a word is the known Latin name and not an ordinary word that resembles it."""
    if script == "hangul" and len(latin) < _SHORTEST_HANGUL_NAME:
        return False
    if len(latin) < _SHORTEST_LATIN and script != "arabic":
        return False
    return _spells(latin, word, script)


def _spells(latin: str, word: str, script: str) -> bool:
    if spells(latin, word, script):
        return True
    return latin.startswith(_ARTICLES) and script == "arabic" and spells(latin[2:], word, script)


def _kana_names(found: re.Match[str], sounds: frozenset[str] | set[str]) -> Iterator[tuple[int, int]]:
    """Yield names at the beginning of a run of kana, before a particle or form of address."""
    run = found[0]
    for end in range(_SHORTEST_KANA, len(run) + 1):
        if kana_key(run[:end]) not in sounds:
            continue
        rest = found.string[found.start() + end :]
        addressed = rest.startswith(_HONORIFICS)
        whole = end == len(run) or run[end] in "はがをにのとも"
        folded = fold_script(run[:end])
        ordinary = folded in script_words("cjk") and folded not in script_names()
        if addressed or (whole and end >= _SHORTEST and not ordinary):
            yield found.start(), found.start() + end


def _chinese_names(found: re.Match[str], latin: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield a surname with the given name behind it that read as a known Latin name."""
    run = found[0]
    for start in range(len(run)):
        if not is_surname(run[start]) and not is_surname(run[start : start + 2]):
            continue
        for end in range(start + 2, min(len(run), start + _LONGEST_HAN_NAME) + 1):
            name = run[start:end]
            ordinary = name in script_words("cjk") and name not in script_names()
            if not ordinary and any(reads_as(one, name) for one in latin):
                yield found.start() + start, found.start() + end


def _placed(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a name in kanji; a single character needs a boundary or a form of address."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        alone = not before.isalpha() and (not after.isalpha() or text.startswith(_HONORIFICS, end))
        if alone or (len(name) > 1 and not (name in script_words("cjk") and name not in script_names())):
            yield start, end
        start = text.find(name, start + 1)
