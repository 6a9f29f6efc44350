"""Generate the words of web texts that cleaned texts may keep, from the language data of Tesseract.

``python -m medsanitize.tools.standard_tables.generate_corpus --sources FOLDER`` writes
``vocabulary_corpus.txt`` and ``vocabulary_corpus_common.txt`` to ``policies/tables``. Run by a maintainer,
never at run time, after `generate_plain`, `generate_open` and `generate_terms`. The folder holds a word list
of each language, which Tesseract's programs unpack::

    combine_tessdata -u hun.traineddata hun.
    dawg2wordlist hun.lstm-unicharset hun.lstm-word-dawg hun.words

A word is taken if the texts have it without a capital, if no list has it as a name, and if it is no form of a
name. The lists of names are those of `word_checks`, which are only queried.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from medsanitize.policies.tables import vocabulary
from medsanitize.tools.standard_tables.generate_plain import TABLES, unaccented
from medsanitize.tools.standard_tables.word_checks import (
    LEAST_USE,
    american_first_names,
    census_names,
    european_first_names,
    name_list,
    other_names,
    places,
    ranked_names,
    use,
)

LANGUAGES = {
    "ces": "cs",
    "dan": "da",
    "deu": "de",
    "fin": "fi",
    "fra": "fr",
    "hun": "hu",
    "ita": "it",
    "nld": "nl",
    "nor": "nb",
    "pol": "pl",
    "por": "pt",
    "ron": "ro",
    "spa": "es",
    "swe": "sv",
    "tur": "tr",
}
"""Languages by their codes in Tesseract's data."""
UNCOUNTED = ("da", "hu", "ro", "tr")
"""Languages of which wordfreq has frequent words only: a word need not be one of them."""
SHORTEST = 4
SHORTEST_NAME = 4
SHORTEST_STEM = 5
"""Shortest town or first name that endings are looked for behind: shorter ones begin many words."""
LEAST_COMMON = 3e-6
"""Minimum frequency of a word that is also a name, and kept where it has no capital."""
FREQUENT_NAME = 1500
"""Rank in any country up to which a name is no common word."""
LEAST_BASIC = 5e-5
MOST_FREQUENT_NAME = 100
"""The same two limits of the most frequent words of a language: Swedish ``gula``, Turkish ``orta``."""
CASES = {
    "cs": "a u e ě y ovi em ou ové ova ovo ovy ových",
    "da": "s",
    "de": "s sche schen",
    "es": "s",
    "fi": "n a ä lle lla llä lta ltä ssa ssä sta stä in kin",
    "fr": "s",
    "hu": "i t ot et öt nak nek val vel ban ben hoz hez höz tól től ról ről nál nél né ék é",
    "it": "ana ano",
    "nb": "s",
    "nl": "s",
    "pl": "a u e y i owi em ie ę ą ego emu ów",
    "pt": "s",
    "ro": "ul ului ei lui i",
    "sv": "s",
    "tr": "ı i u ü a e ya ye da de dan den ta te tan ten ın in un ün nın nin nun nün la le lı li lu lü",
}
"""Endings that a language adds to names, and endings of what is called after a place."""
FURTHER = "ki li lı lu lü yım yim yum yüm sın sin sun sün yız yiz yuz yüz dır dir dur dür tır tir".split()
"""Turkish endings of who is somewhere or from there: ``ankaradayım``."""


def main(argv: list[str] | None = None) -> None:
    """Write the two tables."""
    parser = argparse.ArgumentParser(description="Make the list of words of web texts.")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the unpacked word lists")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder to write to")
    options = parser.parse_args(argv)
    found: set[str] = set()
    common: set[str] = set()
    for code, language in LANGUAGES.items():
        lines = (options.sources / f"{code}.words").read_text(encoding="utf-8").split()
        listed = frozenset(word for word in lines if word.isalpha())
        for word in small_words(listed, language):
            if is_form_of_town_or_first_name(word):
                continue
            if not is_named(word):
                found.add(word)
            elif is_common(word, language):
                common.add(word)
    for name, words in (("corpus", found), ("corpus_common", common)):
        unlisted = (word for word in words if not _is_listed(word))
        text = "".join(f"{word}\n" for word in sorted(unlisted, key=str.encode))
        (options.out / f"vocabulary_{name}.txt").write_text(text, encoding="utf-8")


def small_words(listed: frozenset[str], language: str) -> Iterator[str]:
    """Yield the words of a list that are written without a capital and are no form of a name."""
    for word in listed:
        if len(word) < SHORTEST or word != word.lower() or vocabulary.fold(word) != word:
            continue
        used = language in UNCOUNTED or use(word, language) >= LEAST_USE
        if used and not is_form_of_name(word, listed, language):
            yield word


def is_form_of_name(word: str, listed: frozenset[str], language: str) -> bool:
    """Whether a word without its ending is in the list with a capital only: ``szegedi``, ``ahmetin``."""
    stems = (word.removesuffix(ending) for ending in CASES[language].split() if word.endswith(ending))
    return any(len(stem) >= SHORTEST_NAME and stem not in listed and stem.title() in listed for stem in stems)


def is_form_of_town_or_first_name(word: str) -> bool:
    """Whether up to two endings of any language follow one: ``antalyada``, ``ankaradaki``, ``szilvesztert``.

    Web texts write these without a capital, too, so that `is_form_of_name` does not find them.
    """
    stems = {word}
    for _ in range(2):
        stems = {
            stem.removesuffix(ending)
            for stem in stems
            for ending in (*_endings(), *FURTHER)
            if stem.endswith(ending) and len(stem) - len(ending) >= SHORTEST_STEM
        }
        if any(stem in _towns() or stem in _first_names() for stem in stems):
            return True
    return False


@cache
def _endings() -> tuple[str, ...]:
    return tuple(sorted({ending for listed in CASES.values() for ending in listed.split()}))


@cache
def _first_names() -> frozenset[str]:
    return frozenset((*american_first_names(), *european_first_names()))


def is_named(word: str) -> bool:
    """Whether a word, or its spelling without accents, is in a list of names."""
    lists = (name_list(), other_names(), census_names(), ranked_names())
    return any(form in names for form in (word, *unaccented(word)) for names in lists)


def is_common(word: str, language: str) -> bool:
    """Whether a name is mostly a word: frequent, and no first name, frequent surname or town."""
    used = use(word, language)
    if used < LEAST_COMMON or word in _towns():
        return False
    first_rank = MOST_FREQUENT_NAME if used >= LEAST_BASIC else FREQUENT_NAME
    return not any(
        form in american_first_names()
        or form in european_first_names()
        or ranked_names().get(form, first_rank) < first_rank
        for form in (word, *unaccented(word))
    )


@cache
def _towns() -> frozenset[str]:
    return frozenset(places())


def _is_listed(word: str) -> bool:
    """Whether another table has the word."""
    tables = (vocabulary.words(), vocabulary.plain_words(), vocabulary.open_words())
    return any(word in table for table in (*tables, vocabulary.clinical_words(), _other_common()))


@cache
def _other_common() -> frozenset[str]:
    """Return the common words of `generate_open`: not those of this table, which is written anew."""
    return frozenset((TABLES / "vocabulary_common.txt").read_text(encoding="utf-8").split())


if __name__ == "__main__":
    main()
