"""Recognition of words by their sequences of letters: clinical words differ from names.

A linear model over letter n-grams, trained with words of terminologies and word lists against names of
persons and places. It accepts a word only if it resembles no name, so most unknown words, and nearly all
names, are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from math import sqrt
from zlib import crc32

from medsanitize.policies.tables.vocabulary import word_shape

SHORTEST_SHAPE = 4
"""Letters of the shortest word that the model knows."""
SIZES = range(3, 8)
_LONGEST = 48


class Place(Enum):
    """Where a word stands.

    The value is the number of letters of the shortest word that is accepted there, and the name in the table.

    * ``ANY``: anywhere, even by itself.
    * ``SENTENCE``: with a capital that all words at this place have.
    * ``SMALL``: without a capital in a text that has some.
    * ``MENTIONED``: the same, behind a word such as ``with`` or a cut.
    * ``LONE``: by itself, and listed as an ordinary word.
    """

    ANY = 6, "any"
    SENTENCE = 5, "sentence"
    SMALL = 4, "small"
    MENTIONED = 5, "mentioned"
    LONE = 4, "lone"


def resembles_no_name(word: str) -> bool:
    """Return whether the letters of a folded word are those of words, not those of names."""
    return resembles_word(word, Place.ANY)


@lru_cache(maxsize=65536)
def resembles_word(word: str, place: Place) -> bool:
    """Return whether the letters of a folded word are those of words, as far as its place requires it."""
    shortest, name = place.value
    if not shortest <= len(word) <= _LONGEST:
        return False
    shape = word_shape()
    return score(word, shape.weights) > shape.thresholds[name]


def score(word: str, weights: memoryview) -> float:
    """Return the sum of the weights of a word's n-grams, divided by the square root of their number."""
    places = set(ngrams(word, len(weights)))
    return float(sum(weights[place] for place in places)) / sqrt(len(places))


def ngrams(word: str, size: int) -> Iterator[int]:
    """Yield the index of the weight of each n-gram of a word; ``size`` is the number of weights."""
    marked = f"^{word}$"
    for length in SIZES:
        for start in range(len(marked) - length + 1):
            # A fixed hash, because that of str differs by process.
            yield crc32(marked[start : start + length].encode()) % size
