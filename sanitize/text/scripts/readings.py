"""Readings of Chinese and Japanese names: characters, kana and Latin letters of one name.

A Japanese name is compared by its romanization, reduced to one spelling: Hepburn without long vowels. A
Chinese name is compared with the readings of its characters in pinyin and Wade-Giles.
"""

# ruff: noqa: E501  (kana are wide)

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from typing import Final

_KANA: Final = (
    "ア:a イ:i ウ:u エ:e オ:o カ:ka キ:ki ク:ku ケ:ke コ:ko サ:sa シ:shi ス:su セ:se ソ:so タ:ta チ:chi ツ:tsu テ:te ト:to "
    "ナ:na ニ:ni ヌ:nu ネ:ne ノ:no ハ:ha ヒ:hi フ:fu ヘ:he ホ:ho マ:ma ミ:mi ム:mu メ:me モ:mo ヤ:ya ユ:yu ヨ:yo "
    "ラ:ra リ:ri ル:ru レ:re ロ:ro ワ:wa ヲ:o ン:n ガ:ga ギ:gi グ:gu ゲ:ge ゴ:go ザ:za ジ:ji ズ:zu ゼ:ze ゾ:zo "
    "ダ:da ヂ:ji ヅ:zu デ:de ド:do バ:ba ビ:bi ブ:bu ベ:be ボ:bo パ:pa ピ:pi プ:pu ペ:pe ポ:po ヴ:v ヰ:i ヱ:e"
)
_SYLLABLES: Final = {entry[0]: entry[2:] for entry in _KANA.split()}
_SMALL: Final = {"ャ": "ya", "ュ": "yu", "ョ": "yo", "ァ": "a", "ィ": "i", "ゥ": "u", "ェ": "e", "ォ": "o"}
_TO_KATAKANA: Final = {code: code + 0x60 for code in range(0x3041, 0x3097)}
# In order. Kunrei and older spellings to Hepburn, then long vowels and double consonants to single ones.
_TO_ONE: Final = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        ("sy(?=[auo])", "sh"),
        ("ty(?=[auo])", "ch"),
        ("(?:zy|jy|dj)(?=[auo])", "j"),
        ("(?<![sc])si", "shi"),
        ("(?<![sc])ti", "chi"),
        ("(?:zi|di)", "ji"),
        ("(?<![cst])tu", "tsu"),
        ("(?:du|dzu)", "zu"),
        ("(?<![cs])hu", "fu"),
        ("wo", "o"),
        ("l", "r"),
        ("m(?=[bp])", "n"),
        ("t(?=ch)", ""),
        ("o[uh](?![aiueoy])|oo|ou$", "o"),
        ("uu|uh(?![aiueoy])", "u"),
        ("aa|ah(?![aiueoy])", "a"),
        ("ii", "i"),
        ("ee|eh(?![aiueoy])", "e"),
        (r"([kstnhmyrwgzdbpfjc])\1", r"\1"),
    )
)
_ROMAJI: Final = re.compile(r"(?:(?:[kgnhbpmr]y|sh|ch|ts|[kstnhmyrwgzdbpfjv])?[aiueo]|n)+")
_WADE_GILES: Final = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        ("^yan$", "yen"),
        ("^you$", "yu"),
        ("^yi$", "i"),
        ("^er$", "erh"),
        ("^zi$|^ci$", "tzu"),
        ("^si$", "szu"),
        ("^ri$", "jih"),
        ("^(zh|ch|sh)i$", r"\1ih"),
        ("^[gk]e$", "ko"),
        ("^he$", "ho"),
        ("ian$", "ien"),
        ("ie$", "ieh"),
        ("[uv]e$", "ueh"),
        ("ong$", "ung"),
        ("^r", "j"),
        ("^(?:zh|[jq])", "ch"),
        ("^x", "hs"),
        ("^b", "p"),
        ("^d", "t"),
        ("^g", "k"),
        ("^[zc](?!h)", "ts"),
    )
)
_MOST_READINGS: Final = 24


def katakana(text: str) -> str:
    """Replace hiragana by katakana."""
    return text.translate(_TO_KATAKANA)


@lru_cache(maxsize=65536)
def kana_key(kana: str) -> str:
    """Return the reduced romanization of a name in kana; empty if it is none.

    Examples
    --------
    >>> kana_key("サトウ"), kana_key("じゅんいち")
    ('sato', 'junichi')
    """
    latin: list[str] = []
    for char in katakana(kana):
        if char in _SMALL and latin and latin[-1]:
            stem = latin[-1][:-1]
            glide = _SMALL[char]
            latin[-1] = stem + (glide[-1] if stem.endswith(("sh", "ch", "j")) else glide)
        elif char in _SYLLABLES:
            latin.append(_SYLLABLES[char])
        elif char == "ッ" or char == "ー":
            continue
        else:
            return ""
    return latin_key("".join(latin))


@lru_cache(maxsize=65536)
def latin_key(latin: str) -> str:
    """Return the reduced romanization of a Latin name; empty if it is no Japanese one.

    Examples
    --------
    >>> latin_key("satoh"), latin_key("zyun'iti".replace("'", "")), latin_key("smith")
    ('sato', 'junichi', '')
    """
    for pattern, to in _TO_ONE:
        latin = pattern.sub(to, latin)
    return latin if _ROMAJI.fullmatch(latin) else ""


@cache
def kanji_by_key() -> dict[str, tuple[str, ...]]:
    """Return the spellings in kanji of Japanese names, by their reduced romanization."""
    return {key: tuple(written) for key, *written in map(str.split, _lines("readings_japanese.txt"))}


@cache
def keys_by_kanji() -> dict[str, tuple[str, ...]]:
    """Return the reduced romanizations of Japanese names in kanji."""
    found: dict[str, list[str]] = {}
    for key, names in kanji_by_key().items():
        for name in names:
            found.setdefault(name, []).append(key)
    return {name: tuple(keys) for name, keys in found.items()}


@cache
def _pinyin() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for syllable, chars in map(str.split, _lines("readings_chinese.txt")):
        for char in chars:
            found.setdefault(char, []).append(syllable)
    return {char: tuple(syllables) for char, syllables in found.items()}


def _lines(name: str) -> list[str]:
    return (files("medsanitize.policies.tables") / name).read_text(encoding="utf-8").splitlines()


@lru_cache(maxsize=16384)
def chinese_readings(char: str) -> frozenset[str]:
    """Return the readings of a character in pinyin and Wade-Giles, without tones."""
    found: set[str] = set()
    for syllable in _pinyin().get(char, ()):
        found.add(syllable)
        found.add(syllable.replace("v", "u"))
        other = syllable.replace("v", "u")
        for pattern, to in _WADE_GILES:
            other = pattern.sub(to, other)
        found.add(other)
    return frozenset(found)


def chinese_spellings(name: str) -> frozenset[str]:
    """Return the Latin spellings of a name in Chinese characters; none if it has too many."""
    readings = [sorted(chinese_readings(char)) for char in name]
    count = 1
    for one in readings:
        count *= len(one)
    return frozenset(map("".join, product(*readings))) if 0 < count <= _MOST_READINGS**2 else frozenset()


def reads_as(latin: str, chars: str) -> bool:
    """Return whether a Latin name is a reading of Chinese characters, one syllable each.

    Examples
    --------
    >>> reads_as("wangjianguo", "王建国"), reads_as("wangjianguo", "王建")
    (True, False)
    """
    reached = {0}
    for char in chars:
        reached = {
            place + len(reading)
            for reading in chinese_readings(char)
            for place in reached
            if latin.startswith(reading, place)
        }
    return len(latin) in reached
