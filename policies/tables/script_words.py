"""Read the vocabularies of scripts other than Latin, one per script, each on first use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from medsanitize.policies.tables.vocabulary import WordBlock, fold

_GREEK: Final = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_POINTS: Final = re.compile("[\"'׳״\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]")
# Spellings that writers use for one another: alef with and without hamza, final sigma, keheh, yo.
# Not alef maqsura: "on" would equal the name Ali.
_VARIANTS: Final = str.maketrans(
    {
        "أ": "ا",
        "إ": "ا",
        "آ": "ا",
        "ٱ": "ا",
        "ё": "е",
        "ة": "ه",
        "ؤ": "و",
        "ئ": "ي",
        "ک": "ك",
        "ی": "ي",
        "ς": "σ",
    }
)

OPEN_SCRIPTS: Final = ("arabic", "devanagari", "greek", "hebrew")
"""Scripts that have a table of words from open lists beside the listed words."""


@cache
def script_words(script: str) -> WordBlock:
    """Return ordinary and clinical words of a script, as `fold_script` returns them.

    Parameters
    ----------
    script : str
        Name of a table ``vocabulary_SCRIPT.txt``: cyrillic, greek, arabic, hebrew, devanagari, thai, cjk or
        hangul.
    """
    return WordBlock((files(__package__) / f"vocabulary_{script}.txt").read_bytes())


@cache
def script_open_words(script: str) -> WordBlock:
    """Return words in use from open lists, without names; empty for other scripts than these.

    Parameters
    ----------
    script : str
        Name of a table ``vocabulary_SCRIPT_open.txt``: greek, arabic, hebrew or devanagari.
    """
    if script not in OPEN_SCRIPTS:
        return WordBlock(b"")
    return WordBlock((files(__package__) / f"vocabulary_{script}_open.txt").read_bytes())


@cache
def script_names() -> frozenset[str]:
    """Return words of these vocabularies that are also names, and are cut where a name is expected."""
    return frozenset((files(__package__) / "vocabulary_script_names.txt").read_text(encoding="utf-8").split())


@cache
def script_cues() -> Mapping[str, frozenset[str]]:
    """Return sections of ``script_cues.txt``: titles, forms of address, labels, institutions."""
    return _sections("script_cues.txt")


@cache
def script_morphemes() -> Mapping[str, frozenset[str]]:
    """Return sections of ``script_morphemes.txt``: prefixes, stems and endings of Greek and Russian words."""
    return _sections("script_morphemes.txt")


def _sections(name: str) -> Mapping[str, frozenset[str]]:
    sections: dict[str, set[str]] = {}
    section: set[str] = set()
    for line in (files(__package__) / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            section.update(map(fold_script, line.split()))
    return MappingProxyType({name: frozenset(words) for name, words in sections.items()})


def fold_script(word: str) -> str:
    """Fold a word for these vocabularies: lower case, no accents of Greek, no points of Arabic and Hebrew.

    Examples
    --------
    >>> fold_script("Πνεύμονας"), fold_script("Отёк")
    ('πνευμονασ', 'отек')
    """
    folded = fold(word)
    if folded.isascii():
        return folded
    if _GREEK.search(folded):
        folded = unicodedata.normalize("NFD", folded)
    return _POINTS.sub("", folded).translate(_VARIANTS)
