"""Generate words and terms of open clinical terminologies.

``python -m medsanitize.tools.standard_tables.generate_terms`` writes to ``policies/tables``:
``vocabulary_clinical.txt`` (words that are in no list of names), ``vocabulary_phrases.txt`` (the part of a
term that shows that a name in it is no person: ``crohn disease``), ``vocabulary_eponyms.txt`` (names in it),
``vocabulary_small.txt`` and ``vocabulary_lone.txt`` (words that are names with a capital, or alone),
``vocabulary_roots.txt`` (what the spellings of a word in several languages have in common), and
``vocabulary_shape.bin`` (the model of `train_shape`). Run by a maintainer, never at run time. VOCABULARY.md
states the sources and their licenses. Equal sources give equal bytes.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from medsanitize.policies.tables import vocabulary
from medsanitize.policies.tables.vocabulary import cues, fold, split_words
from medsanitize.sanitize.text.cognates import SHORTEST_KEY, cognate_key
from medsanitize.sanitize.text.lexicon import WordKind, is_only_in_use, listed_kind
from medsanitize.sanitize.text.terms import LONGEST_PHRASE, phrase_key, phrase_words
from medsanitize.tools.standard_tables.generate_vocabulary import keep_words
from medsanitize.tools.standard_tables.terminologies import installed
from medsanitize.tools.standard_tables.train_shape import packed, scores, train
from medsanitize.tools.standard_tables.word_checks import (
    RARE_SURNAME,
    SHORTEST,
    american_first_names,
    census_names,
    is_frequent,
    name_list,
    other_names,
    surname_ranks,
)

TABLES = Path(__file__).parents[2] / "policies" / "tables"
LEAST_TERMS = 2
# Of words that may be the first of a title, and of words that are written like names.
LEAST_SCORE = (-2.0, 1.0)
# The model knows little about short words.
SHORTEST_SURE = 6
LEAST_SCORE_SHORT = (0.0, 2.0)
MOST_DIGITS = 3
LONGEST_SYMBOL = 10
LEAST_LONE_RUN = 3
SHORTEST_SPELT = 7
"""Letters of the shortest word whose spellings in other languages are known by its key."""
_HYPHENATED = re.compile(r"(?<![\w-])[A-ZÀ-Þ][^\W\d_]{2,}(?:-[A-ZÀ-Þ][^\W\d_]{2,})+(?![\w-])")
_JOINING = frozenset("of de du von van the la le and et y e a s d del di da".split())


@dataclass(frozen=True, slots=True)
class LearnedTerms:
    """What a set of terms teaches.

    Attributes
    ----------
    words : frozenset of str
        Words that are in no list of names.
    phrases : frozenset of str
        Parts of terms with a word that may be a name, as `phrase_key` writes them.
    eponyms : frozenset of str
        Names next to a word such as ``disease``.
    small : frozenset of str
        Words that are names, but not in terms.
    roots : frozenset of str
        Keys of words, as `cognate_key` returns them, that no name has.
    shape : bytes
        The model of letter n-grams.
    """

    words: frozenset[str]
    phrases: frozenset[str]
    eponyms: frozenset[str]
    small: frozenset[str]
    roots: frozenset[str]
    shape: bytes

    def write(self, folder: Path) -> None:
        """Write the tables to a folder."""
        for name, lines in (
            ("clinical", self.words),
            ("phrases", self.phrases),
            ("eponyms", self.eponyms),
            ("small", self.small),
            ("roots", self.roots),
        ):
            # Sorted by bytes, as WordBlock searches them.
            text = "".join(f"{line}\n" for line in sorted(lines, key=str.encode))
            (folder / f"vocabulary_{name}.txt").write_text(text, encoding="utf-8")
        (folder / "vocabulary_shape.bin").write_bytes(self.shape)


def main(argv: list[str] | None = None) -> None:
    """Write the tables and print the digests of the sources."""
    parser = argparse.ArgumentParser(description="Make the tables of words and terms of terminologies.")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder to write to")
    options = parser.parse_args(argv)
    shipped = [source for source in installed() if source.shipped]
    cased = [term for source in shipped if source.cased for term in source.terms()]
    learn((term for source in shipped for term in source.terms()), cased).write(options.out)
    text = "".join(f"{word}\n" for word in sorted(lone_names()))
    (options.out / "vocabulary_lone.txt").write_text(text, encoding="utf-8")
    for source in shipped:
        print(source.name, source.package, source.digest())


def lone_names() -> frozenset[str]:
    """Return ordinary words that are names, without those of anatomy and technique."""
    named = vocabulary.plain_words() | vocabulary.named_words()
    clinical = vocabulary.words() | keep_words()
    return frozenset(word for word in named - clinical if word in name_list() or word in other_names())


def learn(terms: Iterable[str], cased: Iterable[str]) -> LearnedTerms:
    """Learn words, phrases, eponyms and letter n-grams from terms.

    Parameters
    ----------
    terms : iterable of str
    cased : iterable of str
        Those that write all names with a capital.
    """
    terms, cased = sorted(set(terms)), sorted(set(cased))
    split = [split_words(term) for term in terms]
    said = Counter(word for found in split for word in {fold(word) for word in found})
    small = Counter(word for term in set(cased) for word in set(split_words(term)) if word == fold(word))
    words = {word for word in said if _may_stay(word, said[word], small[word])}
    # A word that is always written with a capital may be an eponym: it must look like a word.
    capital = sorted(word for word in words if not small[word] and word.isalpha())
    proper = {name for found in split for name in _proper(found)}
    words.difference_update(_eponyms_among(capital, words.difference(capital), proper))
    phrases: set[str] = set()
    eponyms: set[str] = set()
    for found in split:
        for phrase, names in _phrases(found, words):
            phrases.add(phrase)
            eponyms.update(names)
    for term in terms:
        phrases.update(_double_names(term, words))
    new = frozenset(word for word in words if _kind(word) is WordKind.UNKNOWN or is_only_in_use(word))
    lower = frozenset(_small_names(small, words))
    roots = frozenset(_roots(words | vocabulary.words(), eponyms))
    return LearnedTerms(new, frozenset(phrases), frozenset(eponyms), lower, roots, packed(train(words)))


def _roots(words: Iterable[str], eponyms: Iterable[str]) -> Iterator[str]:
    """Yield the keys of long words, without those of names."""
    named = _named_keys() | {cognate_key(name) for name in eponyms}
    for word in words:
        if len(word) >= SHORTEST_SPELT and word.isalpha():
            key = cognate_key(word)
            if len(key) >= SHORTEST_KEY and key not in named:
                yield key


@cache
def _named_keys() -> frozenset[str]:
    names = name_list() | other_names() | census_names()
    return frozenset(cognate_key(name) for name in names if len(name) >= SHORTEST)


def _small_names(small: Iterable[str], words: Collection[str]) -> Iterator[str]:
    """Yield the words without a capital that are names."""
    for word in small:
        sized = len(word) >= SHORTEST - 1 and word.isalpha() and word not in words
        if sized and _kind(word) is WordKind.UNKNOWN:
            yield word


def _proper(found: list[str]) -> Iterator[str]:
    """Yield words that are written like names: with a capital within a sentence, or before ``syndrome``."""
    sentence = any(word == fold(word) and len(word) >= SHORTEST for word in found)
    for place, word in enumerate(found):
        if word[:1].isupper():
            after = next((fold(other) for other in found[place + 1 :] if not other[:1].isupper()), "")
            if (place and sentence) or (found[place + 1 :] and after in cues()["eponym head"]):
                yield fold(word)


def _eponyms_among(capital: Sequence[str], others: Collection[str], proper: Collection[str]) -> Iterator[str]:
    """Yield the words that look like names to a model that was not trained with them."""
    for half in (0, 1):
        asked = [word for place, word in enumerate(capital) if place % 2 == half]
        learnt = [*others, *(word for place, word in enumerate(capital) if place % 2 != half)]
        weights = train(learnt, rare=False)
        for word, score in zip(asked, scores(weights, asked), strict=True):
            least = LEAST_SCORE if len(word) >= SHORTEST_SURE else LEAST_SCORE_SHORT
            if score < least[word in proper]:
                yield word


def _may_stay(word: str, said: int, small: int) -> bool:
    """Whether a word of terms is kept wherever it stands."""
    if not word.isalpha():
        return _is_symbol(word)
    if word in name_list() or word in other_names():
        return (
            small >= LEAST_TERMS
            and len(word) >= SHORTEST
            and surname_ranks().get(word, 10**6) >= RARE_SURNAME
            and word not in american_first_names()
            and is_frequent(word)
        )
    # Short words look like abbreviations of names.
    return len(word) >= SHORTEST or (len(word) == SHORTEST - 1 and said >= LEAST_TERMS)


def _is_symbol(word: str) -> bool:
    """Whether a word is the symbol of a gene, antigen or the like: letters and few digits."""
    digits = sum(char.isdigit() for char in word)
    return word.isascii() and 0 < digits <= MOST_DIGITS and digits < len(word) <= LONGEST_SYMBOL


@cache
def _kind(word: str) -> WordKind:
    return listed_kind(word)


def _phrases(found: list[str], words: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each run of words that may be names, the run with a word beside it, and the names."""
    kept = phrase_words(found)
    unsure = [_is_unsure(fold(word), words) for word in kept]
    start = 0
    while start < len(kept):
        if not unsure[start]:
            start += 1
            continue
        end = start + 1
        while end < len(kept) and (
            unsure[end] or (end + 1 < len(kept) and unsure[end + 1] and fold(kept[end]) in _JOINING)
        ):
            end += 1
        run = kept[start:end]
        names = [phrase_key([word]) for word in run if word[0].isupper() and len(word) > LEAST_TERMS]
        if end < len(kept) and _is_context(kept[end], words) and len(run) < LONGEST_PHRASE:
            head = fold(kept[end]) in cues()["eponym head"]
            yield phrase_key(kept[start : end + 1]), names if head else []
        else:
            first = start - 1
            while first > 0 and start - first < LEAST_LONE_RUN and not _is_context(kept[first], words):
                first -= 1
            if first >= 0 and _is_context(kept[first], words) and end - first <= LONGEST_PHRASE:
                head = fold(kept[first]) in cues()["eponym head"]
                yield phrase_key(kept[first:end]), names if head else []
            elif LEAST_LONE_RUN <= len(run) <= LONGEST_PHRASE:
                yield phrase_key(run), []
        start = end


def _double_names(term: str, words: Collection[str]) -> Iterator[str]:
    """Yield names with hyphens, unless each part is a frequent surname: a person may be called so."""
    for found in _HYPHENATED.findall(term):
        parts = split_words(found)
        frequent = all(surname_ranks().get(fold(part), 10**6) < RARE_SURNAME for part in parts)
        if not frequent and all(_is_unsure(fold(part), words) for part in parts):
            yield phrase_key(parts)


def _is_unsure(word: str, words: Collection[str]) -> bool:
    unsure = (WordKind.UNKNOWN, WordKind.DOUBTFUL, WordKind.EPONYM, WordKind.INSTITUTION)
    return word not in words and _kind(word) in unsure


def _is_context(word: str, words: Collection[str]) -> bool:
    """Whether a word is a clinical word, not an article or preposition."""
    folded = fold(word)
    return (
        folded.isalpha()
        and len(folded) >= SHORTEST
        and folded not in _LOOSE
        and (folded in words or _kind(folded) is WordKind.SAFE)
    )


_LOOSE = frozenset(
    "with without from into upon other others unspecified specified type types this that than them "
    "they there their due some such each both more most less least only also after before during "
    "between within under over above below left right upper lower same have been were when where "
    "which while whose patient patients person persons male female year years month months week "
    "weeks day days time times".split()
)
"""Words that may stand next to the name of a person in any sentence."""


if __name__ == "__main__":
    main()
