"""One text read word by word: what each word is, how it is written and what stands around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from medsanitize.policies.tables.vocabulary import fold
from medsanitize.sanitize.text.lexicon import WordKind, word_kind

_WORD = re.compile(r"[^\W_]+")
_RUN = re.compile(r"[^\W_]+(?:\?+[^\W_]+)*")
_CLINICAL = (WordKind.SAFE, WordKind.NAMED)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text: its half-open span, what it is, and how it is written."""

    start: int
    end: int
    text: str
    folded: str
    kind: WordKind

    @property
    def titled(self) -> bool:
        """Whether it begins like a name: a capital, then small letters."""
        return len(self.text) > 1 and self.text[0].isupper() and self.text[1:].lower() == self.text[1:]

    @property
    def small(self) -> bool:
        """Whether it is all in small letters."""
        return self.text == self.text.lower()


@dataclass(slots=True)
class TokenizedText:
    """A text under reading.

    ``capitals``, ``titles`` and ``small`` say how its words are written: nearly all in capitals, every longer
    one beginning with one, none with any. ``cut`` maps the number of a word to the rule that takes it out.
    ``open`` are words that stay unless the language model says they are a name.
    """

    text: str
    words: list[Word]
    capitals: bool
    titles: bool
    small: bool
    cut: dict[int, str] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def gap(self, left: int) -> str:
        """What stands between a word and the next."""
        return self.text[self.words[left].end : self.words[left + 1].start]

    def stays(self, place: int) -> bool:
        """Whether there is a word at ``place`` that is ordinary and stays."""
        if not 0 <= place < len(self.words) or place in self.cut:
            return False
        return self.words[place].kind in (*_CLINICAL, WordKind.NUMBER, WordKind.TERM)


def tokenize(text: str) -> TokenizedText:
    """Split a text into words and say what each is."""
    words = [
        Word(start, start + len(word), word, fold(word), word_kind(word)) for start, word in _split(text)
    ]
    letters = [word.text for word in words if word.text.isalpha() and len(word.text) > 1]
    small = sum(any(char.islower() for char in word) for word in letters)
    titles = all(not word.small for word in words if len(word.text) > 3 and word.text.isalpha())
    capitals = bool(letters) and small * 4 <= len(letters)
    return TokenizedText(text, words, capitals, titles, all(word.small for word in words))


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Words and where they start. A question mark inside one stands for a letter that some system lost."""
    for run in _RUN.finditer(text):
        parts = [(run.start() + part.start(), part[0]) for part in _WORD.finditer(run[0])]
        if len(parts) > 1 and any(word_kind(part) not in _CLINICAL or len(part) == 1 for _, part in parts):
            yield run.start(), run[0]
        else:
            yield from parts
