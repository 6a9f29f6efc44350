"""Generate the vocabulary and the list of coded concepts.

``python -m medsanitize.tools.standard_tables.generate_vocabulary`` writes ``vocabulary.txt`` and
``coded_concepts.csv`` to ``policies/tables``. Run by a maintainer, never at run time. Requires highdicom (the
extra ``dev``) and Faker, for its lists of names. Equal sources give equal bytes. VOCABULARY.md states the
rules.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import pkgutil
import re
import string
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from medsanitize.policies.tables.vocabulary import fold, split_words

TABLES = Path(__file__).parents[2] / "policies" / "tables"

NAME_LISTS = re.compile(r"first_names|last_names|middle_names|romanized_names|prefixes_male_names")
PLACE_LISTS = re.compile(
    r"^(cities|city_names|real_city_names|cap_city_province|municipalities|communes|concelhos|freguesias"
    r"|bairros|localities|places|towns|villages|settlements|boroughs|amphoes|tambons|area_names|districts"
    r"|distritos|counties|prefectures|departments|provinces|regions|states|estados|wilayas|countries"
    r"|streets|street_names|common_street_names|frequent_street_names|historic_people_street_names"
    r"|street_titles|streets_universal|streets_adjective_feminine|province_lgus|metro_manila_lgus)$"
)
"""Attributes of Faker's providers that contain names of people and places."""

# Latin script without capitals; other scripts have no word lists here.
ROMAN_ONLY = re.compile(r"[0-9a-zß-öø-ɏ]+")
MAX_LENGTH = 64
FIRST_PRODUCTS = "# GE\n"
"""Start of the products in device_models.txt: manufacturers' names are often surnames."""

UNITS = (
    *("al", "cc", "cgy", "ch", "cm", "cu", "dyn", "gy", "hr", "kev", "kg", "khz", "kv", "kvp", "ma", "mas"),
    *("mbq", "mci", "mg", "mhz", "min", "ml", "mm", "ms", "mv", "ph", "sec", "sl", "th", "um"),
)
"""Units that may follow a number of at most two digits without a space."""

NAMING_CONTEXTS = frozenset({3663, 3664, 3666, 3668, 7454, 7480, 7481, 7486, 7490, *range(12012, 12018)})
"""Context groups whose meanings are names: animal breeds (places), equations and growth tables (authors)."""

SHORT = 3
"""Words of up to this length must be listed manually: many surnames are as short."""


def main(argv: list[str] | None = None) -> None:
    """Write ``vocabulary.txt`` and ``coded_concepts.csv``."""
    parser = argparse.ArgumentParser(description="Make the vocabulary and the list of coded concepts.")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder to write to")
    parser.add_argument("--collisions", action="store_true", help="print the words the names took out")
    options = parser.parse_args(argv)
    listed, found = hand_listed(), collected()
    names = name_words()
    kept = keep_words()
    typed = typed_words()
    taken = {word for word in listed | found if is_name(word, typed, names) and word not in kept}
    # Names are removed last, from listed words too, unless they are on the keep list.
    vocabulary = sorted(
        word
        for word in (listed | found) - taken - stop_words()
        if is_word(word) and allowed(word, listed, typed)
    )
    (options.out / "vocabulary.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    write_concepts(options.out / "coded_concepts.csv")
    if options.collisions:
        print(" ".join(sorted(taken)))


def is_word(word: str) -> bool:
    """Whether a word consists of Latin letters and digits, with at least one letter."""
    return len(word) <= MAX_LENGTH and bool(ROMAN_ONLY.fullmatch(word)) and not word.isdigit()


def allowed(word: str, listed: frozenset[str], typed: frozenset[str]) -> bool:
    """Whether a word is safe by its form: short words and words with digits must be listed."""
    # Three digits in a row may be part of an identifier.
    if re.search(r"\d{3}", word):
        return word in typed
    return word in listed or (len(word) > SHORT and not any(map(str.isdigit, word)))


def is_name(word: str, typed: frozenset[str], names: frozenset[str]) -> bool:
    """Whether a word is a name; short words of the manually written terms are not."""
    return word in names and not (len(word) <= SHORT and (word in typed or any(map(str.isdigit, word))))


def typed_words() -> frozenset[str]:
    """Return the words of vocabulary_terms.txt."""
    lines = _read("vocabulary_terms.txt").splitlines()
    return frozenset(fold(word) for line in lines if line[:1] not in "#[" for word in split_words(line))


def hand_listed() -> frozenset[str]:
    """Return words of manually written sources: terms, defined terms, products, numbered tokens."""
    words = set(typed_words())
    for terms in json.loads(_read("defined_terms.json")).values():
        for term in terms:
            words.update(split_words(term))
    # Comments among the products are read as well: rewording one changes the vocabulary.
    products = _read("device_models.txt").partition(FIRST_PRODUCTS)[2]
    words.update(word for word in split_words(products) if len(word) > 1)
    words.update(numbered())
    return frozenset(fold(word) for word in words)


def numbered() -> Iterator[str]:
    """Yield tokens of a letter or unit and at most two digits: vertebrae, probes, kernels, doses, sequences.

    Numbers with f, m or y are left out: they are ages and sexes.
    """
    for letter in string.ascii_lowercase:
        yield from (f"{letter}{number}" for number in range(100))
        if letter not in "fmy":
            yield from (f"{number}{letter}" for number in range(100))
    # Probes such as 9L4; kernels such as B30f; sequences such as tfl3d1.
    for number in range(1, 20):
        yield from (f"{number}{letter}{low}" for letter in "ceglmpsv" for low in range(1, 10))
    for unit in (*UNITS, "x"):
        yield from (f"{number}{unit}" for number in range(100))
    for strength in range(10, 100):
        yield f"code{strength}"
        for family in "bdhijstu":
            yield from (f"{family}{strength}{variant}" for variant in "fhmsr")
        for family in ("bf", "bl", "br", "bv", "fc", "fl", "hc", "hr", "hv", "qr", "sa", "sn", "ur"):
            yield from (f"{family}{strength}{variant}" for variant in ("", "d", "f", "s", "u"))
    for family in ("bf", "fc", "fl", "sn"):
        yield from (f"{family}{strength:02d}" for strength in range(10))
    for family in (
        "de",
        "ep",
        "fi",
        "fl",
        "gr",
        "h",
        "ir",
        "me",
        "qfl",
        "re",
        "se",
        "spc",
        "swi",
        "tfi",
        "tfl",
        "tir",
    ):
        yield from (f"{family}{dimension}d" for dimension in "23")
        yield from (f"{family}{dimension}d{number}" for dimension in "23" for number in range(1, 33))
    for family in ("tse", "tgse", "spcir", "spcr", "spcdr"):
        yield from (f"{family}{dimension}d{number}" for dimension in "23" for number in range(1, 33))


def collected() -> frozenset[str]:
    """Return words of the standard's dictionaries that are ordinary words.

    All words of attribute, SOP class and module names are taken. Meanings of coded concepts contain authors
    and places, too, so their words must occur in lower case.
    """
    from pydicom._dicom_dict import DicomDictionary, RepeatersDictionary
    from pydicom._uid_dict import UID_dictionary

    names: list[str] = []
    for entry in (*DicomDictionary.values(), *RepeatersDictionary.values()):
        names += [entry[2], entry[4], _camel(entry[4])]
    names += [row[0] for row in UID_dictionary.values() if row[1] in ("SOP Class", "Transfer Syntax")]
    standard = files("highdicom").joinpath("_standard")
    modules = json.loads(standard.joinpath("module_attribute_map.json").read_text(encoding="utf-8"))
    names += [module.replace("-", " ") for module in modules]
    words = {fold(word) for phrase in names for word in split_words(phrase)}
    meanings = [meaning for _, _, meaning, contexts in concepts() if not contexts <= NAMING_CONTEXTS]
    meanings += _strings(json.loads(standard.joinpath("anatomic_regions.json").read_text(encoding="utf-8")))
    words.update(fold(word) for text in meanings for word in split_words(text) if word.islower())
    return frozenset(words)


def name_words(split: Callable[[str], list[str]] = split_words) -> frozenset[str]:
    """Return words of all surnames, first names and places in any locale of Faker, divided by ``split``."""
    words: set[str] = set()
    for package, wanted in (("person", NAME_LISTS), ("address", PLACE_LISTS)):
        providers = importlib.import_module(f"faker.providers.{package}")
        for module in pkgutil.iter_modules(providers.__path__):
            provider = importlib.import_module(f"{providers.__name__}.{module.name}").Provider
            for attribute in dir(provider):
                if wanted.search(attribute) and not attribute.startswith("_"):
                    for name in _strings(getattr(provider, attribute)):
                        words.update(split(name))
    return frozenset(fold(word) for word in words)


def keep_words() -> frozenset[str]:
    """Return words that are kept although they are names: terms of anatomy and technique."""
    return frozenset(
        fold(word)
        for line in _read("vocabulary_keep.txt").splitlines()
        if not line.startswith("#")
        for word in split_words(line)
    )


def stop_words() -> frozenset[str]:
    """Return words that mark an address, institution, date or title, and common names that Faker lacks."""
    return frozenset(
        fold(word)
        for line in _read("vocabulary_stop.txt").splitlines()
        if not line.startswith("#")
        for word in split_words(line)
    )


def concepts() -> Iterator[tuple[str, str, str, frozenset[int]]]:
    """Yield scheme, value, meaning and context groups of all PS3.16 codes in pydicom, with SRT aliases."""
    from pydicom.sr._concepts_dict import concepts as listed
    from pydicom.sr._snomed_dict import mapping

    by_scheme: Mapping[str, Mapping[str, Mapping[str, tuple[str, list[int]]]]] = cast(Any, listed)

    for row in csv.reader(_read("coded_concepts_extra.csv").splitlines()):
        yield row[0], row[1], row[2], frozenset(NAMING_CONTEXTS)
    # Archives still contain the retired SNOMED RT codes.
    aliases: dict[str, list[str]] = {}
    for retired, current in mapping["SRT"].items():
        aliases.setdefault(current, []).append(retired)
    for scheme, keywords in by_scheme.items():
        for codes in keywords.values():
            for value, (meaning, contexts) in codes.items():
                yield scheme, value, meaning, frozenset(contexts)
                if scheme == "SCT":
                    for retired in aliases.get(value, ()):
                        yield "SRT", retired, meaning, frozenset(contexts)


def write_concepts(path: Path) -> None:
    """Write the codes, sorted, one per line: scheme, value, meaning."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("scheme", "value", "meaning"))
        writer.writerows(sorted({(scheme, value, meaning) for scheme, value, meaning, _ in concepts()}))


def _read(name: str) -> str:
    return (TABLES / name).read_text(encoding="utf-8")


def _camel(keyword: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", keyword)


def _strings(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if isinstance(content, Mapping):
        return [text for pair in content.items() for part in pair for text in _strings(part)]
    if isinstance(content, list | tuple | set | frozenset):
        return sorted(text for part in content for text in _strings(part))
    return []


if __name__ == "__main__":
    main()
