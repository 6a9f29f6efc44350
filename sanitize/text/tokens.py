"""Tokenization of a text into words with their kind and capitalization."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from medsanitize.policies.tables.vocabulary import fold
from medsanitize.sanitize.text.lexicon import WordKind, word_kind
from medsanitize.sanitize.text.scripts.characters import WORD, has_script
from medsanitize.sanitize.text.scripts.segmentation import split_run

_WORD = re.compile(r"[^\W_]+")
# Vowel signs are no word characters for Python; Hebrew abbreviations have quotation marks inside.
_MARKED = re.compile(rf"{WORD}+(?:(?<=[א-ת])[\"'׳״](?=[א-ת]){WORD}+)*")
_RUN = re.compile(r"[^\W_]+(?:\?+[^\W_]+)*")
_CLINICAL = (WordKind.SAFE, WordKind.NAMED)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text.

    Attributes
    ----------
    start, end : int
        Half-open span in the text.
    text : str
        The word as written.
    folded : str
        The word as `medsanitize.policies.tables.vocabulary.fold` returns it.
    kind : WordKind
    """

    start: int
    end: int
    text: str
    folded: str
    kind: WordKind

    @property
    def titled(self) -> bool:
        """Whether the word is a capital followed by small letters."""
        return len(self.text) > 1 and self.text[0].isupper() and self.text[1:].lower() == self.text[1:]

    @property
    def small(self) -> bool:
        """Whether all letters are small."""
        return self.text == self.text.lower()


@dataclass(slots=True)
class TokenizedText:
    """A tokenized text and the decisions on its words so far.

    Attributes
    ----------
    text : str
    words : list of Word
    capitals : bool
        Nearly all words are in capitals.
    titles : bool
        Every longer word begins with a capital.
    small : bool
        No word contains a capital.
    sentences : bool
        Words are written as in sentences, with a capital before small letters; abbreviations have capitals
        in any text.
    cut : dict of int to str
        Index of each word to cut, and the rule.
    open : set of int
        Indices of words that are kept unless the language model takes them for a name.
    german : bool or None
        Whether the text is German; None until it is asked.
    """

    text: str
    words: list[Word]
    capitals: bool
    titles: bool
    small: bool
    sentences: bool
    cut: dict[int, str] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    german: bool | None = None

    def gap(self, left: int) -> str:
        """Return the characters between a word and the next."""
        return self.text[self.words[left].end : self.words[left + 1].start]

    def stays(self, place: int) -> bool:
        """Return whether the word at index ``place`` exists, is ordinary and is not cut."""
        if not 0 <= place < len(self.words) or place in self.cut:
            return False
        return self.words[place].kind in (*_CLINICAL, WordKind.NUMBER, WordKind.TERM)


def tokenize(text: str) -> TokenizedText:
    """Split a text into words and determine their kinds.

    Parameters
    ----------
    text : str

    Returns
    -------
    TokenizedText
        Nothing is cut or open yet.
    """
    words = [
        Word(start, start + len(word), word, fold(word), word_kind(word)) for start, word in _split(text)
    ]
    # Scripts without capitals say nothing on the case of a text.
    letters = [
        word.text
        for word in words
        if word.text.isalpha() and len(word.text) > 1 and word.text.lower() != word.text.upper()
    ]
    # Units and sequence names ("mm", "T2w") are mixed case even in texts in capitals.
    small = sum(any(char.islower() for char in word) for word in letters)
    titles = all(not word.small for word in words if len(word.text) > 3 and word.text.isalpha())
    capitals = bool(letters) and small * 4 <= len(letters)
    small_only = all(word.small for word in words)
    return TokenizedText(text, words, capitals, titles, small_only, _has_sentences(text, words))


def _has_sentences(text: str, words: list[Word]) -> bool:
    if not words:
        return False
    first = words[0]
    article = len(first.text) == 1 and first.text.isupper() and len(words) > 1
    if article and text[first.end : words[1].start] == " ":
        return True
    return any(word.titled for word in words)


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Yield the start of each word and the word."""
    if has_script(text):
        for run in _MARKED.finditer(text):
            yield from ((run.start() + start, run[0][start:end]) for start, end in split_run(run[0]))
        return
    for run in _RUN.finditer(text):
        # A question mark inside a word often replaces a letter that a system could not encode ("M?ller").
        parts = [(run.start() + part.start(), part[0]) for part in _WORD.finditer(run[0])]
        if len(parts) > 1 and any(word_kind(part) not in _CLINICAL or len(part) == 1 for _, part in parts):
            yield run.start(), run[0]
        else:
            yield from parts
