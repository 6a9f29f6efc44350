"""The first layer of free text: what this patient and study are known to be called.

``terms`` compiles the known values once a patient and study; ``known_spans`` finds them in a text,
whatever their case, order, accents, separators or common misspelling. Words that are ordinary by themselves
(Hospital, van, Avenue, single letters) are cut only beside a known word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.context import Known
from medsanitize.sanitize.text.folding import is_syllabic, origins, squeeze, squeezed
from medsanitize.sanitize.text.forms import Beside, Form, Initials, forms, misspellable
from medsanitize.sanitize.text.generic import INSTITUTION_WORDS, STREET_WORDS
from medsanitize.sanitize.text.misspelt import SHORTEST, Misspelt, misspelt
from medsanitize.sanitize.text.vocabulary import Forbidden, forbidden
from medsanitize.sanitize.text.written_dates import Day, calendar_day, dates_in

_WORD: Final = re.compile(r"[^\W_]+")
_SPELT: Final = re.compile(r"[^\W\d_]+(?:['’`´-][^\W\d_]+)*+")
_POSSESSIVE: Final = re.compile(r"['’`´]s(?![^\W_])", re.IGNORECASE)
_LINK: Final = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"]++|[\w.+%-]++@[\w.-]++|(?:file:)?(?:[A-Za-z]:)?[\\/](?:[^\s\\/]++[\\/])+[^\s\\/]*+",
    re.IGNORECASE,
)
_CUED: Final = re.compile(
    r"(?<![^\W_])(?:pt|pat|patient|patientin|dr|doctor|doc|prof|mr|mrs|ms|herr|frau|mme|sr|sra|by|per|von|par|por"
    r"|tech|tec|mta|mtra|rad|radiographer|operator|initials|init|name)[.:]?\s?+"
    r"([^\W\d_]{2,4}+(?![^\W_])|[^\W\d_](?:[.\s]{1,2}[^\W\d_](?![^\W_])){1,3}+)",
    re.IGNORECASE,
)
_UID: Final = re.compile(r"(?<![\d.])[0-2](?:\.\d++){5,}+")
_UNIT: Final = re.compile(
    r"\s?(?:[mcµu]?m|[mµu]?s(?:ec)?|min|k[vV]p?|m?[aA]s?|m[gl]|ml/s|[kM]?Hz|°|%|x\s?\d|/|G[yY]|HU|bpm|mmHg|T)(?![^\W_])|x\d"
)
_BETWEEN: Final = re.compile(r"[\s.,;:'’`´\-_/^#&]{0,3}")
_JOINED: Final = re.compile(r"[\s.,;:^_/'’\-]{0,3}")
_APART: Final = re.compile(r"[\s.,;:'’`´\-_/^()\[\]#*|\\=+]{1,3}")
_MARKS: Final = frozenset("lrmfapshitvxyzbcdgwk")
"""Single letters that images are marked with: as initials they need a comma or a full stop."""
_LONG_NAME: Final = 9
_LONG_CODE: Final = 12
_FREE: Final = 7
_CROSSING: Final = 6
_BESIDE_LETTERS: Final = 5
_NEEDS_UNIT_CHECK: Final = 3


@dataclass(frozen=True, slots=True)
class Cut:
    """A span of characters, half open, and the rule that found it."""

    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True, repr=False)
class Terms:
    """What a patient and study are called, compiled for matching; its repr shows no value."""

    ban: Forbidden
    forms: tuple[Form, ...]
    automaton: Any
    misspelt: Misspelt
    beside: dict[str, frozenset[str]]
    initials: frozenset[str]
    dates: frozenset[Day]
    uids: frozenset[str]

    def __repr__(self) -> str:
        return "Terms(...)"


def terms(known: Iterable[Known]) -> Terms:
    """Compile the known values of a patient and study.

    Categories are those of ``Known``; unknown ones, empty values and values over 256 characters add nothing.
    """
    from ahocorasick_rs import AhoCorasick, Implementation

    listed = sorted(set(known), key=lambda one: (one.category, one.value))
    found: dict[str, Form] = {}
    beside: dict[str, set[str]] = {}
    initials: set[str] = set()
    for one in listed:
        for form in forms(one):
            if isinstance(form, Form):
                _add(found, form)
            elif isinstance(form, Beside):
                beside.setdefault(form.rule, set()).add(form.word)
            elif isinstance(form, Initials):
                initials.add(form.letters)
    ordered = tuple(found.values())
    days = (calendar_day(one.value.strip()) for one in listed if one.category == "date")
    return Terms(
        forbidden(listed),
        ordered,
        AhoCorasick([form.key for form in ordered], implementation=Implementation.ContiguousNFA),
        misspelt(form.key for form in ordered if misspellable(form)),
        {rule: frozenset(words) for rule, words in beside.items()},
        frozenset(letters for letters in initials if letters not in vocabulary()),
        frozenset(day for day in days if day),
        frozenset(one.value.strip(" \0") for one in listed if one.category == "uid"),
    )


_RANK: Final = ("syllables", "word", "digits", "code", "phrase")


def _add(found: dict[str, Form], form: Form) -> None:
    """Of equal spellings the one that counts in more places stays, with the breaks of both."""
    other = found.get(form.key)
    if other is None:
        found[form.key] = form
        return
    first = min(other, form, key=lambda one: _RANK.index(one.shape))
    found[form.key] = Form(first.key, first.rule, first.shape, other.breaks | form.breaks)


def known_spans(text: str, terms: Terms) -> tuple[Cut, ...]:
    """Find everything in ``text`` that is one of the known identifiers.

    Parameters
    ----------
    text : str
    terms : Terms

    Returns
    -------
    tuple of Cut
        In order, not overlapping. Neighbouring cuts of one rule are one cut, with what joins them.
    """
    cuts = [*_spelt(text, terms), *_slipped(text, terms), *_cued(text, terms)]
    cuts += [Cut(start, end, "known-date") for start, end in dates_in(text, terms.dates)]
    if terms.uids and "." in text:
        cuts += [Cut(*one.span(), "known-id") for one in _UID.finditer(text) if one[0] in terms.uids]
    if not cuts:
        return ()
    cuts = _merged(text, [_extended(text, cut, terms) for cut in cuts])
    return _linked(text, cuts)


def _spelt(text: str, terms: Terms) -> Iterator[Cut]:
    """Exact spellings, separators aside."""
    for wide in (False,) if text.isascii() else (False, True):
        found = terms.automaton.find_matches_as_indexes(squeeze(text, wide=wide), overlapping=True)
        if not found:
            continue
        places = origins(text, wide=wide)
        for number, start, end in found:
            cut = _placed(text, terms.forms[number], places[start:end])
            if cut:
                yield cut


def _placed(text: str, form: Form, places: list[int]) -> Cut | None:
    """The cut of one match if it stands in the text as its shape demands."""
    start, end = places[0], places[-1] + 1
    before, after = text[start - 1 : start], text[end : end + 1]
    if form.shape == "syllables":
        return Cut(start, end, form.rule)
    if form.shape == "word":
        alone = not before.isalpha() and not after.isalpha()
        good = alone or (len(form.key) >= _LONG_NAME and form.rule == "known-name")
        return Cut(start, end, form.rule) if good and _holds_together(text, form, places) else None
    if form.shape == "digits":
        return _number(text, form, start, end)
    alone = not before.isalnum() and not after.isalnum()
    return Cut(start, end, form.rule) if alone or len(form.key) >= _LONG_CODE else None


def _holds_together(text: str, form: Form, places: list[int]) -> bool:
    """Whether the separators inside a match may stand inside this word: ``as a`` is no Asa."""
    if places[-1] - places[0] < len(places):
        return True
    gaps = [place for place in range(1, len(places)) if places[place] - places[place - 1] > 1]
    if any(not _APART.fullmatch(text, places[place - 1] + 1, places[place]) for place in gaps):
        return False
    if len(places) >= _FREE or len(gaps) == len(places) - 1:
        return True
    return all(place in form.breaks or text[places[place] - 1] in "'’`´-^_." for place in gaps)


def _number(text: str, form: Form, start: int, end: int) -> Cut | None:
    """Digits: whole runs, from five on beside letters, from six on with separators between them."""
    size = len(form.key)
    while start and text[start - 1] == "0":
        start -= 1
    before, after = text[start - 1 : start], text[end : end + 1]
    if before.isdigit() or after.isdigit():
        international = form.rule == "known-phone" and re.search(r"(?:\+|00)\d{1,3}$", text[:start])
        if after.isdigit() or not international:
            return None
        start = international.start()
    if size < _BESIDE_LETTERS and (before.isalpha() or after.isalpha()):
        return None
    inner = text[start:end]
    if not inner.isdigit() and (
        size < _CROSSING or not re.fullmatch(r"\+?\d+(?:[ .\-/_()]{1,3}\d+)*+", inner)
    ):
        return None
    if size <= _NEEDS_UNIT_CHECK and (
        _UNIT.match(text, end) or before in (".", "x") or re.match(r"\.\d", text[end:])
    ):
        return None
    while start and text[start - 1].isalpha():
        start -= 1
    while end < len(text) and text[end].isalpha():
        end += 1
    return Cut(start, end, form.rule)


def _slipped(text: str, terms: Terms) -> Iterator[Cut]:
    """Words that no vocabulary has and that are known words but for a slip."""
    if not terms.misspelt.words:
        return
    for found in _SPELT.finditer(text):
        if len(found[0]) >= SHORTEST:
            for start, end in _candidates(found):
                if _is_slip(text[start:end], terms):
                    yield Cut(start, end, "known-name")


def _candidates(found: re.Match[str]) -> list[tuple[int, int]]:
    whole = found.span()
    if found[0].isalpha():
        return [whole]
    return [whole, *((whole[0] + one.start(), whole[0] + one.end()) for one in _WORD.finditer(found[0]))]


def _is_slip(word: str, terms: Terms) -> bool:
    if is_syllabic(word[0]):
        return False
    return any(
        len(key) >= SHORTEST and key not in vocabulary() and terms.misspelt.matches(key)
        for key in squeezed(word)
    )


def _cued(text: str, terms: Terms) -> Iterator[Cut]:
    """Initials where something says that a person follows: ``pt JS``, ``Dr. J.S.``."""
    if not terms.initials:
        return
    for found in _CUED.finditer(text):
        if squeeze(found[1]) in terms.initials and found[1].replace(".", "").replace(" ", "").isupper():
            yield Cut(*found.span(1), "known-name")


def _extended(text: str, cut: Cut, terms: Terms) -> Cut:
    """Take in what belongs to a hit: initials, the rest of an address, the kind of institution."""
    start, end = cut.start, cut.end
    words = [found.span() for found in _WORD.finditer(text)]
    for low, high in reversed([span for span in words if span[1] <= start]):
        if not _belongs(text, (low, high), (high, start), cut.rule, terms, before=True):
            break
        start = low
    for low, high in (span for span in words if span[0] >= end):
        if not _belongs(text, (low, high), (end, low), cut.rule, terms, before=False):
            break
        end = high
    tail = _POSSESSIVE.match(text, end)
    end = tail.end() if tail else end
    if cut.rule == "known-name" and end - start > 1 and text[end : end + 1] == "." and text[end - 2] in " ,^":
        end += 1
    return Cut(start, end, cut.rule)


def _belongs(
    text: str, word: tuple[int, int], gap: tuple[int, int], rule: str, terms: Terms, *, before: bool
) -> bool:
    if not _BETWEEN.fullmatch(text, *gap):
        return False
    key = squeeze(text[slice(*word)])
    if rule == "known-institution" and key in INSTITUTION_WORDS:
        return True
    if rule == "known-address" and key in STREET_WORDS and not before:
        return True
    if key not in terms.beside.get(rule, ()):
        return False
    if rule == "known-name" and len(key) == 1 and key in _MARKS:
        return "," in text[slice(*gap)] or "^" in text[slice(*gap)] or text[word[1] : word[1] + 1] == "."
    return True


def _merged(text: str, cuts: list[Cut]) -> list[Cut]:
    """Overlapping cuts are one; so are neighbours of one rule with nothing but separators between them."""
    merged: list[Cut] = []
    for cut in sorted(cuts, key=lambda one: (one.start, -one.end)):
        last = merged[-1] if merged else None
        if last and (
            cut.start < last.end or (cut.rule == last.rule and _JOINED.fullmatch(text, last.end, cut.start))
        ):
            merged[-1] = Cut(last.start, max(last.end, cut.end), last.rule)
        else:
            merged.append(cut)
    return merged


def _linked(text: str, cuts: list[Cut]) -> tuple[Cut, ...]:
    """E-mail addresses, URLs and paths with a known identifier in them go as a whole."""
    if "@" in text or "/" in text or "\\" in text or "www." in text.lower():
        links = [found.span() for found in _LINK.finditer(text)]
        cuts = [
            Cut(
                min(cut.start, *(low for low, high in hit)),
                max(cut.end, *(high for low, high in hit)),
                cut.rule,
            )
            if (hit := [(low, high) for low, high in links if low < cut.end and cut.start < high])
            else cut
            for cut in cuts
        ]
        cuts = _merged(text, cuts)
    return tuple(cuts)
