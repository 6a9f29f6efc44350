"""Never-words of a site: staff, employers, wards. They are cut from every text, whoever the patient is.

An entry is found regardless of case, accents, separators and inflection, and with one typo in words of six or
more letters. An entry with ``^``, and one of a family name, comma and given name, is a person: each part is
cut by itself, as for known names. Of other entries with several words, the words that are in no vocabulary
are cut by themselves, the others only as part of the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import clinical_words, cues, fold
from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.edit_distance import TypoIndex, build_typo_index
from medsanitize.sanitize.text.folding import fold_letters, is_syllabic
from medsanitize.sanitize.text.known_identifiers import (
    KnownTerms,
    TextCut,
    compile_terms,
    find_known_identifiers,
)
from medsanitize.sanitize.text.lexicon import WordKind, listed_kind, word_kind
from medsanitize.sanitize.text.ocr_matching import build_skeletons, find_ocr_variants, index_skeletons
from medsanitize.sanitize.text.stop_words import INSTITUTION_WORDS

RULE: Final = "denied"
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’`´](?=[^\W\d_]))?[^\W\d_]*")
_PERSON: Final = re.compile(r"[^\W\d_][^\d,^=]*,\s*[^\W\d_][^\d,^=]*")
_PHONE: Final = re.compile(r"[\d\s()+/.\-]+")
_LEAST_PHONE_DIGITS: Final = 6
_LEAST_TYPO: Final = 6
# As in the cleaner: descriptions recur in all objects of a study.
_REMEMBERED: Final = 65536
_LONGEST_REMEMBERED: Final = 1024
_LEAST_INFLECTED: Final = 4
# Endings of cases and derived adjectives in German, Dutch, Nordic, Slavic and Romance languages, folded.
_ENDINGS: Final = tuple(
    "s es n en ns er ers ern e a u y i o em om owi ova ove ovi iem ami ow ego emu ska ski sk "
    "sche scher schen sches ense iana iano".split()
)
_ORDINARY: Final = (WordKind.SAFE, WordKind.NAMED, WordKind.DOUBTFUL, WordKind.INSTITUTION)
# Entries that the audit searches in all bytes of a release.
_LEAST_SEARCHED: Final = 9


class DenyList:
    """Never-words, compiled for the search in texts; the repr shows none.

    Parameters
    ----------
    entries : iterable of str
        As `medsanitize.policies.site_lists` reads them.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        values = [_value_of(entry) for entry in entries]
        # Typos are found below: with thousands of entries, more ordinary words resemble one of them.
        self._terms: KnownTerms = replace(compile_terms(values), misspelt=build_typo_index(()))
        single = {form.key for form in self._terms.forms if form.shape == "word" and len(form.breaks) == 1}
        self._words = frozenset(key for key in single if len(key) >= _LEAST_INFLECTED and key.isalpha())
        self._typos: TypoIndex = build_typo_index(
            (key, RULE) for key in sorted(self._words) if len(key) >= _LEAST_TYPO
        )
        self._phrases = index_skeletons(
            build_skeletons(
                form
                for form in self._terms.forms
                if form.shape == "phrase" and form.key.isalpha() and len(form.breaks) > 1
            )
        )
        # Of shorter words, look-alikes are too many: the cleaner cuts them as unknown words.
        self._blurred = index_skeletons(
            one for one in self._terms.blurred().known if len(one.key) >= _LEAST_TYPO
        )
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._search)

    def __repr__(self) -> str:
        return "DenyList(...)"

    def find(self, text: str, *, noisy: bool = False) -> tuple[TextCut, ...]:
        """Find the never-words in a text.

        Parameters
        ----------
        text : str
        noisy : bool
            The text was read by OCR: look-alike characters, lost spaces and more typos are accepted.

        Returns
        -------
        tuple of TextCut
            In order; cuts may overlap.
        """
        search = self._remembered if len(text) <= _LONGEST_REMEMBERED else self._search
        return search(text, noisy)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the half-open spans of never-words in a text, in order and disjoint."""
        merged: list[tuple[int, int]] = []
        for cut in self.find(text):
            if merged and cut.start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(cut.end, merged[-1][1])
            else:
                merged.append((cut.start, cut.end))
        return merged

    def _search(self, text: str, noisy: bool) -> tuple[TextCut, ...]:
        cuts = [*find_known_identifiers(text, self._terms), *self._varied(text)]
        cuts += find_ocr_variants(text, self._blurred if noisy else self._phrases, frozenset())
        return tuple(sorted(cuts, key=lambda cut: (cut.start, cut.end)))

    def _varied(self, text: str) -> Iterator[TextCut]:
        """Yield inflected and misspelt words."""
        if not self._words:
            return
        for found in _WORD.finditer(text):
            if not is_syllabic(found[0][0]) and self._is_variant(found[0]):
                yield TextCut(*found.span(), RULE)

    def _is_variant(self, word: str) -> bool:
        for wide in (False,) if word.isascii() else (False, True):
            key = fold_letters(word, wide=wide)
            if _is_ordinary(word, key):
                continue
            stems = (key.removesuffix(ending) for ending in _ENDINGS if key.endswith(ending))
            if any(stem in self._words for stem in stems) or self._is_typo(key):
                return True
        return False

    def _is_typo(self, key: str) -> bool:
        return len(key) >= _LEAST_TYPO - 1 and bool(self._typos.find(key))


def deny_list_of(rules: TextSection) -> DenyList | None:
    """Return the compiled never-words of a policy, shared within a process; None without any."""
    if isinstance(rules.deny_list, Path):
        raise TypeError("the deny list was not read")  # fail closed: no object is sanitized without it
    return _compiled(rules.deny_list) if rules.deny_list else None


@lru_cache(maxsize=4)
def _compiled(entries: tuple[str, ...]) -> DenyList:
    return DenyList(entries)


def distinctive_values(entries: Iterable[str]) -> Iterator[KnownValue]:
    """Yield the entries that the audit may search in all bytes of a release.

    A hit there prevents publication, so that only long entries count of which at least one word is in no
    vocabulary: no ordinary text contains them by chance.
    """
    for entry in entries:
        value = _value_of(entry)
        unknown = any(word_kind(word) is WordKind.UNKNOWN for word in re.findall(r"[^\W_]+", entry))
        if value.category == "phone" or (unknown and len(fold_letters(entry)) >= _LEAST_SEARCHED):
            yield value if value.category != RULE else KnownValue("institution", entry)


def _value_of(entry: str) -> KnownValue:
    digits = sum(char.isdigit() for char in entry)
    if "@" in entry or (_PHONE.fullmatch(entry) and digits >= _LEAST_PHONE_DIGITS):
        return KnownValue("phone", entry)
    first, _, rest = entry.partition(" ")
    titled = first.casefold().rstrip(".") in cues()["title"] and first.endswith(".") and len(rest) > 1
    if titled or "^" in entry or (_PERSON.fullmatch(entry) and not _names_place(entry)):
        return KnownValue("name", rest if titled else entry)
    return KnownValue(RULE, entry)


def _names_place(entry: str) -> bool:
    """Whether a word is ordinary or a kind of institution: ``Radiologie, Mainz`` is no person."""
    keys = [fold_letters(word) for word in re.findall(r"[^\W\d_]+", entry)]
    return any(key in vocabulary() or key in INSTITUTION_WORDS for key in keys)


def _is_ordinary(word: str, key: str) -> bool:
    # Not by its shape: letters that resemble no name may still be a misspelt one.
    folded = fold(word)
    if key in vocabulary() or folded in vocabulary() or folded in clinical_words():
        return True
    return listed_kind(word) in _ORDINARY
