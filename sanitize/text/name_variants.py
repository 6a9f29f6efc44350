"""Expansion of known values of a patient and study into the forms that a text may contain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate
from typing import Final, Literal

from medsanitize.policies.tables.vocabulary import device_models
from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.folding import fold_letters, is_syllabic
from medsanitize.sanitize.text.lexicon import WordKind, word_kind
from medsanitize.sanitize.text.stop_words import INSTITUTION_WORDS, NOT_NAMES, PARTICLES, STREET_WORDS

Shape = Literal["word", "code", "digits", "phrase", "login", "syllables"]

# Longer values are texts: a PN has at most three groups of 64 characters (PS3.5 section 6.2).
LONGEST_VALUE: Final = 256
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_MIXED: Final = re.compile(r"[^\W_]+")
_DIGITS: Final = re.compile(r"\d+")
_EMAIL: Final = re.compile(r"([\w.+-]++)@[\w.-]+")
_EXTENSION: Final = re.compile(r"\s*(?:x|ext\.?|extension|durchwahl|poste|#)\s*(?=\d)", re.IGNORECASE)
_LEAST_NAME: Final = 3
_LEAST_PAIR: Final = 4
_LEAST_PHRASE: Final = 6
_LEAST_PART: Final = 4
_LEAST_NUMBER: Final = 3
_LEAST_PHONE: Final = 6
_LOCAL_PHONE: Final = 7
_NOT_NAMES: Final = PARTICLES | NOT_NAMES
_GENERIC: Final = INSTITUTION_WORDS | STREET_WORDS

RULES: Final = {
    "name": "known-name",
    "id": "known-id",
    "label": "known-id",
    "phone": "known-phone",
    "address": "known-address",
    "place": "known-address",
    "institution": "known-institution",
    "organization": "known-institution",
    "text": "known-text",
    "denied": "denied",
}


@dataclass(frozen=True, slots=True, repr=False)
class IdentifierForm:
    """One spelling to search for.

    Attributes
    ----------
    key : str
        The spelling as `fold_letters` returns it.
    rule : str
        Rule of the cut.
    shape : str
        Where the spelling matches; see `medsanitize.sanitize.text.match_context.placed`.
    breaks : frozenset of int
        Positions in ``key`` at which its own words end.
    """

    key: str
    rule: str
    shape: Shape
    breaks: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        return f"IdentifierForm({self.rule}, {self.shape})"


@dataclass(frozen=True, slots=True, repr=False)
class ContextWord:
    """A word that is cut only next to a cut of ``rule``."""

    word: str
    rule: str

    def __repr__(self) -> str:
        return f"ContextWord({self.rule})"


@dataclass(frozen=True, slots=True, repr=False)
class Initials:
    """First letters of a person's names, in one of the usual orders."""

    letters: str

    def __repr__(self) -> str:
        return "Initials(...)"


IdentifierForms = IdentifierForm | ContextWord | Initials


@lru_cache(maxsize=8192)
def identifier_forms(known: KnownValue) -> tuple[IdentifierForms, ...]:
    """Return the forms of a known value; none for dates and UIDs, which are compared by value."""
    return tuple(_forms(known))


def _forms(known: KnownValue) -> Iterator[IdentifierForms]:
    value = known.value.strip(" \0")
    rule = RULES.get(known.category)
    if rule is None or not value or len(value) > LONGEST_VALUE:
        return
    if known.category == "name":
        yield from _person(value)
    elif known.category in ("id", "label"):
        yield from _number(value, rule, letters=known.category == "id")
    elif known.category == "phone":
        yield from _phone(value)
    elif known.category == "denied":
        yield from _denied(value)
    else:
        generic = STREET_WORDS if rule == "known-address" else INSTITUTION_WORDS
        yield from _phrase(value, rule, generic)


def _person(value: str) -> Iterator[IdentifierForms]:
    # PN (PS3.5 section 6.2): "=" separates alphabetic, ideographic and phonetic group, "^" the components.
    for group in value.split("="):
        parts = [part.strip() for part in group.split("^")] if "^" in group else _unmarked(group)
        filled = [part for part in parts[:3] if part]
        for part in filled:
            yield from _component(part)
        # Prefix and suffix are titles and degrees: not combined with the names.
        for part in parts[3:]:
            yield from _words_of(part)
        for order in _orders(filled):
            yield from _form(order, "known-name", "word", _LEAST_PAIR)
        yield from _logins(filled)
        yield from _initials(filled)


def _unmarked(name: str) -> list[str]:
    if "," in name:
        return [part.strip() for part in name.split(",")]
    words = name.split()
    return [words[-1], " ".join(words[:-1])] if len(words) > 1 else words


def _component(part: str) -> Iterator[IdentifierForms]:
    yield from _words_of(part)
    words = _LETTERS.findall(part)
    if len(words) > 1:
        yield from _form(words, "known-name", "word", _LEAST_PAIR)


def _words_of(part: str) -> Iterator[IdentifierForms]:
    for word in _LETTERS.findall(part):
        # Short names ("Li", "Bo") are syllables of many words; in other scripts they are whole names.
        if fold_letters(word) in _NOT_NAMES or (word.isascii() and len(word) < _LEAST_NAME):
            yield ContextWord(fold_letters(word), "known-name")
        else:
            yield from _form([word], "known-name", "word", _LEAST_NAME)


def _orders(parts: list[str]) -> set[tuple[str, ...]]:
    """Return family and given names in the usual orders."""
    if len(parts) < 2 or all(fold_letters(part) in NOT_NAMES for part in parts):
        return set()
    family, given, *middle = parts
    return {(family, given), (given, family), (family, given, *middle), (given, *middle, family)}


def _logins(parts: list[str]) -> Iterator[IdentifierForm]:
    """Yield login names: the family name and the first letter of the given name, as in ``jsmith``."""
    family, first = parts[0] if parts else "", parts[1][:1] if len(parts) > 1 else ""
    if len(fold_letters(family)) >= _LEAST_PAIR and first.isalpha() and first.isascii():
        for order in ((first, family), (family, first)):
            yield from _form(order, "known-name", "login", _LEAST_PAIR)


def _initials(parts: list[str]) -> Iterator[IdentifierForms]:
    letters = [fold_letters(part)[:1] for part in parts]
    for letter in letters:
        if letter.isalpha() and letter.isascii():
            yield ContextWord(letter, "known-name")
    if len(letters) > 1:
        family, given, *middle = letters
        for order in ((given, family), (family, given), (given, *middle, family)):
            yield Initials("".join(order))


def _number(value: str, rule: str, *, letters: bool) -> Iterator[IdentifierForms]:
    whole = fold_letters(value)
    if not whole.strip("0") or (not letters and whole in _products()):
        return
    if any(map(str.isdigit, whole)):
        if len(whole) >= _LEAST_PART or (len(whole) >= _LEAST_NUMBER and whole not in vocabulary()):
            yield IdentifierForm(whole, rule, "digits" if whole.isdigit() else "code")
        for part in _MIXED.findall(value):
            if len(part) >= _LEAST_PART and any(map(str.isdigit, part)):
                key = fold_letters(part)
                yield IdentifierForm(key, rule, "digits" if key.isdigit() else "code")
        yield from _digit_runs(value, rule)
    elif len(whole) > _LEAST_PART and whole not in vocabulary() and whole not in INSTITUTION_WORDS:
        yield IdentifierForm(whole, rule, "code")
    if letters:
        for word in _LETTERS.findall(value):
            key = fold_letters(word)
            if len(key) >= _LEAST_PART and key not in vocabulary() and key not in NOT_NAMES:
                yield IdentifierForm(key, rule, "code")


@cache
def _products() -> frozenset[str]:
    """Return names of manufacturers and products, and their words, folded."""
    # Stations are often named after the product, which texts may contain.
    named = {fold_letters(model) for model in device_models()}
    return frozenset(named | {fold_letters(word) for model in device_models() for word in model.split()})


def _digit_runs(value: str, rule: str) -> Iterator[IdentifierForm]:
    """Yield the runs of digits in an identifier and all its digits in one, with and without leading zeros."""
    for digits in {"".join(_DIGITS.findall(value)), *_DIGITS.findall(value)}:
        for number in {digits, digits.lstrip("0")}:
            if len(number) >= _LEAST_PART and number.isascii():
                yield IdentifierForm(number, rule, "digits")


def _phone(value: str) -> Iterator[IdentifierForms]:
    for found in _EMAIL.finditer(value):
        yield IdentifierForm(fold_letters(found[0]), "known-phone", "phrase")
        if len(fold_letters(found[1])) > _LEAST_PART:
            yield IdentifierForm(fold_letters(found[1]), "known-phone", "phrase")
        value = value.replace(found[0], " ")
    # Texts may give the number without its extension.
    main = _EXTENSION.split(value)[0]
    if main != value:
        yield IdentifierForm(fold_letters(value), "known-phone", "phrase")
    for number in _numbers(main):
        yield IdentifierForm(number, "known-phone", "digits")


def _numbers(phone: str) -> set[str]:
    """Return the digits of a phone number: all, without country code or leading zeros, and the local part."""
    digits = "".join(_DIGITS.findall(phone))
    if len(digits) < _LEAST_PHONE or not digits.isascii():
        return set()
    bare = digits.lstrip("0")
    numbers = {digits, bare}
    # Country codes have one to three digits; which is known only from a table of all codes.
    if phone.lstrip(" (").startswith(("+", "00")):
        numbers |= {bare[code:].lstrip("0") for code in (1, 2, 3)}
    if len(digits) >= _LOCAL_PHONE + 3:
        numbers.add(digits[-_LOCAL_PHONE:])
    return {number for number in numbers if len(number) >= min(_LOCAL_PHONE, len(digits))}


def _denied(value: str) -> Iterator[IdentifierForms]:
    """Yield an entry of the site's never-words, and its words that are in no vocabulary."""
    words = _MIXED.findall(value)
    if len(words) == 1:
        shape: Shape = "word" if value.isalpha() else "digits" if words[0].isdigit() else "code"
        yield from _form(words, "denied", shape, 1)
        return
    yield from _form(words, "denied", "phrase", 1)
    # "Anna Klein" may also be written "Klein, Anna".
    if len(words) == 2 and all(word.isalpha() for word in words):
        yield from _form(words[::-1], "denied", "phrase", 1)
    for word in words:
        key = fold_letters(word)
        strange = word_kind(word) in (WordKind.UNKNOWN, WordKind.EPONYM)
        if strange and key.isalpha() and len(key) >= _LEAST_PART and not _is_ordinary(key, _GENERIC):
            yield from _form([word], "denied", "word", _LEAST_PART)


def _phrase(value: str, rule: str, generic: frozenset[str]) -> Iterator[IdentifierForms]:
    """Yield a phrase, its parts between separators, and its words that are not ordinary."""
    for part in {value, *re.split(r"[\\^,;\r\n]+", value)}:
        words = _MIXED.findall(part)
        plain = all(fold_letters(word) in vocabulary() or len(word) < _LEAST_NAME for word in words)
        if not plain and len(part.strip()) >= _LEAST_PHRASE:
            yield from _form(words, rule, "phrase", _LEAST_NAME)
    for word in _MIXED.findall(value):
        yield from _phrase_word(word, rule, generic)


def _phrase_word(word: str, rule: str, generic: frozenset[str]) -> Iterator[IdentifierForms]:
    key = fold_letters(word)
    if key.isdigit() and len(key) > _LEAST_PART:
        yield IdentifierForm(key, rule, "digits")
    elif key.isalpha() and len(key) >= _LEAST_PART and not _is_ordinary(key, generic):
        yield from _form([word], rule, "word", _LEAST_PART)
    else:
        yield ContextWord(key, rule)


def _is_ordinary(key: str, generic: frozenset[str]) -> bool:
    return key in generic or key in vocabulary() or key in NOT_NAMES or key in PARTICLES


def _form(
    words: list[str] | tuple[str, ...], rule: str, shape: Shape, least: int
) -> Iterator[IdentifierForm]:
    plain = "".join(words).isascii()
    for wide in (False,) if plain else (False, True):
        keys = [fold_letters(word, wide=wide) for word in words]
        key = "".join(keys)
        if not plain and any(map(is_syllabic, key)):
            # A single character also occurs inside other words: unlike longer names, it needs a boundary.
            if len(key) > 1:
                yield IdentifierForm(key, rule, "syllables")
            elif rule == "known-name":
                yield IdentifierForm(key, rule, "word", frozenset([1]))
        elif len(key) >= least:
            yield IdentifierForm(key, rule, shape, frozenset(accumulate(map(len, keys))))


def misspellable(form: IdentifierForm) -> bool:
    """Return whether typos of a form are searched: only for single words of letters."""
    return form.shape == "word" and form.key.isalpha() and len(form.key) > 1
