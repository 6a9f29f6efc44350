"""Free text reduced to a controlled vocabulary, less what this patient and study are called.

Nothing passes unread: a word stays only if it is in the vocabulary, is not one of the
known tokens of the patient or study, and brings no run of more than two digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from medsanitize.policies.tables import vocabulary
from medsanitize.policies.tables.vocabulary import device_models, words
from medsanitize.sanitize.context import Known

_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"\d+|[^\W\d_]+")
_NUMBER_RUN = re.compile(r"\d+(?:[^\w]+\d+){2,}(?!\w)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_DIGITS = re.compile(r"\d{3,}")
_MAX_DIGITS = 2
_GAP = " zzzzzzzz "
"""Stands for a cut run of numbers: a word that no vocabulary has."""
_NAMED = frozenset(["name", "id", "address", "phone", "institution"])


def fold(text: str) -> str:
    """Casefold and strip accents, so that spellings of one word compare equal."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Tokens of a patient's and study's own names, ids and addresses: folded words, digit runs."""

    words: frozenset[str]
    numbers: frozenset[str]


NOTHING_FORBIDDEN = Forbidden(frozenset(), frozenset())


def forbidden(known: Iterable[Known]) -> Forbidden:
    """Collect the tokens that no text of these objects may keep."""
    tokens: set[str] = set()
    numbers: set[str] = set()
    for item in known:
        if item.category not in _NAMED:
            continue
        folded = fold(item.value)
        tokens.update(_LETTERS.findall(folded))
        tokens.update(word for word in _WORD.findall(folded) if len(word) > _MAX_DIGITS)
        numbers.update(_DIGITS.findall(folded))
        joined = re.sub(r"\D", "", folded)
        if len(joined) > _MAX_DIGITS:
            numbers.add(joined)
    return Forbidden(frozenset(tokens), frozenset(numbers))


@lru_cache(maxsize=65536)
def _in_vocabulary(word: str) -> bool:
    folded = vocabulary.fold(word)
    if folded in words():
        return True
    if len(word) == 1:
        return word.isascii()
    if word.isdigit():
        return len(word) <= _MAX_DIGITS
    if word.isalpha():
        return False
    return all(
        len(part) <= _MAX_DIGITS if part.isdigit() else part in words() or len(part) <= _MAX_DIGITS
        for part in _PART.findall(folded)
    )


def _word_stays(word: str, ban: Forbidden) -> bool:
    if not _in_vocabulary(word):
        return False
    folded = fold(word)
    return folded not in ban.words and not any(part in ban.words for part in _PART.findall(folded))


@lru_cache(maxsize=65536)
def _all_known(text: str) -> bool:
    if _CONTROL.search(text) or _NUMBER_RUN.search(text):
        return False
    return vocabulary.fold(" ".join(text.split())) in device_models() or all(_in_vocabulary(word) for word in _WORD.findall(text))


def is_named(text: str, ban: Forbidden) -> bool:
    """Whether a text carries one of the forbidden words or digit runs."""
    folded = fold(text)
    if not ban.words.isdisjoint(_PART.findall(folded)) or not ban.words.isdisjoint(_WORD.findall(folded)):
        return True
    return not ban.numbers.isdisjoint(_DIGITS.findall(folded))


def reduce(text: str, ban: Forbidden) -> str:
    """Keep the vocabulary words of ``text``; the text itself when every word of it stays.

    Words are looked up folded. Runs of three or more numbers (dates, phones) go, whatever
    stands between them, and so does any word that ``ban`` names. Once something was cut, a
    number stays only between two words that stay: beside a cut word it may be part of a date.
    """
    if _all_known(text) and not is_named(text, ban):
        return text
    cut = _WORD.findall(_NUMBER_RUN.sub(_GAP, _CONTROL.sub(" ", text)))
    stays = [_word_stays(word, ban) for word in cut]
    beside = [False, *stays[:-1]], [*stays[1:], False]
    return " ".join(
        word
        for word, kept, before, after in zip(cut, stays, *beside, strict=True)
        if kept and (not word.isdigit() or before and after)
    )
