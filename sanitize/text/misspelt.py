"""Is a word one of these words, but for a slip of the pen?

An index of deletions: a word and its slip share a string that both give by leaving out at most as many
letters as there are slips, so that a look-up costs the same for ten known words and for ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

SHORTEST: Final = 5
_LONG: Final = 9
_PREFIX: Final = 7
_REMEMBERED: Final = 20_000


@dataclass(frozen=True, slots=True, repr=False)
class Misspelt:
    """Words to recognise by distance 1 (from 5 letters on) or 2 (from 9 on), transpositions among them."""

    words: frozenset[str]
    index: dict[str, tuple[str, ...]] = field(default_factory=dict)
    seen: dict[str, bool] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Misspelt(...)"

    def matches(self, word: str) -> bool:
        """Whether ``word`` (folded) is one of the words or a slip of one."""
        known = self.seen.get(word)
        if known is None:
            if len(self.seen) >= _REMEMBERED:
                self.seen.clear()
            known = self.seen[word] = self._look_up(word)
        return known

    def _look_up(self, word: str) -> bool:
        if not self.index:
            self._build()
        asked = {word[:_PREFIX], word, *_fewer(word, 1), *_fewer(word[:_PREFIX], 2)}
        candidates = {known for part in asked for known in self.index.get(part, ())}
        return any(
            abs(len(known) - len(word)) <= allowed and distance(word, known, allowed) <= allowed
            for known in candidates
            for allowed in (slips(known),)
        )

    def _build(self) -> None:
        index: dict[str, list[str]] = {"": []}
        for word in self.words:
            long = len(word) >= _LONG
            keys = _fewer(word[:_PREFIX], 2) if long else _fewer(word, 1)
            for key in {word[:_PREFIX] if long else word, *keys}:
                index.setdefault(key, []).append(word)
        self.index.update({key: tuple(words) for key, words in index.items()})


def misspelt(words: Iterable[str]) -> Misspelt:
    """Make the index; it is filled when first asked."""
    return Misspelt(frozenset(word for word in words if len(word) >= SHORTEST))


def slips(word: str) -> int:
    """How many slips a word of this length may have."""
    return 2 if len(word) >= _LONG else 1 if len(word) >= SHORTEST else 0


def _fewer(word: str, depth: int) -> Iterator[str]:
    level = {word}
    for _ in range(depth):
        level = {one[:place] + one[place + 1 :] for one in level for place in range(len(one))}
        yield from level


def distance(one: str, other: str, most: int) -> int:
    """Edits between two words, a transposition being one (optimal string alignment); above ``most``, any."""
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
