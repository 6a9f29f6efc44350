"""Whole clinical terms: a name inside a term is no person.

``Crohn disease``, ``Charcot-Marie-Tooth`` and ``Swan-Ganz catheter`` are kept, ``Dr Crohn`` and
``Mr Whipple`` are not. The phrases are from open terminologies; each has at least one word that is no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from medsanitize.policies.tables.vocabulary import cues, eponyms, fold, phrases, small_words
from medsanitize.sanitize.text.lexicon import WordKind
from medsanitize.sanitize.text.tokens import TokenizedText

LONGEST_PHRASE = 6
"""Words of the longest phrase."""
_GAP = re.compile(r"[ \t]?[-–/,'’`´(\[]?[ \t]?")
_NAME_GAP = re.compile(r" |\. ?|-|['’`´]")
_TIGHT = re.compile(r"[-–]|['’`´]?")
_SHORTEST_PLURAL = 5
_UNSURE = (WordKind.UNKNOWN, WordKind.DOUBTFUL, WordKind.EPONYM, WordKind.NAMED, WordKind.INSTITUTION)
_NAMELIKE = (WordKind.UNKNOWN, WordKind.DOUBTFUL, WordKind.EPONYM)
_PARTICLES = frozenset("of de du von van la le der den di da del des d".split())
_MOST_LETTERS = 24
_ANNOUNCING = ("title", "by", "relation", "label")
_SECTIONS = ("eponym", "scale", "operation")
_SCALE_GAP = re.compile(r"[ :=-]{1,2}")
_ROMAN = re.compile(r"(?:I{1,3}|IV|VI{0,3}|V)[A-Fa-f]?|\d[A-Fa-f]|[ivx]{1,4}[a-f]?")
_GRADES = frozenset("ABCDEF")
# Scales with letters only, which are no names of today: a letter at the end of a text is their grade.
_LETTERED = frozenset(["balthazar", "balthasar", "child", "pugh"])
_MOST_GRADE_DIGITS = 3
_GRADED = frozenset(
    "grade grades type class stage score grad typ stadium klasse stade grado tipo estadio grau graad".split()
)
_YEAR = re.compile(r",? \(?(?:19|20)\d\d(?![^\W_])")


def phrase_words(words: Sequence[str]) -> list[str]:
    """Return the words without the ``s`` that an apostrophe separates from a name."""
    return [word for place, word in enumerate(words) if not (place and word in ("s", "S"))]


def phrase_key(words: Sequence[str]) -> str:
    """Return words as the table of phrases has them: folded, without the ending of a plural.

    Examples
    --------
    >>> phrase_key(["Crohn", "Diseases"])
    'crohn disease'
    """
    return " ".join(_singular(fold(word)) for word in words)


def _singular(word: str) -> str:
    if len(word) >= _SHORTEST_PLURAL and word.endswith("s") and word[-2] not in "sui":
        return word[:-1]
    return word


def keep_terms(reading: TokenizedText) -> None:
    """Mark the words of terms as safe, unless the words before them say that a person is meant.

    Parameters
    ----------
    reading : TokenizedText
        The kinds of ``words`` are updated in place.
    """
    if all(word.kind not in _UNSURE for word in reading.words):
        return
    _keep_small(reading)
    kept: set[int] = set()
    terms = (_listed, _named, _according, _signs, _scales, _pairs, _operations)
    for start, end in (span for find in terms for span in find(reading)):
        # Behind a name that a term has, no person begins: "Hodgkin lymphoma, Deauville 3".
        if start - 1 in kept or not _is_person(reading, start):
            kept.update(range(start, end))
    for place in kept:
        word = reading.words[place]
        if word.kind in _UNSURE and place not in reading.cut:
            reading.words[place] = replace(word, kind=WordKind.TERM if len(word.text) == 1 else WordKind.SAFE)


def _keep_small(reading: TokenizedText) -> None:
    """Mark clinical words that are also names as safe if they are written as words: ``gene carrier``."""
    # Without any capital, a name is written like a word.
    if reading.small:
        return
    for place, word in enumerate(reading.words):
        if word.kind not in (WordKind.UNKNOWN, WordKind.DOUBTFUL) or not word.small:
            continue
        known = word.kind is WordKind.UNKNOWN and word.folded in small_words()
        if not (known or _is_shortened(reading, place)):
            continue
        before = reading.words[place - 1].folded if place else ""
        if not any(before in cues()[name] for name in _ANNOUNCING):
            reading.words[place] = replace(word, kind=WordKind.SAFE)


def _is_shortened(reading: TokenizedText, place: int) -> bool:
    """Whether a word is an abbreviation before a full stop, or behind a kept word at the end of a phrase."""
    word = reading.words[place]
    if word.folded not in cues()["small abbreviation"]:
        return False
    after = reading.text[word.end : word.end + 1]
    phrase = bool(place) and reading.gap(place - 1) == " " and reading.stays(place - 1)
    return after == "." or (phrase and after in ("", ",", ";", ":", ")"))


def _listed(reading: TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges of words that a listed phrase consists of."""
    words, table = reading.words, phrases()
    for start in range(len(words)):
        key, unsure, count = "", False, 0
        for end in range(start, min(len(words), start + 2 * LONGEST_PHRASE)):
            if end > start and not _GAP.fullmatch(reading.gap(end - 1)):
                break
            word = words[end]
            unsure = unsure or word.kind in _UNSURE
            if end > start and word.folded == "s":
                continue
            count += 1
            if count > LONGEST_PHRASE:
                break
            key += (" " if key else "") + _singular(word.folded)
            if count > 1 and unsure and key in table:
                yield start, end + 1


def _named(reading: TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield names of terms next to a word such as ``disease``, and any name before ``syndrome``."""
    for place, word in enumerate(reading.words):
        disease = word.folded in cues()["disease"]
        if not disease and word.folded not in cues()["technique"]:
            continue
        start = place
        while start and _is_eponym(reading, start - 1, tight=start < place, disease=disease):
            start -= 1
        if start < place:
            yield start, place + 1
        elif word.folded in cues()["syndrome"] and (first := _unlisted(reading, place)) < place:
            yield first, place + 1
        end = place + 1
        while end < len(reading.words) and reading.words[end].folded in _PARTICLES and end - place <= 2:
            end += 1
        first = end
        while end < len(reading.words) and _is_named(reading, end, disease=disease):
            if end > first and not _TIGHT.fullmatch(reading.gap(end - 1)):
                break
            end += 1
        if end > first and _is_listed_name(reading, end):
            continue
        if end > first and all(reading.gap(gap) in (" ", "'", "’", "-") for gap in range(place, end - 1)):
            yield place, end


def _according(reading: TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield names of methods and classes behind a word such as ``according``: ``nach Gruen``."""
    words = reading.words
    for place, word in enumerate(words):
        if not place or not reading.stays(place - 1) or place + 1 >= len(words):
            continue
        first = place + 1
        if word.folded == "according" and words[first].folded == "to":
            first += 1
        classed = _is_classed(reading, place - 1)
        if word.folded not in cues()["according"] and not (classed and word.folded in _PARTICLES):
            continue
        if first >= len(words) or reading.gap(first - 1) not in (" ", ". "):
            continue
        end = first
        while end < len(words) and _is_named(reading, end, disease=False):
            if end > first and reading.gap(end - 1) != "-":
                break
            end += 1
        if (
            end > first
            and not _is_listed_name(reading, end)
            and (classed or words[first].folded in cues()["scale"])
        ):
            yield first, end


def _is_classed(reading: TokenizedText, place: int) -> bool:
    """Whether a word, or the one before its number, is a class, a part or a method: ``zone 7``."""
    word = reading.words[place]
    if word.kind is WordKind.NUMBER or _ROMAN.fullmatch(word.text):
        place -= 1
    if place < 0:
        return False
    before = reading.words[place].folded
    return before in _GRADED or before in cues()["technique"] or before in cues()["eponym head"]


def _signs(reading: TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield names of signs before their outcome: ``Murphy negativo``, but not ``Murphy positive for flu``."""
    words = reading.words
    for place in range(len(words) - 1):
        named = words[place].folded in cues()["sign"] and words[place].titled
        outcome = words[place + 1].folded in cues()["sign outcome"] and words[place + 1].small
        if not (named and outcome and reading.gap(place) == " "):
            continue
        if place + 2 >= len(words) or words[place + 2].folded not in ("for", "on", "in"):
            yield place, place + 1


def _scales(reading: TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield the ranges of scales with their grade: ``Gleason 4+3=7``, ``Bosniak IIF``, ``Child-Pugh B``."""
    words = reading.words
    for place, word in enumerate(words):
        scale = word.folded in cues()["scale"]
        if not (scale or word.folded in cues()["surname scale"]) or _continues_scale(reading, place):
            continue
        end = place + 1
        while end < len(words) and _is_scale_word(reading, end):
            scale = scale or words[end].folded in cues()["technique"] or words[end].folded in _GRADED
            end += 1
        # "Typ Parks II"
        scale = scale or (place > 0 and words[place - 1].folded in _GRADED and word.titled)
        if not (scale or _is_graded_fracture(reading, end)):
            continue
        if end < len(words) and _SCALE_GAP.fullmatch(reading.gap(end - 1)) and _is_grade(reading, end):
            yield place, end + 1


def _pairs(reading: TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield two names that a dash joins in terms only, with the grade after them: ``Child-Pugh B``."""
    words = reading.words
    for place in range(len(words) - 1):
        pair = f"{words[place].folded}-{words[place + 1].folded}"
        if reading.gap(place) not in ("-", "–") or pair not in cues()["eponym pair"]:
            continue
        end = place + 2
        graded = end < len(words) and _SCALE_GAP.fullmatch(reading.gap(end - 1))
        if graded and (_is_grade(reading, end) or words[end].text in _GRADES):
            end += 1
        yield place, end


def _is_graded_fracture(reading: TokenizedText, place: int) -> bool:
    """Whether a letter and a clinical word follow a name: ``Weber B fracture``."""
    if place + 1 >= len(reading.words) or reading.words[place].text not in _GRADES:
        return False
    after = reading.words[place + 1]
    return after.small and after.folded in cues()["technique"] | cues()["disease"]


def _continues_scale(reading: TokenizedText, place: int) -> bool:
    """Whether the word before is of the same scale: the second name of ``Kellgren-Lawrence``."""
    before = reading.words[place - 1].folded if place else ""
    named = before in cues()["scale"] or before in cues()["surname scale"]
    return named and _is_scale_word(reading, place)


def _is_scale_word(reading: TokenizedText, place: int) -> bool:
    word, gap = reading.words[place], reading.gap(place - 1)
    if word.folded in cues()["scale"] or word.folded in cues()["surname scale"]:
        return gap in ("-", "–", " ", "/")
    return gap == " " and (word.folded in _GRADED or word.folded in cues()["technique"])


def _is_grade(reading: TokenizedText, place: int) -> bool:
    """Whether a word is a grade: few digits, a Roman numeral, or a letter within a text."""
    word = reading.words[place]
    if word.kind is WordKind.NUMBER:
        return len(word.text) <= _MOST_GRADE_DIGITS
    if _ROMAN.fullmatch(word.text):
        return True
    # "Weber B." is a name with an initial.
    inner = place + 1 < len(reading.words) and reading.gap(place) == " " and reading.words[place + 1].small
    lettered = reading.words[place - 1].folded in _LETTERED and reading.gap(place - 1) == " "
    return (inner or lettered) and word.text in _GRADES


def _operations(reading: TokenizedText) -> Iterator[tuple[int, int]]:
    """Yield operations in the past, and diseases after ``M.``: ``s/p Whipple``, ``M. Crohn``."""
    words = reading.words
    for place, word in enumerate(words):
        after = reading.text[word.end :]
        if word.folded in cues()["operation"] and word.titled:
            past = place and words[place - 1].folded in cues()["after"] and words[place - 1].small
            named = past and place + 1 < len(words) and words[place + 1].titled and reading.gap(place) == " "
            if (past and not named) or (_YEAR.match(after) and not place) or (past and _YEAR.match(after)):
                yield place, place + 1
        if place and word.folded in cues()["morbus"] and word.titled and words[place - 1].text == "M":
            named = place + 1 < len(words) and words[place + 1].titled and reading.gap(place) == " "
            if reading.gap(place - 1) in (".", ". ", " ") and not named:
                yield place - 1, place + 1
        if place and word.folded in cues()["morbus"] and word.titled and _is_known(reading, place):
            yield place, place + 1


def _is_known(reading: TokenizedText, place: int) -> bool:
    """Whether a word such as ``known`` or ``history of`` precedes a disease, and no further name follows."""
    words, before = reading.words, place - 1
    if words[before].folded == "of" and before:
        before -= 1
    named = place + 1 < len(words) and not words[place + 1].small and reading.gap(place) == " "
    return words[before].folded in cues()["known"] and reading.gap(place - 1) == " " and not named


def _is_eponym(reading: TokenizedText, place: int, *, tight: bool, disease: bool) -> bool:
    """Whether a word is a name of a term, and belongs to the next word."""
    if not 0 <= place < len(reading.words):
        return False
    if place + 1 < len(reading.words) and reading.words[place].folded != "s":
        gap = _TIGHT if tight else _NAME_GAP
        if not gap.fullmatch(reading.gap(place)):
            return False
    return _is_named(reading, place, disease=disease)


def _is_listed_name(reading: TokenizedText, place: int) -> bool:
    """Whether the word behind a name is another name, after a comma or as its surname."""
    if place >= len(reading.words):
        return False
    word = reading.words[place]
    return word.kind in _NAMELIKE and not word.small and reading.gap(place - 1) in (" ", ", ", ",")


def _is_named(reading: TokenizedText, place: int, *, disease: bool) -> bool:
    """Whether a word is a name that terms have."""
    word = reading.words[place]
    if word.folded == "s" and place:
        return bool(re.fullmatch(r"['’`´]", reading.gap(place - 1)))
    if word.kind not in _UNSURE or (word.small and not reading.small):
        return False
    listed = any(word.folded in cues()[name] for name in _SECTIONS)
    return listed or (disease and _singular(word.folded) in eponyms())


def _unlisted(reading: TokenizedText, head: int) -> int:
    """Return the first word of a single or hyphenated name directly before a word for a syndrome."""
    start = head
    while start and reading.words[start - 1].kind in (*_NAMELIKE, WordKind.NAMED) and start > head - 4:
        word = reading.words[start - 1]
        gap = reading.gap(start - 1)
        if not word.titled or len(word.text) > _MOST_LETTERS or gap != (" " if start == head else "-"):
            break
        start -= 1
    return start


def _is_person(reading: TokenizedText, start: int) -> bool:
    """Whether the word before a term says that its first word is a person: a title, a label, a first name."""
    if not start:
        return False
    before, gap = reading.words[start - 1], reading.gap(start - 1)
    if before.folded in cues()["title"]:
        return True
    if ":" in gap and before.folded in cues()["label"]:
        return True
    if reading.words[start].kind not in _UNSURE or not re.fullmatch(r"[ .,]{1,2}|\^", gap):
        return False
    # "Hodgkin, Deauville 3": an eponym and a scale.
    if before.kind is WordKind.EPONYM and reading.words[start].folded in cues()["scale"]:
        return False
    if before.folded in cues()["relation"]:
        return True
    initial = len(before.text) == 1 and before.text.isupper() and "." in gap and before.text != "M"
    return initial or (before.kind in (*_NAMELIKE, WordKind.NAMED) and not before.small and "." not in gap)
