"""Free text cleaned: identifiers are cut, clinical words stay.

Three layers, in this order: what the patient and study are known to be called; recognisers of what
identifies by its shape; names by their cues and a language model. What then is in no vocabulary goes too: an
unknown word may be somebody's name. The second and third layer see the text alone, so a text is
read once; the model is loaded for the first text with a word that only it can settle.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from sys import maxsize

from medsanitize.policies.model import TextSection
from medsanitize.sanitize.text.classify_words import classify_words
from medsanitize.sanitize.text.image_markers import is_image_marker
from medsanitize.sanitize.text.known_identifiers import KnownTerms, TextCut, find_known_identifiers
from medsanitize.sanitize.text.lexicon import WordKind
from medsanitize.sanitize.text.measurements import find_quantities
from medsanitize.sanitize.text.ner import EntityFinder
from medsanitize.sanitize.text.recognizers import PatternMatch, extend_to_words, find_patterns
from medsanitize.sanitize.text.tokens import TokenizedText, tokenize
from medsanitize.sanitize.text.vocabulary_filter import is_named, paired

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\u0080-\u009f\u200b-\u200f\u2028-\u202f\ufeff\ufffd]")
_STRANGE = re.compile(
    r"[^\w\s\x00-\x7f°²³µ×±·½¼¾‐-―‘’‚“”„«»‹›…•≤≥≈→←¿¡ªº‰]|[°²³µ×±·½¼¾ªº‰«»¿¡]{2,}|(?<![\d\w ])[°±×·½¼¾]"
)
_FOREIGN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
_REMEMBERED = 65536
_LONGEST_REMEMBERED = 1024
_MOST_PASSES = 12
_BARE_DIGITS = 2
_OCR_DIGITS = 3
_FEW_WORDS = 4
_NEAR = 3
_GAP = "\0"
_GAPS = re.compile(r"[ \t]*\0(?:[\s,;:/&+^_.'’`´\"()\[\]<>*#=|@-]*\0)*[ \t]*")
_WRAPPED = re.compile(r"[(\[{<\"“„]\s*\0\s*[)\]}>\"”“]")
_BEFORE = re.compile(r"[(\[{<\"“„+#*@~?]+\0")
_TAIL = re.compile(r"\0(?:['’`´]s(?![^\W_]))?[\"”)\]}>*]*")
_TWO_MARKS = re.compile(r"([ \t]*[-–,;/&+_^|]+[ \t]*)\0([ \t]*[-–,;/&+_^|]+[ \t]*)")
_AT_START = re.compile(r"(?m)^[ \t]*\0[ \t,;:/&+^_.)\]|-]*")
_AT_END = re.compile(r"(?m)[ \t,;/&+^_(\[|-]*\0[ \t]*$")


@dataclass(frozen=True, slots=True)
class CleanedText:
    """A text after cleaning, the rules that cut something from it, and whether a person should look at it."""

    text: str
    rules: tuple[str, ...] = ()
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class _Analysis:
    """What the second and third layer say of a text: cuts, and short numbers that go beside a cut."""

    cuts: tuple[TextCut, ...]
    loose: tuple[tuple[int, int], ...]
    words: int
    doubtful: bool


class TextCleaner:
    """The cleaner of one policy; it holds nothing but the model and a memory of texts.

    Parameters
    ----------
    rules : TextRules
        The policy's section ``text``: model and patterns. Which action an attribute gets is the caller's.
    """

    def __init__(self, rules: TextSection) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in rules.patterns)
        self._entities = EntityFinder(rules.model)
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._analyse)

    def clean(self, text: str, terms: KnownTerms) -> CleanedText:
        """Cut what identifies from ``text`` and keep the rest.

        Parameters
        ----------
        text : str
            One value; texts of several values are cleaned value by value.
        terms : Terms
            What the patient and study are known to be called.

        Returns
        -------
        Cleaned
            Its text is never longer than ``text``, and cleaning it again changes nothing.
        """
        rules: list[str] = []
        doubtful, before = False, text
        for _ in range(_MOST_PASSES):
            shorter, why, unsure = self._once(text, terms)
            rules += why
            doubtful = doubtful or unsure
            if shorter == text:
                break
            text = shorter
        else:
            text = ""
        if len(text) > len(before):
            text = ""
        return CleanedText(text, tuple(dict.fromkeys(rules)), doubtful)

    def identifying(self, text: str, terms: KnownTerms, *, noisy: bool) -> bool:
        """Whether a line of text, as read from an image, could identify somebody.

        Parameters
        ----------
        noisy : bool
            The line was read by a machine: single odd characters are dirt, not names.

        Returns
        -------
        bool
            False only if every word is ordinary, clinical, technical or a quantity and no layer claims any.
        """
        if find_known_identifiers(text, terms) or is_named(text, terms.ban):
            return True
        return any(
            not (noisy and _is_harmless(text[cut.start : cut.end], cut.rule)) for cut in self._judged(text)
        )

    def _judged(self, text: str) -> Iterator[TextCut]:
        """Cuts of a line of an image: three digits may stand there, a doubtful word may not."""
        reading, spans, quantified = self._read(text)
        yield from spans
        classify_words(reading)
        yield from _cuts_of(reading)
        for place in reading.open:
            if reading.words[place].kind is WordKind.DOUBTFUL:
                yield TextCut(reading.words[place].start, reading.words[place].end, "doubtful-word")
        for word in reading.words:
            if word.kind is WordKind.INSTITUTION or (
                word.kind is WordKind.NUMBER
                and len(word.text) > _OCR_DIGITS
                and not _inside(word.start, word.end, quantified)
            ):
                yield TextCut(word.start, word.end, "number")

    def _once(self, text: str, terms: KnownTerms) -> tuple[str, list[str], bool]:
        text, rules = _plain(text)
        analysis = self._remembered(text) if len(text) <= _LONGEST_REMEMBERED else self._analyse(text)
        known = find_known_identifiers(text, terms)
        if not known and not analysis.cuts:
            return text, rules, False
        cuts = sorted((*known, *analysis.cuts), key=lambda cut: (cut.start, cut.end))
        cuts = _with_loose(text, cuts, analysis.loose)
        shorter = _joined(text, cuts)
        left = sum(1 for _ in re.finditer(r"[^\W_]+", shorter))
        most_gone = analysis.words >= _FEW_WORDS and left * 2 < analysis.words
        return shorter, [*rules, *dict.fromkeys(cut.rule for cut in cuts)], analysis.doubtful or most_gone

    def _read(self, text: str) -> tuple[TokenizedText, list[TextCut], list[tuple[int, int]]]:
        spans = (
            [TextCut(one.start, one.end, one.rule) for one in find_patterns(text)] if _may_claim(text) else []
        )
        for pattern in self._patterns:
            spans += [TextCut(*match.span(), "pattern") for match in pattern.finditer(text) if match[0]]
        quantified = _merged(find_quantities(text)) if any(char.isdigit() for char in text) else []
        reading = tokenize(text)
        claimed = _merged((cut.start, cut.end) for cut in spans)
        for place, word in enumerate(reading.words):
            if _meets(word.start, word.end, claimed):
                reading.cut[place] = "recognised"
            elif word.kind is WordKind.UNKNOWN and _inside(word.start, word.end, quantified):
                reading.words[place] = replace(word, kind=WordKind.TERM)
        return reading, spans, quantified

    def _analyse(self, text: str) -> _Analysis:
        reading, spans, quantified = self._read(text)
        classify_words(reading)
        cuts = [*spans, *_cuts_of(reading), *_numbers(reading, quantified), *_codes(reading, quantified)]
        named = list(self._named(reading)) if reading.open else []
        loose = tuple(
            (word.start, word.end)
            for word in reading.words
            if word.kind is WordKind.NUMBER and not _inside(word.start, word.end, quantified)
        )
        return _Analysis(tuple(cuts + named), loose, len(reading.words), bool(named))

    def _named(self, reading: TokenizedText) -> Iterator[TextCut]:
        """Open words that the model calls a name, as they are written or, in capitals, as a sentence."""
        texts = [reading.text]
        if reading.capitals:
            texts += [reading.text.title(), reading.text.capitalize()]
        for text in texts:
            if len(text) != len(reading.text):
                continue
            for entity in self._entities(text):
                inside = [
                    place
                    for place, word in enumerate(reading.words)
                    if entity.start < word.end and word.start < entity.end
                ]
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
    """Take out control characters and signs no text needs: they could be bytes of another character set."""
    cleaned = _STRANGE.sub(" ", _CONTROL.sub(" ", text))
    if cleaned == text:
        return text, []
    return re.sub(r" {2,}", " ", cleaned).strip(" "), ["language" if _FOREIGN.search(text) else "sign"]


def _may_claim(text: str) -> bool:
    return not text.isalpha()


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, overlapping ones made one."""
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


def _cuts_of(reading: TokenizedText) -> Iterator[TextCut]:
    for place, rule in reading.cut.items():
        if rule != "recognised":
            word = reading.words[place]
            foreign = rule == "unknown-word" and _FOREIGN.search(word.text)
            yield TextCut(word.start, word.end, "language" if foreign else rule)


def _numbers(reading: TokenizedText, quantified: list[tuple[int, int]]) -> Iterator[TextCut]:
    """Runs of three digits and more with nothing that says what they count."""
    for place, word in enumerate(reading.words):
        long = word.kind is WordKind.NUMBER and len(word.text) > _BARE_DIGITS
        if long and place not in reading.cut and not _inside(word.start, word.end, quantified):
            number = extend_to_words(reading.text, PatternMatch(word.start, word.end, "bare-number"))
            yield TextCut(number.start, number.end, number.rule)


def _codes(reading: TokenizedText, quantified: list[tuple[int, int]]) -> Iterator[TextCut]:
    """Letters and digits beside another such word or beside a number that went, as in record numbers."""
    flags = paired([word.text for word in reading.words])
    for place, word in enumerate(reading.words):
        if place not in reading.cut and flags[place] and not _inside(word.start, word.end, quantified):
            yield TextCut(word.start, word.end, "number")


def _with_loose(text: str, cuts: list[TextCut], loose: tuple[tuple[int, int], ...]) -> list[TextCut]:
    """Short bare numbers straight beside a cut go with it: they may be a part of a date or an address."""
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
    """The text without its cuts, and without the brackets, dashes and spaces that they leave behind."""
    pieces, place = [], 0
    for cut in cuts:
        if cut.end <= place:
            continue
        pieces.append(text[place : max(place, cut.start)])
        pieces.append(_GAP)
        place = cut.end
    out = _GAP.join(("".join(pieces) + text[place:]).split(_GAP))
    out = _GAPS.sub(lambda match: _spaced(match[0]), out)
    out = _WRAPPED.sub(_GAP, out)
    out = _BEFORE.sub(_GAP, out)
    out = _TAIL.sub(_GAP, out)
    out = _TWO_MARKS.sub(lambda match: match[1], out)
    out = _AT_START.sub("", out)
    out = _AT_END.sub("", out)
    out = re.sub(r"[ \t]*\0[ \t]*(?=[,;:.!?)\]])", "", out)
    out = re.sub(r"[ \t]*\0+[ \t]*", " ", out)
    return re.sub(r" {2,}", " ", out).strip(" ")


def _spaced(gap: str) -> str:
    return " " * gap.startswith((" ", "\t")) + _GAP + " " * gap.endswith((" ", "\t"))


def _is_harmless(text: str, rule: str) -> bool:
    """What stands in images and names nobody, unless the patient or another word of the line says so."""
    return _is_dirt(text, rule) or (rule in ("unknown-word", "doubtful-word") and is_image_marker(text))


def _is_dirt(text: str, rule: str) -> bool:
    """What a reader of images makes of a speck: one odd character, or two that are no word."""
    return rule in ("unknown-word", "language", "sign") and len(text) <= _BARE_DIGITS - (rule == "language")
