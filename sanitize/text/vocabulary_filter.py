"""Reduction of free text to a controlled vocabulary, without identifiers of the patient and study.

An allow list: a word is kept only if it is in the vocabulary, is no known token of the patient or study, and
contains no run of more than two digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from medsanitize.policies.tables import vocabulary
from medsanitize.policies.tables.vocabulary import device_models, plausible_version, words
from medsanitize.sanitize.context import KnownValue

_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"\d+|[^\W\d_]+")
_NUMBER_RUN = re.compile(
    r"(?<!\d)\d++(?:[\W_]++\d++){2,}(?!(?:mm|cm|d|t|s|ms|ml|mg|kv|ma|x)(?![^\W_]))", re.IGNORECASE
)
_SPELLED = re.compile(r"(?<![^\W_])[^\W\d_](?:[\W_]++[^\W\d_](?![^\W_])){3,}")
_OLD_AGE = re.compile(
    r"(?<!\d)9\d[\W_]*+(?:y|[afmw]\b|j(?:ahr|\b)|an(?:s|n)|años|rok|lat\b|let\b|år|歳|岁|세)"
    r"|\b(?:age[d\W_]{0,4}|[fmw][ -]?)9\d(?!\d)",
    re.IGNORECASE,
)
_STRANGE = re.compile(r"[^\w\x00-\x7f]")
_LEVELS = re.compile(r"[ctls]\d{1,2}(?:[ctls]?\d{1,2})?")
_BANDS = re.compile(r"(?:\d{1,2}|[xy])[pq]\d{1,2}(?:[pq]\d{1,2})?")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_DIGITS = re.compile(r"\d{3,}")
_MAX_DIGITS = 2
_MAX_MIXED = 3
_MAX_PARTS = 4
_LONGEST_WORD = 64
# Shorter letters in an identifier are usually its kind (CT, MR, ACC), which texts may contain.
_SHORTEST_IN_ID = 4
_LONGEST_REMEMBERED = 256
_RUNS = (_NUMBER_RUN, _SPELLED, _OLD_AGE)
# Replaces a cut run: a word in no vocabulary, so that it is cut and its neighbors count as next to a cut.
_GAP = " zzzzzzzz "
FindSpans = Callable[[str], Sequence[tuple[int, int]]]
"""Returns half-open spans of a text, in order."""
_NAMED = frozenset(["name", "id", "address", "phone", "institution"])


def fold_text(text: str) -> str:
    """Casefold a text and remove accents, so that spellings of one word compare equal."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _find_nothing(_text: str) -> Sequence[tuple[int, int]]:
    return ()


@dataclass(frozen=True, slots=True)
class ForbiddenWords:
    """Tokens of the names, ids and addresses of a patient and study, and the site's never-words.

    Attributes
    ----------
    words : frozenset of str
        Words as `fold_text` returns them.
    numbers : frozenset of str
        Runs of three or more digits.
    find_denied : callable
        Returns the spans of never-words in a text.
    """

    words: frozenset[str]
    numbers: frozenset[str]
    find_denied: FindSpans = field(default=_find_nothing, repr=False)


NOTHING_FORBIDDEN = ForbiddenWords(frozenset(), frozenset())


def forbidden_words(known: Iterable[KnownValue]) -> ForbiddenWords:
    """Collect the tokens that must not be kept in any text of these objects.

    Parameters
    ----------
    known : iterable of KnownValue
        Known values of the patient and study; only names, ids, addresses, phone numbers and institutions
        count.
    """
    tokens: set[str] = set()
    numbers: set[str] = set()
    for item in known:
        if item.category not in _NAMED:
            continue
        folded = fold_text(item.value)
        shortest = _SHORTEST_IN_ID if item.category == "id" else 0
        tokens.update(letters for letters in _LETTERS.findall(folded) if len(letters) >= shortest)
        tokens.update(word for word in _WORD.findall(folded) if len(word) > _MAX_DIGITS)
        numbers.update(_DIGITS.findall(folded))
        joined = re.sub(r"\D", "", folded)
        if len(joined) > _MAX_DIGITS:
            numbers.add(joined)
    return ForbiddenWords(frozenset(tokens), frozenset(numbers))


@lru_cache(maxsize=65536)
def _in_vocabulary(word: str) -> bool:
    folded = vocabulary.fold(word)
    if folded in words():
        return True
    if not word.isascii():
        return False
    if len(word) == 1:
        return True
    if word.isdigit():
        return len(word) <= _MAX_DIGITS
    if word.isalpha():
        return False
    return _is_term(folded)


def _is_term(word: str) -> bool:
    """Return whether a word is a technical token such as ``T2w``, ``Br40d3`` or ``L4L5``."""
    # Identifiers have more digits.
    if _LEVELS.fullmatch(word):
        return True
    parts = _PART.findall(word)
    if len(parts) > _MAX_PARTS or sum(len(part) for part in parts if part.isdigit()) > _MAX_MIXED:
        return False
    return all(len(part) <= _MAX_DIGITS or (part in words() and not part.isdigit()) for part in parts)


def _word_stays(word: str, ban: ForbiddenWords) -> bool:
    if len(word) > _LONGEST_WORD or not _in_vocabulary(word):
        return False
    folded = fold_text(word)
    return folded not in ban.words and not any(part in ban.words for part in _PART.findall(folded))


def _all_known(text: str) -> bool:
    if any(pattern.search(text) for pattern in (_CONTROL, _STRANGE, *_RUNS)):
        return False
    found = _WORD.findall(text)
    known = all(len(word) <= _LONGEST_WORD and _in_vocabulary(word) for word in found)
    return known and not any(paired(found))


def paired(found: list[str]) -> list[bool]:
    """Return, per word, whether it mixes letters and digits next to another such word.

    Postcodes and record numbers do (``SW1A 1AA``); technical tokens occur in the vocabulary.

    Parameters
    ----------
    found : list of str
        The words of a text, in order.
    """
    shaped = [
        not word.isalpha()
        and not word.isdigit()
        and vocabulary.fold(word) not in words()
        and not _LEVELS.fullmatch(vocabulary.fold(word))
        and not _BANDS.fullmatch(vocabulary.fold(word))
        for word in found
    ]
    before, after = [False, *shaped][: len(found)], [*shaped[1:], False][: len(found)]
    return [one and (left or right) for one, left, right in zip(shaped, before, after, strict=True)]


_remembered = lru_cache(maxsize=65536)(_all_known)


def is_named(text: str, ban: ForbiddenWords) -> bool:
    """Return whether a text contains one of the forbidden words, digit runs or never-words."""
    folded = fold_text(text)
    if not ban.words.isdisjoint(_PART.findall(folded)) or not ban.words.isdisjoint(_WORD.findall(folded)):
        return True
    return not ban.numbers.isdisjoint(_DIGITS.findall(folded)) or bool(ban.find_denied(text))


def is_product(text: str, ban: ForbiddenWords) -> bool:
    """Return whether the whole text is a known manufacturer, model or form of a software version.

    Only for attributes that contain products: some products have first names.
    """
    whole = vocabulary.fold(" ".join(text.split())) in device_models() or plausible_version(text)
    return whole and not is_named(text, ban)


def reduce_to_vocabulary(text: str, ban: ForbiddenWords, allowed: FindSpans | None = None) -> str:
    """Keep only the words of a text that are in the vocabulary.

    Runs of three or more numbers (dates, phone numbers), words spelled letter by letter and ages over 89 are
    removed as well. Once something was cut, a number is kept only between two words that are kept: next to a
    cut word it may be part of a date.

    Parameters
    ----------
    text : str
    ban : ForbiddenWords
        Words and numbers that are never kept.
    allowed : callable, optional
        Returns the spans of the site's safe words in a text, which are kept unless they are forbidden.

    Returns
    -------
    str
        The unchanged text if all its words are kept.
    """
    if allowed is not None and (spans := allowed(text)):
        return _reduced_around(text, ban, spans)
    # A cut makes neighbors of words that were apart, which may again form a run.
    while not _stays(text, ban):
        shorter = _shortened(text, ban)
        if shorter == text:
            break
        text = shorter
    return text


def _reduced_around(text: str, ban: ForbiddenWords, spans: Sequence[tuple[int, int]]) -> str:
    """Reduce the parts of a text between safe words."""
    parts, place = [], 0
    for start, end in (*spans, (len(text), len(text))):
        parts.append(reduce_to_vocabulary(text[place:start], ban))
        safe = text[start:end]
        parts.append(reduce_to_vocabulary(safe, ban) if is_named(safe, ban) else safe)
        place = end
    # Across the borders of the parts there may be a never-word of several words.
    if "".join(parts) == text:
        return text if not is_named(text, ban) else reduce_to_vocabulary(text, ban)
    joined = " ".join(part for one in parts if (part := one.strip()))
    return joined if not is_named(joined, ban) else reduce_to_vocabulary(joined, ban)


def _stays(text: str, ban: ForbiddenWords) -> bool:
    known = _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _all_known(text)
    return known and not is_named(text, ban)


def _without_denied(text: str, ban: ForbiddenWords) -> str:
    for start, end in reversed(ban.find_denied(text)):
        text = text[:start] + _GAP + text[end:]
    return text


def _shortened(text: str, ban: ForbiddenWords) -> str:
    shortened = _CONTROL.sub(" ", _without_denied(text, ban))
    for run in _RUNS:
        shortened = run.sub(_GAP, shortened)
    cut = _WORD.findall(shortened)
    beside_another = paired(cut)
    stays = [_word_stays(word, ban) and not pair for word, pair in zip(cut, beside_another, strict=True)]
    beside = [False, *stays][: len(cut)], [*stays[1:], False][: len(cut)]
    return " ".join(
        word
        for word, kept, before, after in zip(cut, stays, *beside, strict=True)
        if kept and (not word.isdigit() or (before and after))
    )
