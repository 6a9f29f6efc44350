"""Unlisted words of running text that are kept: written as words, and with letters like those of words.

Names have capitals. A word without one is a name only by mistake, so its letters need to resemble a word
less than those of a word by itself. The same holds, to a lesser degree, for the first word of a sentence and
for nouns of German, which all have capitals. Where no word has a capital, nothing follows from its absence.
"""

from __future__ import annotations

import re

from medsanitize.policies.tables.vocabulary import common_words, cues
from medsanitize.sanitize.text.lexicon import WordKind, is_in_corpus
from medsanitize.sanitize.text.scripts.characters import has_script
from medsanitize.sanitize.text.tokens import TokenizedText, Word
from medsanitize.sanitize.text.word_shape import Place, resembles_word

_FEWEST_WORDS = 2
_BESIDE = re.compile(r"[ \t]*[ \t,/(&+'’-][ \t]*")
_TIGHT = re.compile(r"[ \t]*[ \t/(&+'’-][ \t]*")
_SENTENCE_ENDS = (".", ":", "!", "?", ";")
_NAMELIKE = (WordKind.UNKNOWN, WordKind.DOUBTFUL, WordKind.EPONYM, WordKind.INSTITUTION)
_ANNOUNCING = ("title", "label", "name label", "credential", "person verb")
_MENTIONING = ("by", "relation")
_ARTICLES = frozenset(
    "der die das des dem den ein eine einer eines einem einen im am zum zur vom beim".split()
)
# Words that no other language in Latin script has.
_GERMAN = frozenset(
    "und mit bei ohne nach durch nicht oder eine einer eines einem einen beim zur zum vom dem sind ist wird "
    "kein keine keinen keiner sowie auf aus sonstige sonstiger sonstigen akute akuter chronische".split()
)
_LEAST_GERMAN = 2
_CONJUNCTIONS = frozenset("und oder sowie".split())
_PARTICLES = frozenset("van von vander".split())


def is_written_as_word(reading: TokenizedText, place: int) -> bool:
    """Return whether an unlisted word is kept because of how it is written and of the words beside it.

    Parameters
    ----------
    reading : TokenizedText
        Names that titles, labels and other cues announce are already cut.
    place : int
        Index of a word of no known kind.
    """
    word = reading.words[place]
    if reading.capitals or len(reading.words) < _FEWEST_WORDS or not reading.sentences:
        return False
    if not word.text.isalpha() or has_script(word.text) or word.folded in cues()["made of parts"]:
        return False
    if not _is_among_words(reading, place):
        return False
    mentioned = _follows(reading, place, _MENTIONING) or (
        place - 1 in reading.cut and bool(_TIGHT.fullmatch(reading.gap(place - 1)))
    )
    if word.small:
        if mentioned:
            return resembles_word(word.folded, Place.MENTIONED)
        return _is_common(reading, place) or resembles_word(word.folded, Place.SMALL)
    if mentioned or not word.titled or reading.titles:
        return False
    if _starts_sentence(reading, place):
        return resembles_word(word.folded, Place.SENTENCE) or is_in_corpus(word.folded)
    if not is_german(reading):
        return False
    # "van der Berg" is a name.
    if place > 1 and not _PARTICLES.isdisjoint(other.folded for other in reading.words[place - 2 : place]):
        return False
    placed = _follows_article(reading, place) or _follows_noun(reading, place)
    noun = placed and word.folded in common_words()
    return noun or resembles_word(word.folded, Place.SENTENCE)


def _is_among_words(reading: TokenizedText, place: int) -> bool:
    """Return whether a word that is kept is next to it, and neither a name nor a title."""
    small = reading.words[place].small
    # A comma divides a word without a capital from a name before it.
    gaps = _TIGHT if small else _BESIDE
    kept = False
    for other in (place - 1, place + 1):
        if not 0 <= other < len(reading.words) or not gaps.fullmatch(reading.gap(min(place, other))):
            continue
        beside = reading.words[other]
        if small and beside.small and reading.cut.get(other) == "unknown-word":
            continue
        if other in reading.cut or _may_be_name(beside):
            return False
        if any(beside.folded in cues()[name] for name in _ANNOUNCING):
            return False
        kept = kept or reading.stays(other) or beside.small
    divided = not any(
        "_" in reading.gap(other) for other in (place - 1, place) if 0 <= other < len(reading.words) - 1
    )
    return kept or (small and divided and any(reading.stays(other) for other in range(len(reading.words))))


def _is_common(reading: TokenizedText, place: int) -> bool:
    """Return whether a word is a common one although it is a name, and no such word is next to it."""
    beside = [other for other in (place - 1, place + 1) if 0 <= other < len(reading.words)]
    alone = all(reading.words[other].kind is not WordKind.UNKNOWN for other in beside)
    return alone and reading.words[place].folded in common_words()


def _may_be_name(word: Word) -> bool:
    if word.kind not in _NAMELIKE or word.small:
        return False
    return word.kind is not WordKind.UNKNOWN or not resembles_word(word.folded, Place.SENTENCE)


def _follows(reading: TokenizedText, place: int, sections: tuple[str, ...]) -> bool:
    """Return whether the word before is in one of the sections of cues."""
    return place > 0 and any(reading.words[place - 1].folded in cues()[name] for name in sections)


def _starts_sentence(reading: TokenizedText, place: int) -> bool:
    """Return whether a word begins a sentence, and a word that is kept and has no capital follows."""
    after = place + 1
    follows = reading.stays(after) and reading.words[after].small and reading.words[after].text.isalpha()
    return follows and _begins(reading, place)


def is_german(reading: TokenizedText) -> bool:
    """Return whether a text is German: by its frequent words, or by articles and nouns with a capital."""
    if reading.german is None:
        # Asked for many words of a text, and the same for all.
        reading.german = _is_german(reading)
    return reading.german


def _is_german(reading: TokenizedText) -> bool:
    small = [word.folded for word in reading.words if word.small]
    if not _GERMAN.isdisjoint(small):
        return True
    nouns = sum(
        word.titled and word.kind is WordKind.SAFE and not _begins(reading, place)
        for place, word in enumerate(reading.words)
    )
    return nouns > 0 and nouns + sum(word in _ARTICLES for word in small) >= _LEAST_GERMAN


def _follows_article(reading: TokenizedText, place: int) -> bool:
    return place > 0 and reading.words[place - 1].folded in _ARTICLES and reading.gap(place - 1) == " "


def _follows_noun(reading: TokenizedText, place: int) -> bool:
    """Return whether a word is joined to a noun that is kept: ``Straßen und Wege``."""
    if place < _FEWEST_WORDS or reading.words[place - 1].folded not in _CONJUNCTIONS:
        return False
    noun = reading.words[place - 2]
    apart = reading.gap(place - 1) != " " or reading.gap(place - 2) != " "
    return not apart and noun.titled and noun.kind is WordKind.SAFE and reading.stays(place - 2)


def _begins(reading: TokenizedText, place: int) -> bool:
    before = reading.text[: reading.words[place].start].rstrip()
    return not before or before.endswith(_SENTENCE_ENDS)
