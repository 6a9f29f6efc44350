"""First layer of text cleaning: known identifiers of the patient and study.

``compile_terms`` compiles the known values once per patient and study; ``find_known_identifiers`` finds them
in a text regardless of case, order, accents, separators and typos. Words that are ordinary by themselves
(Hospital, van, Avenue, single letters) are cut only next to a known word.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.text.date_patterns import Day, calendar_day, dates_in
from medsanitize.sanitize.text.edit_distance import SHORTEST, TypoIndex, build_typo_index
from medsanitize.sanitize.text.folding import fold_letters, is_syllabic, letter_offsets
from medsanitize.sanitize.text.match_context import TextCut, placed
from medsanitize.sanitize.text.name_variants import (
    LONGEST_VALUE,
    ContextWord,
    IdentifierForm,
    Initials,
    identifier_forms,
    misspellable,
)
from medsanitize.sanitize.text.ocr_matching import (
    SkeletonIndex,
    build_skeletons,
    find_ocr_variants,
    index_skeletons,
)
from medsanitize.sanitize.text.scripts.cross_script import CrossScriptNames, cross_script_names
from medsanitize.sanitize.text.stop_words import INSTITUTION_WORDS, STREET_WORDS
from medsanitize.sanitize.text.vocabulary_filter import ForbiddenWords, forbidden_words

__all__ = ["KnownTerms", "TextCut", "compile_terms", "find_known_identifiers"]

_LETTERS: Final = re.compile(r"[^\W\d_]+")
_WORD: Final = re.compile(r"[^\W_]+")
_TWO_PARTS: Final = re.compile(r"[^\W\d_]++(?:['’`´-][^\W\d_]++)++")
_POSSESSIVE: Final = re.compile(r"['’`´]s(?![^\W_])", re.IGNORECASE)
_LINK: Final = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"]++|(?<![\w.+%-])[\w.+%-]++@[\w.-]++"
    r"|(?<![^\s\"'=(])(?:file:|[A-Za-z]:)?[\\/](?:[^\s\\/]++[\\/])++[^\s\\/]*+",
    re.IGNORECASE,
)
_CUES: Final = frozenset(
    "pt pat patient patientin dr doctor doc prof mr mrs ms herr frau mme sr sra by per von par por tech "
    "tec mta mtra rad radiographer operator initials init name".split()
)
_CUED: Final = re.compile(
    rf"(?<![^\W_])(?:{'|'.join(sorted(_CUES))})[.:]?\s?+"
    r"([^\W\d_]{2,4}+(?![^\W_])|[^\W\d_](?:[.\s]{1,2}[^\W\d_](?![^\W_])){1,3}+)",
    re.IGNORECASE,
)
_UID: Final = re.compile(r"(?<![\d.])[0-2](?:\.\d++){5,}+")
_BETWEEN: Final = re.compile(r"[\s.,;:'’`´\-_/^#&]{0,3}")
_JOINED: Final = re.compile(r"[\s.,;:^_/'’\-]{0,3}")
# Letters that also mark sides, sequences and units: as initials they need a comma or a full stop.
_MARKS: Final = frozenset("lrmfapshitvxyzbcdgwk")


@dataclass(frozen=True, slots=True, repr=False)
class KnownTerms:
    """Known identifiers of a patient and study, compiled for matching; the repr shows no value.

    Attributes
    ----------
    ban : ForbiddenWords
        Words and numbers for comparison word by word.
    forms : tuple of IdentifierForm
        Spellings that are searched for.
    automaton : ahocorasick_rs.AhoCorasick
        Finds all ``forms`` in one pass.
    misspelt : TypoIndex
        Words that are also recognized with typos.
    beside : dict of str to frozenset of str
        For each rule, the words that are cut only next to one of its cuts.
    initials : frozenset of str
        Initials, cut only after a cue.
    dates : frozenset of (int, int, int)
        Year, month and day.
    uids : frozenset of str
    elsewhere : CrossScriptNames
        Names for texts in another script.
    made : list
        Cache of `blurred`.
    """

    ban: ForbiddenWords
    forms: tuple[IdentifierForm, ...]
    automaton: Any
    misspelt: TypoIndex
    beside: dict[str, frozenset[str]]
    initials: frozenset[str]
    dates: frozenset[Day]
    uids: frozenset[str]
    elsewhere: CrossScriptNames
    made: list[SkeletonIndex] = field(default_factory=list)

    def __repr__(self) -> str:
        return "KnownTerms(...)"

    def blurred(self) -> SkeletonIndex:
        """Return the skeletons for OCR text, built on first use."""
        if not self.made:
            self.made.append(index_skeletons(build_skeletons(self.forms)))
        return self.made[0]


def compile_terms(known: Iterable[KnownValue]) -> KnownTerms:
    """Compile the known values of a patient and study.

    Parameters
    ----------
    known : iterable of KnownValue
        Values of unknown categories, empty values and values over 256 characters are ignored.

    Returns
    -------
    KnownTerms
    """
    from ahocorasick_rs import AhoCorasick, Implementation

    # Sorted, because the order decides which rule wins: runs must not differ by the order of a set.
    listed = sorted(set(known), key=lambda one: (one.category, one.value))
    found: dict[str, IdentifierForm] = {}
    beside: dict[str, set[str]] = {}
    initials: set[str] = set()
    for one in listed:
        for form in identifier_forms(one):
            if isinstance(form, IdentifierForm):
                _add(found, form)
            elif isinstance(form, ContextWord):
                beside.setdefault(form.rule, set()).add(form.word)
            elif isinstance(form, Initials):
                initials.add(form.letters)
    ordered = tuple(found.values())
    elsewhere = cross_script_names(
        (form.key for form in ordered if form.rule == "known-name" and misspellable(form)),
        (one.value for one in listed if one.category == "name" and len(one.value) <= LONGEST_VALUE),
    )
    if elsewhere.beside:
        beside.setdefault("known-name", set()).update(elsewhere.beside)
    days = (calendar_day(one.value.strip()) for one in listed if one.category == "date")
    return KnownTerms(
        forbidden_words(listed),
        ordered,
        AhoCorasick([form.key for form in ordered], implementation=Implementation.ContiguousNFA),
        build_typo_index((form.key, form.rule) for form in ordered if misspellable(form)),
        {rule: frozenset(words) for rule, words in beside.items()},
        # Initials such as "CT" or "MR" would be cut from every description.
        frozenset(letters for letters in initials if letters not in vocabulary()),
        frozenset(day for day in days if day),
        frozenset(one.value.strip(" \0") for one in listed if one.category == "uid"),
        elsewhere,
    )


# From the shape that matches in most places to the one that matches in fewest; see `placed`.
_RANK: Final = ("syllables", "word", "digits", "code", "phrase", "login")


def _add(found: dict[str, IdentifierForm], form: IdentifierForm) -> None:
    """Add a form; of equal spellings the one that matches in more places is kept."""
    other = found.get(form.key)
    if other is None:
        found[form.key] = form
        return
    first = min(other, form, key=lambda one: _RANK.index(one.shape))
    found[form.key] = IdentifierForm(first.key, first.rule, first.shape, other.breaks | form.breaks)


def find_known_identifiers(text: str, terms: KnownTerms, *, noisy: bool = False) -> tuple[TextCut, ...]:
    """Find the known identifiers in a text.

    Parameters
    ----------
    text : str
    terms : KnownTerms
    noisy : bool
        The text was read by OCR: look-alike characters, missing spaces and more typos are accepted.

    Returns
    -------
    tuple of TextCut
        In order and disjoint. Neighboring cuts of one rule are merged with the separators between them.
    """
    words = _LETTERS.findall(text.lower())
    if not text.isascii():
        words = [fold_letters(word, wide=wide) for word in words for wide in (False, True)]
    cuts = list(_spelt(text, terms))
    # Most texts consist of words that are known not to be typos; these skip the search.
    if terms.misspelt.words and not terms.misspelt.fine.issuperset(words):
        cuts.extend(_slipped(text, terms))
    cuts.extend(TextCut(*span, "known-name") for span in terms.elsewhere.find(text))
    if terms.initials and not _CUES.isdisjoint(words):
        cuts.extend(_cued(text, terms))
    cuts.extend(TextCut(start, end, "known-date") for start, end in dates_in(text, terms.dates, words))
    if terms.uids and "." in text:
        cuts.extend(TextCut(*one.span(), "known-id") for one in _UID.finditer(text) if one[0] in terms.uids)
    if noisy:
        cuts.extend(find_ocr_variants(text, terms.blurred(), terms.dates))
    if not cuts:
        return ()
    return _linked(text, _merged(text, _extended(text, _merged(text, cuts), terms)))


def _spelt(text: str, terms: KnownTerms) -> Iterator[TextCut]:
    """Yield exact spellings, regardless of separators."""
    for wide in (False,) if text.isascii() else (False, True):
        found = terms.automaton.find_matches_as_indexes(fold_letters(text, wide=wide), overlapping=True)
        if not found:
            continue
        places = letter_offsets(text, wide=wide)
        for number, start, end in found:
            cut = placed(text, terms.forms[number], places[start:end])
            if cut:
                yield cut


def _slipped(text: str, terms: KnownTerms) -> Iterator[TextCut]:
    """Yield words that are in no vocabulary and equal a known word except for typos."""
    found = _LETTERS.finditer(text)
    spans = [one.span() for one in found]
    if not {"'", "’", "`", "´", "-"}.isdisjoint(text):
        spans += [one.span() for one in _TWO_PARTS.finditer(text)]
    for start, end in spans:
        rule = _slip(text[start:end], terms)
        if rule:
            yield TextCut(start, end, rule)


def _slip(word: str, terms: KnownTerms) -> str:
    """Return the rule of the known word that ``word`` is a typo of, empty if there is none."""
    # In scripts without spaces, one character is a whole syllable: edit distance says nothing.
    if is_syllabic(word[0]):
        return ""
    for wide in (False,) if word.isascii() else (False, True):
        key = fold_letters(word, wide=wide)
        if key in terms.misspelt.fine:
            continue
        if len(key) < SHORTEST or key in vocabulary() or key in INSTITUTION_WORDS or key in STREET_WORDS:
            terms.misspelt.pass_over(key)
            continue
        rule = terms.misspelt.find(key)
        if rule:
            return rule
    return ""


def _cued(text: str, terms: KnownTerms) -> Iterator[TextCut]:
    """Yield initials after a word that announces a person: ``pt JS``, ``Dr. J.S.``."""
    for found in _CUED.finditer(text):
        letters = found[1].replace(".", "").replace(" ", "")
        if letters.isupper() and fold_letters(letters) in terms.initials:
            yield TextCut(*found.span(1), "known-name")


def _extended(text: str, cuts: list[TextCut], terms: KnownTerms) -> list[TextCut]:
    """Extend each cut by what belongs to it: initials, the rest of an address, the kind of institution."""
    words = [found.span() for found in _WORD.finditer(text)]
    starts, ends = [start for start, _ in words], [end for _, end in words]
    extended = []
    for cut in cuts:
        start, end = cut.start, cut.end
        before = bisect_right(ends, start) - 1
        while before >= 0 and _belongs(text, words[before], (ends[before], start), cut.rule, terms):
            start = starts[before]
            before -= 1
        after = bisect_left(starts, end)
        while after < len(words) and _belongs(text, words[after], (end, starts[after]), cut.rule, terms):
            end = ends[after]
            after += 1
        tail = _POSSESSIVE.match(text, end)
        end = tail.end() if tail else end
        if cut.rule == "known-name" and text[end : end + 1] == "." and not text[end - 2 : end - 1].isalpha():
            end += 1
        extended.append(TextCut(start, end, cut.rule))
    return extended


def _belongs(text: str, word: tuple[int, int], gap: tuple[int, int], rule: str, terms: KnownTerms) -> bool:
    """Return whether the word at span ``word`` belongs to a cut of ``rule`` across the span ``gap``."""
    if not _BETWEEN.fullmatch(text, *gap):
        return False
    key = fold_letters(text[slice(*word)])
    if rule in ("known-institution", "denied") and key in INSTITUTION_WORDS:
        return True
    if rule == "known-address" and key in STREET_WORDS and gap[0] < word[0]:
        return True
    if key not in terms.beside.get(rule, ()):
        return False
    if rule == "known-name" and key in _MARKS:
        between = text[slice(*gap)]
        return "," in between or "^" in between or text[word[1] : word[1] + 1] == "."
    return True


def _merged(text: str, cuts: Iterable[TextCut]) -> list[TextCut]:
    """Merge overlapping cuts, and neighbors of one rule with only separators between them."""
    merged: list[TextCut] = []
    for cut in sorted(cuts, key=lambda one: (one.start, -one.end, one.rule)):
        last = merged[-1] if merged else None
        if last and (
            cut.start < last.end or (cut.rule == last.rule and _JOINED.fullmatch(text, last.end, cut.start))
        ):
            merged[-1] = TextCut(last.start, max(last.end, cut.end), last.rule)
        else:
            merged.append(cut)
    return merged


def _linked(text: str, cuts: list[TextCut]) -> tuple[TextCut, ...]:
    """Cut e-mail addresses, URLs and paths as a whole if they contain a known identifier."""
    if "@" in text or "/" in text or "\\" in text or "www." in text.lower():
        ends = [cut.end for cut in cuts]
        for found in _LINK.finditer(text):
            first = bisect_right(ends, found.start())
            if first < len(cuts) and cuts[first].start < found.end():
                cuts = [*cuts, TextCut(*found.span(), cuts[first].rule)]
        cuts = _merged(text, cuts)
    return tuple(cuts)
