"""Recognition of words by their sequences of letters: clinical words differ from names.

A linear model over letter n-grams, trained with words of terminologies and word lists against names of
persons and places. It accepts a word only if it resembles no name, so most unknown words, and nearly all
names, are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import sqrt
from zlib import crc32

from medsanitize.policies.tables.vocabulary import word_shape

SHORTEST_SHAPE = 6
"""Letters of the shortest word that the model accepts."""
SIZES = range(3, 8)
_LONGEST = 48


@lru_cache(maxsize=65536)
def resembles_no_name(word: str) -> bool:
    """Return whether the letters of a folded word are those of words, not those of names."""
    if not SHORTEST_SHAPE <= len(word) <= _LONGEST:
        return False
    shape = word_shape()
    return score(word, shape.weights) > shape.threshold


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
