"""Cleaning of free text: identifiers are cut, clinical words are kept.

Three layers find what is cut: known identifiers of the patient and study; patterns that identify by their
form; names by their context and a language model. Words in no vocabulary are cut as well, because an unknown
word may be a name. The second and third layer depend on the text only, so their results are cached; the model
is loaded for the first text with a word that only the model can decide.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from sys import maxsize

from medsanitize.policies.model import TextSection
from medsanitize.policies.tables.vocabulary import clinical_words, cues
from medsanitize.sanitize.text.allow_list import allow_list_of
from medsanitize.sanitize.text.classify_words import classify_words
from medsanitize.sanitize.text.deny_list import deny_list_of
from medsanitize.sanitize.text.feast_days import find_listed_feasts
from medsanitize.sanitize.text.image_markers import is_image_marker
from medsanitize.sanitize.text.known_identifiers import KnownTerms, TextCut, find_known_identifiers
from medsanitize.sanitize.text.lexicon import WordKind, is_guessed
from medsanitize.sanitize.text.measurements import find_quantities
from medsanitize.sanitize.text.ner import EntityFinder
from medsanitize.sanitize.text.recognizers import PatternMatch, extend_to_words, find_patterns
from medsanitize.sanitize.text.scripts.characters import (
    MARKS,
    PUNCTUATION,
    count_letters,
    has_script,
    with_ascii_signs,
    with_letters_for_marks,
    without_unspaced,
)
from medsanitize.sanitize.text.scripts.patterns import find_script_patterns
from medsanitize.sanitize.text.scripts.persons import find_script_names
from medsanitize.sanitize.text.scripts.quantities import find_script_quantities
from medsanitize.sanitize.text.terms import keep_terms
from medsanitize.sanitize.text.tokens import TokenizedText, Word, tokenize
from medsanitize.sanitize.text.vocabulary_filter import is_named, paired

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\u0080-\u009f\u200b-\u200f\u2028-\u202f\ufeff\ufffd]")
_STRANGE = re.compile(
    rf"[^\w\s\x00-\x7f{MARKS}{PUNCTUATION}°²³µ×±·½¼¾‐-―‘’‚“”„«»‹›…•≤≥≈→←¿¡ªº‰]"
    r"|[°²³µ×±·½¼¾ªº‰«»¿¡]{2,}|(?<![\d\w ])[°±×·½¼¾]"
)
_FOREIGN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
# Descriptions and protocol names recur in all objects of a study; longer texts rarely do.
_REMEMBERED = 65536
_LONGEST_REMEMBERED = 1024
_MOST_PASSES = 12
_BARE_DIGITS = 2
_OCR_DIGITS = 3
_FEW_WORDS = 4
_NEAR = 3
_MOST_TIED = 3
# Names of two letters in a line of an image, where OCR reads specks as single ones.
_SHORT_NAME = re.compile(r"[A-Z][A-Za-z]")
_BESIDE = re.compile(r"[ ,^.·-]{1,2}")
# Marks a cut while the text is joined; control characters were removed before, so the text has none.
_GAP = "\0"
_GAPS = re.compile(r"[ \t]*\0(?:[\s,;:、，،؛/&+^_.'’`´\"()\[\]<>*#=|@-]*\0)*[ \t]*")
_WRAPPED = re.compile(r"[(\[{<\"“„（「]\s*\0\s*[)\]}>\"”“）」]")
_BEFORE = re.compile(r"[(\[{<\"“„+#*@~?]+\0")
_TAIL = re.compile(r"\0(?:['’`´]s(?![^\W_]))?[\"”)\]}>*]*")
_TWO_MARKS = re.compile(r"([ \t]*[-–,;、，،؛/&+_^|]+[ \t]*)\0([ \t]*[-–,;、，،؛/&+_^|]+[ \t]*)")
_AT_START = re.compile(r"(?m)^[ \t]*\0[ \t,;:、，،؛/&+^_.)\]|-]*")
_AT_END = re.compile(r"(?m)[ \t,;、，،؛/&+^_(\[|-]*\0[ \t]*$")


@dataclass(frozen=True, slots=True)
class CleanedText:
    """A text after cleaning.

    Attributes
    ----------
    text : str
        What was kept.
    rules : tuple of str
        Rules that cut something, each once.
    doubtful : bool
        Whether the text becomes a review item.
    """

    text: str
    rules: tuple[str, ...] = ()
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class _Analysis:
    """Result of the second and third layer for one text.

    Attributes
    ----------
    cuts : tuple of TextCut
    loose : tuple of (int, int)
        Spans of short numbers that are cut only next to a cut.
    words : int
        Number of words.
    doubtful : bool
        Whether the language model cut something.
    """

    cuts: tuple[TextCut, ...]
    loose: tuple[tuple[int, int], ...]
    words: int
    doubtful: bool


class TextCleaner:
    """Text cleaner of one policy; its only state is the model and a cache.

    Parameters
    ----------
    rules : TextSection
        The policy's section ``text``: model, patterns and lists of the site. The caller decides which
        attributes are cleaned.
    """

    def __init__(self, rules: TextSection) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in rules.patterns)
        self._denied, self._allowed = deny_list_of(rules), allow_list_of(rules)
        self._entities = EntityFinder(rules.model)
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._analyze)

    def clean(self, text: str, terms: KnownTerms) -> CleanedText:
        """Cut identifiers from ``text`` and keep the rest.

        Parameters
        ----------
        text : str
            One value; values of a multi-valued attribute are cleaned one by one.
        terms : KnownTerms
            Known identifiers of the patient and study.

        Returns
        -------
        CleanedText
            Its text is never longer than ``text``, and cleaning it again changes nothing.
        """
        rules: list[str] = []
        doubtful, before = False, text
        # A cut changes the context of the words around it, so the text is cleaned until it is stable.
        for _ in range(_MOST_PASSES):
            shorter, why, unsure = self._once(text, terms)
            rules += why
            doubtful = doubtful or unsure
            if shorter == text:
                break
            text = shorter
        else:
            # Fail closed: a text that does not become stable cannot be shown to be clean.
            text = ""
        # A longer value could exceed the limit of its VR.
        if len(text) > len(before):
            text = ""
        return CleanedText(text, tuple(dict.fromkeys(rules)), doubtful)

    def identifying(self, text: str, terms: KnownTerms, *, noisy: bool) -> bool:
        """Return whether a line of text in an image may identify a person.

        Parameters
        ----------
        text : str
            The line.
        terms : KnownTerms
            Known identifiers of the patient and study.
        noisy : bool
            The line was read by OCR: single unknown characters are taken for noise, not for names.

        Returns
        -------
        bool
            False only if every word is ordinary, clinical, technical or a quantity and no layer cuts any.
        """
        if find_known_identifiers(text, terms) or is_named(text, terms.ban):
            return True
        if self._denied and self._denied.find(text, noisy=noisy):
            return True
        # A name may be a single character of another script: there, none is taken for noise.
        noisy = noisy and count_letters(text) < _BARE_DIGITS
        cuts = list(self._judged(text))
        if not noisy:
            return bool(cuts)
        return _short_names(text, cuts) or any(
            not _is_harmless(text[cut.start : cut.end], cut.rule) for cut in cuts
        )

    def _judged(self, text: str) -> Iterator[TextCut]:
        """Yield the cuts of a line in an image: stricter on ambiguous words, laxer on short numbers."""
        reading, spans, quantified = self._read(text)
        yield from spans
        classify_words(reading, running=False)
        yield from _cuts_of(reading)
        # The language model needs sentences; a line of an image is none, so ambiguous words are cut.
        for place in reading.open:
            if reading.words[place].kind is WordKind.DOUBTFUL:
                yield TextCut(reading.words[place].start, reading.words[place].end, "doubtful-word")
        for word in reading.words:
            if is_guessed(word.text):
                yield TextCut(word.start, word.end, "unknown-word")
            if word.kind is WordKind.INSTITUTION or (
                word.kind is WordKind.NUMBER
                and len(word.text) > _OCR_DIGITS
                and not _inside(word.start, word.end, quantified)
            ):
                yield TextCut(word.start, word.end, "number")

    def _once(self, text: str, terms: KnownTerms) -> tuple[str, list[str], bool]:
        text, rules = _plain(text)
        analysis = self._remembered(text) if len(text) <= _LONGEST_REMEMBERED else self._analyze(text)
        known = find_known_identifiers(text, terms)
        if self._denied:
            known = (*known, *self._denied.find(text))
        if not known and not analysis.cuts:
            return text, rules, False
        cuts = sorted((*known, *analysis.cuts), key=lambda cut: (cut.start, cut.end))
        cuts = _with_loose(text, cuts, analysis.loose)
        shorter = _joined(text, cuts)
        # What loses more than half of its words was probably misread, or is about a person: a person decides.
        left = sum(1 for _ in re.finditer(r"[^\W_]+", shorter))
        most_gone = analysis.words >= _FEW_WORDS and left * 2 < analysis.words
        return shorter, [*rules, *dict.fromkeys(cut.rule for cut in cuts)], analysis.doubtful or most_gone

    def _read(self, text: str) -> tuple[TokenizedText, list[TextCut], list[tuple[int, int]]]:
        script = has_script(text)
        text = with_ascii_signs(text)
        plain = with_letters_for_marks(text)
        spans = (
            [TextCut(one.start, one.end, one.rule) for one in find_patterns(plain)]
            if _may_claim(plain)
            else []
        )
        spans += [TextCut(*span, "date") for span in find_listed_feasts(text)]
        if script:
            spans = [TextCut(*without_unspaced(text, span.start, span.end), span.rule) for span in spans]
            spans += [TextCut(*span) for span in find_script_patterns(text)]
        allowed = self._allowed.spans(text) if self._allowed else []
        if allowed:
            spans = [span for span in spans if not _is_covered(text, span, allowed)]
        for pattern in self._patterns:
            spans += [TextCut(*match.span(), "pattern") for match in pattern.finditer(text) if match[0]]
        found = list(find_quantities(plain)) if any(char.isdigit() for char in text) else []
        quantified = _merged([*found, *(find_script_quantities(text) if script else ()), *allowed])
        reading = tokenize(text)
        claimed = _merged((cut.start, cut.end) for cut in spans)
        for place, word in enumerate(reading.words):
            if _meets(word.start, word.end, claimed):
                reading.cut[place] = "recognized"
            # A unit such as "mgycm" is in no vocabulary, but part of a quantity. A safe word of the site is
            # neither a name nor a kind of institution, whatever the vocabulary says.
            elif word.kind is not WordKind.NUMBER and _inside(
                word.start, word.end, quantified if word.kind is WordKind.UNKNOWN else allowed
            ):
                reading.words[place] = replace(word, kind=WordKind.TERM)
        if script:
            find_script_names(reading)
        keep_terms(reading)
        return reading, spans, quantified

    def _analyze(self, text: str) -> _Analysis:
        reading, spans, quantified = self._read(text)
        classify_words(reading)
        cuts = [*spans, *_cuts_of(reading), *_numbers(reading, quantified), *_codes(reading, quantified)]
        cuts += _tied(reading, cuts)
        named = list(self._named(reading)) if reading.open else []
        loose = tuple(
            (word.start, word.end)
            for word in reading.words
            if word.kind is WordKind.NUMBER and not _inside(word.start, word.end, quantified)
        )
        return _Analysis(tuple(cuts + named), loose, len(reading.words), bool(named))

    def _named(self, reading: TokenizedText) -> Iterator[TextCut]:
        """Yield the open words that the language model takes for names."""
        texts = [reading.text]
        # The model was trained on mixed case and misses names in capitals.
        if reading.capitals:
            texts += [reading.text.title(), reading.text.capitalize()]
        for text in texts:
            # Changing case may change the length ("ß" becomes "Ss"): spans would be shifted.
            if len(text) != len(reading.text):
                continue
            for entity in self._entities(text):
                inside = [
                    place
                    for place, word in enumerate(reading.words)
                    if entity.start < word.end and word.start < entity.end
                ]
                # A span that contains a word that is no name is a false positive of the model.
                sure = any(
                    reading.words[place].kind is WordKind.SAFE and len(reading.words[place].text) > 1
                    for place in inside
                )
                if entity.named and not sure:
                    for place in inside:
                        if place in reading.open:
                            yield TextCut(reading.words[place].start, reading.words[place].end, "entity")
                elif not entity.named and any(place in reading.open for place in inside):
                    yield TextCut(entity.start, entity.end, "entity")


def _plain(text: str) -> tuple[str, list[str]]:
    """Remove control characters and unusual signs; return the text and the rule, if any."""
    # They may be bytes of another character set, that is, letters that no layer can read.
    cleaned = _STRANGE.sub(" ", _CONTROL.sub(" ", text))
    if cleaned == text:
        return text, []
    return re.sub(r" {2,}", " ", cleaned).strip(" "), ["language" if _FOREIGN.search(text) else "sign"]


def _may_claim(text: str) -> bool:
    # One word of letters has no identifying form (a month alone is no date): it skips the built-in patterns.
    return not text.isalpha()


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans and merge overlapping ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _meets(start: int, end: int, merged: list[tuple[int, int]]) -> bool:
    place = bisect_left(merged, (end, 0)) - 1
    return place >= 0 and merged[place][1] > start


def _inside(start: int, end: int, merged: list[tuple[int, int]]) -> bool:
    place = bisect_right(merged, (start, maxsize)) - 1
    return place >= 0 and end <= merged[place][1]


def _is_covered(text: str, cut: TextCut, allowed: list[tuple[int, int]]) -> bool:
    """Return whether every letter and digit of a cut is in a safe word of the site."""
    place = cut.start
    for start, end in allowed:
        if start < cut.end and end > cut.start:
            if any(map(str.isalnum, text[place:start])):
                return False
            place = max(place, end)
    return not any(map(str.isalnum, text[place : cut.end]))


def _cuts_of(reading: TokenizedText) -> Iterator[TextCut]:
    for place, rule in reading.cut.items():
        if rule != "recognized":
            word = reading.words[place]
            foreign = rule == "unknown-word" and _FOREIGN.search(word.text)
            yield TextCut(word.start, word.end, "language" if foreign else rule)


def _numbers(reading: TokenizedText, quantified: list[tuple[int, int]]) -> Iterator[TextCut]:
    """Yield numbers of three digits and more that are not part of a quantity."""
    for place, word in enumerate(reading.words):
        long = word.kind is WordKind.NUMBER and len(word.text) > _BARE_DIGITS
        if long and place not in reading.cut and not _inside(word.start, word.end, quantified):
            number = extend_to_words(reading.text, PatternMatch(word.start, word.end, "bare-number"))
            yield TextCut(number.start, number.end, number.rule)


def _codes(reading: TokenizedText, quantified: list[tuple[int, int]]) -> Iterator[TextCut]:
    """Yield words of letters and digits next to another such word, as in record numbers."""
    # Vowel signs are no letters for Python: only with a digit is such a word a code.
    spelled = [
        "x" if _is_symbol(word) or (has_script(word.text) and not _has_digit(word.text)) else word.text
        for word in reading.words
    ]
    flags = paired(spelled)
    for place, word in enumerate(reading.words):
        if place not in reading.cut and flags[place] and not _inside(word.start, word.end, quantified):
            yield TextCut(word.start, word.end, "number")


def _tied(reading: TokenizedText, cuts: Iterable[TextCut]) -> Iterator[TextCut]:
    """Yield the other parts of a number that is cut: ``24``, ``CT`` and ``A1`` in ``24-CT-009913/A1``."""
    numbers = _merged((cut.start, cut.end) for cut in cuts if cut.rule in ("number", "bare-number"))
    known = [_meets(word.start, word.end, numbers) for word in reading.words]
    forward = range(len(known))
    for places, step in ((forward, -1), (forward[::-1], 1)):
        for place in places:
            word, beside = reading.words[place], place + step
            if known[place] or not _are_joined(reading, place, beside) or not known[beside]:
                continue
            beyond = place - step
            between = _are_joined(reading, place, beyond) and _has_digit(reading.words[beyond].text)
            if _has_digit(word.text) or (len(word.text) <= _MOST_TIED and between):
                known[place] = True
                yield TextCut(word.start, word.end, "number")


def _are_joined(reading: TokenizedText, place: int, beside: int) -> bool:
    """Return whether two neighboring words are parts of one number."""
    return 0 <= beside < len(reading.words) and reading.gap(min(place, beside)) in ("-", "/", "_", ".")


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _is_symbol(word: Word) -> bool:
    """Return whether a word is a listed symbol of a gene or antigen: ``MLH1``."""
    return word.text[:1].isalpha() and (word.folded in cues()["marker"] or word.folded in clinical_words())


def _with_loose(text: str, cuts: list[TextCut], loose: tuple[tuple[int, int], ...]) -> list[TextCut]:
    """Add the short numbers next to a cut: they may be part of a date or an address."""
    merged = _merged((cut.start, cut.end) for cut in cuts)
    more = []
    for start, end in loose:
        if _meets(start, end, merged):
            continue
        after = bisect_left(merged, (end, 0))
        beside = [text[merged[after - 1][1] : start]] if after else []
        beside += [text[end : merged[after][0]]] if after < len(merged) else []
        if any(len(gap) <= _NEAR and not any(char.isalnum() for char in gap) for gap in beside):
            more.append(TextCut(start, end, "number"))
    return sorted((*cuts, *more), key=lambda cut: (cut.start, cut.end)) if more else cuts


def _joined(text: str, cuts: list[TextCut]) -> str:
    """Remove the cuts from the text, with the brackets, dashes and spaces that would remain of them."""
    pieces, place = [], 0
    for cut in cuts:
        if cut.end <= place:
            continue
        pieces.append(text[place : max(place, cut.start)])
        pieces.append(_GAP)
        place = cut.end
    out = _GAPS.sub(lambda match: _spaced(match[0]), "".join(pieces) + text[place:])
    out = _WRAPPED.sub(_GAP, out)
    out = _BEFORE.sub(_GAP, out)
    out = _TAIL.sub(_GAP, out)
    out = _TWO_MARKS.sub(lambda match: match[1], out)
    out = _AT_START.sub("", out)
    out = _AT_END.sub("", out)
    out = re.sub(r"[ \t]*\0[ \t]*(?=[,;:.!?)\]、，。：؛،])", "", out)
    out = re.sub(r"[ \t]*\0+[ \t]*", " ", out)
    return re.sub(r" {2,}", " ", out).strip(" ")


def _spaced(gap: str) -> str:
    return " " * gap.startswith((" ", "\t")) + _GAP + " " * gap.endswith((" ", "\t"))


def _is_harmless(text: str, rule: str) -> bool:
    """Return whether a cut of a line in an image is OCR noise or a common image marker."""
    return _is_dirt(text, rule) or (rule in ("unknown-word", "doubtful-word") and is_image_marker(text))


def _short_names(text: str, cuts: Sequence[TextCut]) -> bool:
    """Return whether two unknown words of two letters are side by side, written as names: ``Li Wu``."""
    written = sorted(
        (cut.start, cut.end)
        for cut in cuts
        if cut.rule == "unknown-word" and _SHORT_NAME.fullmatch(text, cut.start, cut.end)
    )
    return any(_BESIDE.fullmatch(text, before[1], after[0]) for before, after in pairwise(written))


def _is_dirt(text: str, rule: str) -> bool:
    """Return whether a cut is one unknown character or two, as OCR reads specks."""
    return rule in ("unknown-word", "language", "sign") and len(text) <= _BARE_DIGITS - (rule == "language")
