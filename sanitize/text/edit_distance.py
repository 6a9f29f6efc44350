"""Is a word one of these words, but for a slip of the pen?

An index of deletions: a word and its slip share a string that both give by leaving out at most as many
letters as there are slips, so that a look-up costs the same for ten known words and for ten thousand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

SHORTEST: Final = 5
_LONG: Final = 9
_PREFIX: Final = 7
_LONGEST: Final = 40
_REMEMBERED: Final = 20_000
_DOUBLED: Final = re.compile(r"(.)\1+")


@dataclass(frozen=True, slots=True, repr=False)
class TypoIndex:
    """Words to recognise by distance 1 (from 5 letters on) or 2 (from 9 on), transpositions among them.

    ``words`` maps each to what ``find`` answers; ``fine`` remembers words that are no slip.
    """

    words: dict[str, str]
    index: dict[str, tuple[str, ...]] = field(default_factory=dict)
    slipped: dict[str, str] = field(default_factory=dict)
    fine: set[str] = field(default_factory=set)

    def __repr__(self) -> str:
        return "Misspelt(...)"

    def find(self, word: str) -> str:
        """What the words say for ``word`` (squeezed) or the word it is a slip of; empty when for none."""
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
        """Remember that ``word`` is no slip."""
        if len(self.fine) >= _REMEMBERED:
            self.fine.clear()
        self.fine.add(word)

    def _look_up(self, word: str) -> str:
        if not self.index:
            self._build()
        asked = {word[:_PREFIX], word, *_fewer(word, 1), *_fewer(word[:_PREFIX], 2)}
        candidates = sorted({known for part in asked for known in self.index.get(part, ())})
        return next((self.words[known] for known in candidates if _is_slip(word, known)), "")

    def _build(self) -> None:
        index: dict[str, list[str]] = {"": []}
        for word in self.words:
            long = len(word) >= _LONG
            keys = _fewer(word[:_PREFIX], 2) if long else _fewer(word, 1)
            for key in {word[:_PREFIX] if long else word, *keys}:
                index.setdefault(key, []).append(word)
        self.index.update({key: tuple(words) for key, words in index.items()})


def build_typo_index(words: Iterable[tuple[str, str]]) -> TypoIndex:
    """Make the index out of (word, what to answer); it is filled when first asked."""
    return TypoIndex({word: said for word, said in words if len(word) >= SHORTEST - 1})


def _is_slip(word: str, known: str) -> bool:
    if _DOUBLED.sub(r"\1", word) == _DOUBLED.sub(r"\1", known):
        return True
    return edit_distance(word, known, deletion_keys(known)) <= deletion_keys(known)


def deletion_keys(word: str) -> int:
    """How many slips a word of this length may have."""
    return 2 if len(word) >= _LONG else 1 if len(word) >= SHORTEST else 0


def _fewer(word: str, depth: int) -> Iterator[str]:
    level = {word}
    for _ in range(depth):
        level = {one[:place] + one[place + 1 :] for one in level for place in range(len(one))}
        yield from level


def edit_distance(one: str, other: str, most: int) -> int:
    """Edits between two words, a transposition being one (optimal string alignment); above ``most``, any."""
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
