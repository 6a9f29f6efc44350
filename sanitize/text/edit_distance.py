"""Search for words with typos.

The index maps each known word and its strings with deleted letters to the word (symmetric deletion). A word
and its typo have at least one such string in common, so the cost of a search hardly depends on the number of
known words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

SHORTEST: Final = 5
_LONG: Final = 9
# Two deletions of a long word give too many strings: only its beginning is indexed.
_PREFIX: Final = 7
_LONGEST: Final = 40
_REMEMBERED: Final = 20_000
_DOUBLED: Final = re.compile(r"(.)\1+")


@dataclass(frozen=True, slots=True, repr=False)
class TypoIndex:
    """Index of words to find with one typo (from 5 letters) or two (from 9), including transpositions.

    Attributes
    ----------
    words : dict of str to str
        Each known word and the result of `find` for it.
    index : dict of str to tuple of str
        Known words by their strings with deletions; built on first use.
    slipped, fine
        Caches of words that are a typo, with the result, and of words that are not.
    """

    words: dict[str, str]
    index: dict[str, tuple[str, ...]] = field(default_factory=dict)
    slipped: dict[str, str] = field(default_factory=dict)
    fine: set[str] = field(default_factory=set)

    def __repr__(self) -> str:
        return "TypoIndex(...)"

    def find(self, word: str) -> str:
        """Return the result for a word or for the known word that it is a typo of.

        Parameters
        ----------
        word : str
            As `medsanitize.sanitize.text.folding.fold_letters` returns it.

        Returns
        -------
        str
            Empty if the word is none of the known words.
        """
        if word in self.fine:
            return ""
        said = self.slipped.get(word)
        if said is None:
            said = self._look_up(word) if SHORTEST <= len(word) <= _LONGEST else ""
            if not said:
                self.pass_over(word)
            elif len(self.slipped) < _REMEMBERED:
                self.slipped[word] = said
        return said

    def pass_over(self, word: str) -> None:
        """Remember that a word is not a typo."""
        # Bounded: the words come from texts of any length.
        if len(self.fine) >= _REMEMBERED:
            self.fine.clear()
        self.fine.add(word)

    def _look_up(self, word: str) -> str:
        if not self.index:
            self._build()
        asked = {word[:_PREFIX], word, *_fewer(word, 1), *_fewer(word[:_PREFIX], 2)}
        # Sorted, so that of two candidates always the same wins.
        candidates = sorted({known for part in asked for known in self.index.get(part, ())})
        return next((self.words[known] for known in candidates if _is_slip(word, known)), "")

    def _build(self) -> None:
        # The empty entry marks an index without words as built.
        index: dict[str, list[str]] = {"": []}
        for word in self.words:
            long = len(word) >= _LONG
            keys = _fewer(word[:_PREFIX], 2) if long else _fewer(word, 1)
            for key in {word[:_PREFIX] if long else word, *keys}:
                index.setdefault(key, []).append(word)
        self.index.update({key: tuple(words) for key, words in index.items()})


def build_typo_index(words: Iterable[tuple[str, str]]) -> TypoIndex:
    """Create an index of (word, result) pairs; it is filled on first use."""
    # One letter below the limit: with a doubled letter, such a word is long enough to be searched.
    return TypoIndex({word: said for word, said in words if len(word) >= SHORTEST - 1})


def _is_slip(word: str, known: str) -> bool:
    # A doubled letter is accepted even if the word is too short for other typos.
    if _DOUBLED.sub(r"\1", word) == _DOUBLED.sub(r"\1", known):
        return True
    return edit_distance(word, known, deletion_keys(known)) <= deletion_keys(known)


def deletion_keys(word: str) -> int:
    """Return the number of typos that a word of this length may have."""
    return 2 if len(word) >= _LONG else 1 if len(word) >= SHORTEST else 0


def _fewer(word: str, depth: int) -> Iterator[str]:
    level = {word}
    for _ in range(depth):
        level = {one[:place] + one[place + 1 :] for one in level for place in range(len(one))}
        yield from level


def edit_distance(one: str, other: str, most: int) -> int:
    """Return the edit distance of two words, with transpositions (optimal string alignment).

    Parameters
    ----------
    one, other : str
    most : int
        Greatest distance of interest: beyond it, the result is only known to be greater.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, char in enumerate(one, 1):
        line = [row]
        for column, against in enumerate(other, 1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (char != against))
            if row > 1 and column > 1 and char == other[column - 2] and one[row - 2] == against:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        if min(line) > most:
            return most + 1
        before, last = last, line
    return last[-1]
