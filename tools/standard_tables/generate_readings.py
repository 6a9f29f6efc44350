"""Generate the readings of Chinese and Japanese names.

``python -m medsanitize.tools.standard_tables.generate_readings --sources FOLDER`` writes
``readings_chinese.txt`` (a syllable of pinyin and its characters) and ``readings_japanese.txt`` (a romanized
name, as `readings.latin_key` returns it, and its spellings in kanji) to ``policies/tables``. Run by a
maintainer, never at run time. Requires pypinyin, and unidic-lite in the folder; see ``VOCABULARY.md``.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from medsanitize.sanitize.text.scripts.readings import kana_key
from medsanitize.tools.standard_tables import script_sources as sources

TABLES = Path(__file__).parents[2] / "policies" / "tables"
CHARACTER_SETS = ("gb2312", "big5")
"""A character has a reading if one of these sets contains it: these have the characters in use."""
_HAN = re.compile("[\u3400-\u9fff]")
_KANJI = re.compile("[\u3005\u3006\u3040-\u30ff\u3400-\u9fff]{1,4}")
_SHORTEST_KEY = 2


def main(argv: list[str] | None = None) -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description="Make the readings of Chinese and Japanese names.")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the unpacked packages")
    options = parser.parse_args(argv)
    _write("readings_chinese.txt", _chinese())
    _write("readings_japanese.txt", _japanese(options.sources))


def _write(name: str, table: dict[str, set[str]]) -> None:
    lines = (f"{key} {' '.join(sorted(table[key]))}\n" for key in sorted(table))
    (TABLES / name).write_text("".join(lines), encoding="utf-8")


def _chinese() -> dict[str, set[str]]:
    pinyin: dict[int, str] = import_module("pypinyin.constants").PINYIN_DICT
    joined: dict[str, set[str]] = defaultdict(set)
    for code, readings in pinyin.items():
        if _HAN.fullmatch(chr(code)) and _is_used(chr(code)):
            for reading in readings.split(","):
                joined[_without_tone(reading)].add(chr(code))
    return {key: {"".join(sorted(chars))} for key, chars in joined.items() if key}


def _is_used(char: str) -> bool:
    for name in CHARACTER_SETS:
        try:
            char.encode(name)
        except UnicodeEncodeError:
            continue
        return True
    return False


def _without_tone(reading: str) -> str:
    plain = unicodedata.normalize("NFD", reading).replace("u\u0308", "v")
    return "".join(char for char in plain if char.isascii() and char.isalpha())


def _japanese(folder: Path) -> dict[str, set[str]]:
    return _by_key(sources.japanese_names(folder))


def _by_key(names: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    table: dict[str, set[str]] = defaultdict(set)
    for written, reading in names:
        key = kana_key(reading)
        if key and len(key) >= _SHORTEST_KEY and _KANJI.fullmatch(written) and _HAN.search(written):
            table[key].add(written)
    return table


if __name__ == "__main__":
    main()
