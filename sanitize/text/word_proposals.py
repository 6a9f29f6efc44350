"""Words of an export that a site may want in its lists of never-words and safe words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from medsanitize.policies.tables.vocabulary import fold, lone_names, split_words, word_shape
from medsanitize.sanitize.text.lexicon import WordKind
from medsanitize.sanitize.text.stop_words import NOT_NAMES
from medsanitize.sanitize.text.tokens import TokenizedText, Word, tokenize
from medsanitize.sanitize.text.word_shape import score

_NAMES: Final = (WordKind.DOUBTFUL, WordKind.EPONYM)
_MAYBE_NAMES: Final = (*_NAMES, WordKind.NAMED)
_NAMELESS: Final = (WordKind.SAFE, WordKind.TERM, WordKind.NUMBER, WordKind.INSTITUTION)
_MOST_WORDS: Final = 4
_LEAST_LETTERS: Final = 3
# A word above half of the score at which the cleaner keeps it is more like a word than like a name.
_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True, repr=False)
class CleanedWords:
    """Words of one text: kept words and phrases that may be names, and removed words."""

    kept: frozenset[str]
    removed: frozenset[str]

    def __repr__(self) -> str:
        return "CleanedWords(...)"


def compare(before: str, after: str) -> CleanedWords:
    """Compare a text with the cleaned text.

    Parameters
    ----------
    before, after : str

    Returns
    -------
    CleanedWords
        Kept are capitalized words that are also names, and phrases of capitalized words with one of them.
    """
    reading = tokenize(before)
    left = split_words(after)
    kept: list[bool] = []
    for word in reading.words:
        # The cleaned text is a selection of the words, in their order.
        stays = word.text in left
        kept.append(stays)
        if stays:
            del left[: left.index(word.text) + 1]
    removed = frozenset(
        word.text for word, stays in zip(reading.words, kept, strict=True) if not stays and _has_letters(word)
    )
    return CleanedWords(frozenset(_kept_names(reading, kept)), removed)


def _kept_names(reading: TokenizedText, kept: list[bool]) -> Iterator[str]:
    run: list[Word] = []
    for place, word in enumerate(reading.words):
        if kept[place] and not word.small and word.text.isalpha():
            # A capital says nothing about an ordinary word in a text in capitals or at its beginning.
            if word.kind in (_NAMES if reading.capitals or not place else _MAYBE_NAMES):
                yield word.text
            if run and reading.gap(place - 1) == " ":
                run.append(word)
            else:
                yield from _phrase(reading, run)
                run = [word]
        else:
            yield from _phrase(reading, run)
            run = []
    yield from _phrase(reading, run)


def _phrase(reading: TokenizedText, run: list[Word]) -> Iterator[str]:
    named = any(word.kind in (*_MAYBE_NAMES, WordKind.INSTITUTION) for word in run)
    if 1 < len(run) <= _MOST_WORDS and named and not reading.capitals:
        yield " ".join(word.text for word in run)


def _has_letters(word: Word) -> bool:
    return sum(map(str.isalpha, word.text)) >= _LEAST_LETTERS


def resembles_word(word: str) -> bool:
    """Return whether a removed word looks like a word or code of a protocol, not like a name."""
    folded = fold(word)
    kind = tokenize(word).words[0].kind
    if folded in lone_names() or kind not in (WordKind.UNKNOWN, WordKind.TERM):
        return False
    if any(map(str.isdigit, word)):
        return True
    shape = word_shape()
    return folded.isascii() and score(folded, shape.weights) > shape.thresholds["any"] * _SHARE


def identifies(value: str) -> bool:
    """Return whether a value of a header contains a word that is no ordinary word and no placeholder."""
    return any(
        word.kind not in _NAMELESS and word.folded not in NOT_NAMES and word.text.isalpha()
        for word in tokenize(value).words
    )
