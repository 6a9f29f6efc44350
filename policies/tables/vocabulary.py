"""Read the controlled vocabulary: words, device names, defined terms. VOCABULARY.md states the rules."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_WORD = re.compile(r"[^\W_]+")


def fold(text: str) -> str:
    """Normalize text for comparison: NFC, lower case, Turkish capital İ to i.

    Examples
    --------
    >>> fold("Fuß")
    'fuß'
    """
    # Lower case of İ is i with a combining dot, which would not match the plain word.
    return unicodedata.normalize("NFC", text).replace("İ", "i").lower()


def split_words(text: str) -> list[str]:
    """Split a text into words: runs of letters and digits of any script.

    Examples
    --------
    >>> split_words("T1w_MPR*sag+C")
    ['T1w', 'MPR', 'sag', 'C']
    """
    return _WORD.findall(unicodedata.normalize("NFC", text))


@cache
def words() -> frozenset[str]:
    """Return the words that a kept text may contain, folded.

    A text is safe if each of its ``split_words`` is in the set or is a number the caller accepts. Runs of
    more than two digits occur only in defined terms that were listed manually (``b1000``, ``100kv``).
    """
    return frozenset(_read("vocabulary.txt").split())


@cache
def plain_words() -> frozenset[str]:
    """Return folded ordinary and clinical words of nine languages, beyond ``words``, that are not names."""
    return frozenset(_read("vocabulary_plain.txt").split())


@cache
def open_words() -> WordBlock:
    """Return words of open word lists of twelve languages that are in no list of names; folded."""
    return WordBlock((files(__package__) / "vocabulary_open.txt").read_bytes())


@cache
def corpus_words() -> WordBlock:
    """Return words that web texts of fifteen languages have without a capital, and no list as a name."""
    return WordBlock((files(__package__) / "vocabulary_corpus.txt").read_bytes())


@cache
def clinical_words() -> WordBlock:
    """Return words of open clinical terminologies that are in no list of names; folded."""
    return WordBlock((files(__package__) / "vocabulary_clinical.txt").read_bytes())


@cache
def clinical_roots() -> WordBlock:
    """Return keys of words of clinical terminologies, as ``cognates.cognate_key``, that no name has."""
    return WordBlock((files(__package__) / "vocabulary_roots.txt").read_bytes())


@cache
def phrases() -> WordBlock:
    """Return parts of clinical terms that contain a word which may be a name, as ``terms.phrase_key``."""
    return WordBlock((files(__package__) / "vocabulary_phrases.txt").read_bytes())


@cache
def eponyms() -> frozenset[str]:
    """Return names that occur in clinical terms next to a word such as ``disease``; folded."""
    return frozenset(_read("vocabulary_eponyms.txt").split())


@cache
def small_words() -> frozenset[str]:
    """Return words of clinical terms that are also names, and kept where they have no capital."""
    return frozenset(_read("vocabulary_small.txt").split())


@cache
def common_words() -> frozenset[str]:
    """Return frequent words of open word lists that are also names, and kept where they have no capital."""
    return frozenset((_read("vocabulary_common.txt") + _read("vocabulary_corpus_common.txt")).split())


@cache
def lone_names() -> frozenset[str]:
    """Return ordinary words that are also names, and cut where one is the whole text."""
    return frozenset(_read("vocabulary_lone.txt").split())


@cache
def feast_days() -> frozenset[str]:
    """Return names of feasts and public holidays in any language, folded, their words with spaces between."""
    return frozenset(_read("feast_days.txt").splitlines())


@dataclass(frozen=True, slots=True)
class WordShape:
    """A linear model over letter n-grams.

    Attributes
    ----------
    thresholds : mapping of str to int
        Score above which a word is accepted, by its place.
    weights : memoryview
        Signed bytes.
    """

    thresholds: Mapping[str, int]
    weights: memoryview


@cache
def word_shape() -> WordShape:
    """Return the model that tells clinical words from names."""
    line, _, weights = (files(__package__) / "vocabulary_shape.bin").read_bytes().partition(b"\n")
    thresholds = dict(item.split("=") for item in line.decode().split())
    found = MappingProxyType({place: int(threshold) for place, threshold in thresholds.items()})
    return WordShape(found, memoryview(weights).cast("b"))


@dataclass(frozen=True, slots=True)
class WordBlock:
    """Sorted words, one per line, with binary search; a set would take ten times the memory and load time."""

    lines: bytes

    def __contains__(self, word: str) -> bool:
        sought, low, high = word.encode(), 0, len(self.lines)
        # Bytes are halved, not lines: there is no index of line starts, which would cost memory.
        while low < high:
            middle = (low + high) // 2
            start, end = self.lines.rfind(b"\n", low, middle) + 1 or low, self.lines.find(b"\n", middle)
            line = self.lines[start:end]
            if line == sought:
                return True
            if line < sought:
                low = end + 1
            else:
                high = start
        return False


@cache
def doubtful_words() -> frozenset[str]:
    """Return words of these lists that are also names (young, koch) and need context to be kept."""
    return frozenset(_read("vocabulary_doubtful.txt").split())


@cache
def named_words() -> frozenset[str]:
    """Return words that are kept although they are in a list of names: anatomy, technique, ordinary words."""
    return _plain_lines("vocabulary_keep.txt") | _plain_lines("plain_keep.txt")


@cache
def cues() -> Mapping[str, frozenset[str]]:
    """Return sections of ``vocabulary_cues.txt``: titles, relations, institutions, eponyms, their heads."""
    return _sections("vocabulary_cues.txt")


@cache
def context() -> Mapping[str, frozenset[str]]:
    """Return sections of ``vocabulary_context.txt``: words next to employers, wards, rooms, weekdays."""
    return _sections("vocabulary_context.txt")


def _sections(name: str) -> Mapping[str, frozenset[str]]:
    sections: dict[str, set[str]] = {}
    section: set[str] = set()
    for line in _read(name).splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            section.update(fold(line).split())
    return MappingProxyType({name: frozenset(words) for name, words in sections.items()})


@cache
def morphemes() -> tuple[frozenset[str], frozenset[str]]:
    """Return stems and endings of clinical words, without accents."""
    stems, _, endings = _read("vocabulary_morphemes.txt").partition("[endings]")
    return _words_of(stems), _words_of(endings)


@cache
def suffixes() -> tuple[str, ...]:
    """Return endings that derive ordinary words in twelve languages and that no list of names contains."""
    return tuple(sorted(_plain_lines("vocabulary_suffixes.txt")))


@cache
def compounding() -> frozenset[str]:
    """Return words from which German, Dutch, Swedish and Danish form compounds."""
    return _plain_lines("vocabulary_compounding.txt") | _plain_lines("vocabulary_parts.txt")


@cache
def ordinary_parts() -> frozenset[str]:
    """Return words of open lists that form compounds with clinical words; no name begins or ends with one."""
    return frozenset(_read("vocabulary_ordinary_parts.txt").split())


def _plain_lines(name: str) -> frozenset[str]:
    return _words_of(_read(name))


def _words_of(text: str) -> frozenset[str]:
    return frozenset(
        word for line in text.splitlines() if line[:1] not in "#[" for word in fold(line).split()
    )


@cache
def device_models() -> frozenset[str]:
    """Return manufacturers and products as whole phrases, folded, with single spaces.

    Compare whole values only, and only of attributes that contain a manufacturer, product or software: some
    products are called by a first name.
    """
    return _phrases_of(_read("device_models.txt"))


@cache
def manufacturers() -> frozenset[str]:
    """Return the names of manufacturers among `device_models`."""
    _, _, after = _read("device_models.txt").partition("\n# manufacturers\n")
    return _phrases_of(after.partition("\n#")[0])


def _phrases_of(text: str) -> frozenset[str]:
    lines = text.splitlines()
    return frozenset(fold(" ".join(line.split())) for line in lines if line and not line.startswith("#"))


def plausible_version(text: str) -> bool:
    """Whether a text has the shape of a software version of a known manufacturer, and may be kept.

    Only for SoftwareVersions and similar attributes: the shapes allow three digits in a row and more.
    """
    return bool(_versions().fullmatch(text.strip()))


@cache
def _versions() -> re.Pattern[str]:
    lines = _read("vocabulary_versions.txt").splitlines()
    shapes = [line for line in lines if line and not line.startswith("#")]
    return re.compile("|".join(f"(?:{shape})" for shape in shapes), re.IGNORECASE | re.ASCII)


@cache
def defined_terms() -> Mapping[int, frozenset[str]]:
    """Return tag -> defined terms and enumerated values of the attribute, as in PS3.3 and PS3.16.

    Compare whole values; multi-valued attributes such as ImageType value by value.
    """
    entries = json.loads(_read("defined_terms.json")).items()
    return MappingProxyType({int(name.split()[0], 16): frozenset(terms) for name, terms in entries})


def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
