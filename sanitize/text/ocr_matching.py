"""Search for known identifiers in OCR text: look-alike characters, lost spaces, a few wrong letters.

Text and known values are reduced to skeletons in which look-alike characters are equal. A known value is then
searched with a number of errors that depends on its length. Of its pieces, one more than errors, at least one
must occur without an error, and what is before and after it with no more errors than are allowed (Navarro
2001, section 8); an index of the pieces makes the search fast for thousands of values.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Final

from medsanitize.policies.tables.vocabulary import words as vocabulary
from medsanitize.sanitize.text.date_patterns import Day, dates_in
from medsanitize.sanitize.text.folding import fold_letters
from medsanitize.sanitize.text.match_context import TextCut
from medsanitize.sanitize.text.name_variants import IdentifierForm

_ALIKE: Final = {**dict.fromkeys("1i|!ı", "l"), **dict.fromkeys("68", "b"), **dict.fromkeys("9q", "g")} | {
    "0": "o",
    "5": "s",
    "$": "s",
    "2": "z",
}
_PAIRS: Final = {"rn": "m", "vv": "w", "cl": "d"}
_DIGIT_OF: Final = str.maketrans("OoQDIl|!SsBZz", "0000111155822")
_LIKE_DIGITS: Final = r"[\dOoQDIl|!SsBZz]"
_DATE_LIKE: Final = re.compile(
    rf"(?<![^\W_]){_LIKE_DIGITS}++(?:[.,\-/ ]{{1,2}}+{_LIKE_DIGITS}++)*+(?![^\W_])"
)
_WORD: Final = re.compile(r"[^\W_]+")
_LEAST_WORD: Final = 4
_LEAST_CODE: Final = 5
_ANYWHERE: Final = 7
_LEFT_OVER: Final = 1
_SHORTEST: Final = 3
# OCR returns lines: the limit only bounds the time of the search.
_LONGEST_TEXT: Final = 4096


@dataclass(frozen=True, slots=True, repr=False)
class Skeleton:
    """A known value in reduced form.

    Attributes
    ----------
    key : str
        The reduced value.
    errors : int
        Greatest number of edits.
    pieces : tuple of str
        ``errors + 1`` parts of ``key``: at least one of them is free of errors.
    number : bool
        Whether the value is a number or code, not a word.
    rule : str
        Rule of the cut.
    """

    key: str
    errors: int
    pieces: tuple[str, ...]
    number: bool
    rule: str

    def __repr__(self) -> str:
        return f"Skeleton({self.rule})"


@dataclass(frozen=True, slots=True, repr=False)
class SkeletonIndex:
    """Known values in reduced form, indexed by their pieces; the repr shows none.

    Attributes
    ----------
    known : tuple of Skeleton
    pieces : dict of str to tuple of (int, int)
        Piece -> places in ``known``, and where the piece begins in the key.
    lengths : tuple of int
        Lengths of the pieces.
    """

    known: tuple[Skeleton, ...]
    pieces: dict[str, tuple[tuple[int, int], ...]]
    lengths: tuple[int, ...]

    def __repr__(self) -> str:
        return "SkeletonIndex(...)"

    def occurring(self, reduced: str) -> list[Skeleton]:
        """Return the values of which a part of a reduced text differs by no more than their errors."""
        found: set[int] = set()
        for length in self.lengths:
            for place in range(len(reduced) - length + 1):
                for number, begin in self.pieces.get(reduced[place : place + length], ()):
                    if number not in found and _fits(self.known[number], begin, length, reduced, place):
                        found.add(number)
        return [self.known[number] for number in sorted(found)]


def index_skeletons(known: Iterable[Skeleton]) -> SkeletonIndex:
    """Index values for `find_ocr_variants`."""
    listed = tuple(known)
    pieces: dict[str, list[tuple[int, int]]] = {}
    for number, one in enumerate(listed):
        begin = 0
        for piece in one.pieces:
            pieces.setdefault(piece, []).append((number, begin))
            begin += len(piece)
    lengths = tuple(sorted({len(piece) for piece in pieces}))
    return SkeletonIndex(listed, {piece: tuple(places) for piece, places in pieces.items()}, lengths)


def build_skeletons(forms: Iterable[IdentifierForm]) -> tuple[Skeleton, ...]:
    """Reduce the forms that are long enough to be recognized in OCR text."""
    made: dict[tuple[str, bool], Skeleton] = {}
    for form in forms:
        number = form.shape in ("digits", "code")
        key = _reduced(form.key)[0]
        if form.shape != "syllables" and len(key) >= (_LEAST_CODE if number else _LEAST_WORD):
            errors = _errors(len(key), number)
            made.setdefault((key, number), Skeleton(key, errors, _pieces(key, errors), number, form.rule))
    return tuple(made.values())


def find_ocr_variants(text: str, known: SkeletonIndex, dates: frozenset[Day]) -> Iterator[TextCut]:
    """Yield the parts of a line of OCR text that may be known values.

    Parameters
    ----------
    text : str
    known : SkeletonIndex
    dates : frozenset of (int, int, int)
        Known dates: year, month and day.

    Yields
    ------
    TextCut
        In no order; cuts may overlap.
    """
    text = text[:_LONGEST_TEXT]
    words = [found.span() for found in _WORD.finditer(text)]
    reduced, starts, ends = _reduced(text)
    for one in known.occurring(reduced):
        for start, end, errors in _approximate(one.key, reduced, one.errors):
            cut = _accepted(text, words, one, (starts[start], ends[end - 1]), errors)
            if cut:
                yield cut
    for found in _DATE_LIKE.finditer(text):
        digits = found[0].translate(_DIGIT_OF)
        for start, end in dates_in(digits, dates, ()):
            yield TextCut(found.start() + start, found.start() + end, "known-date")


def skeleton_of(text: str) -> str:
    """Return a text reduced to letters and digits of which look-alikes are equal.

    Examples
    --------
    >>> skeleton_of("GAlN 10") == skeleton_of("gain l0")
    True
    """
    return _reduced(text)[0]


def _errors(size: int, number: bool) -> int:
    # Fewer for numbers: any digit may follow another, so that wrong ones match by chance more often.
    if number:
        return 0 if size < 6 else 1 if size < 9 else 2
    return 0 if size < 5 else 1 if size < 9 else 2 if size < 13 else 3


def _pieces(key: str, errors: int) -> tuple[str, ...]:
    cuts = [len(key) * number // (errors + 1) for number in range(errors + 2)]
    return tuple(key[low:high] for low, high in pairwise(cuts))


def _reduced(text: str) -> tuple[str, list[int], list[int]]:
    """Return the skeleton of a text and, per character of it, start and end in the text."""
    made: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for place, char in enumerate(text):
        # A sign such as "|" is a misread letter only if it touches a letter or digit.
        lone = not char.isalnum() and not (
            text[place - 1 : place].isalnum() or text[place + 1 : place + 2].isalnum()
        )
        letters = "" if lone else _ALIKE.get(char.lower()) or fold_letters(char)
        for letter in letters:
            one = _ALIKE.get(letter, letter)
            pair = _PAIRS.get(made[-1] + one) if made and ends[-1] == place else None
            if pair:
                made[-1], ends[-1] = pair, place + 1
            else:
                made.append(one)
                starts.append(place)
                ends.append(place + 1)
    return "".join(made), starts, ends


def _fits(one: Skeleton, begin: int, length: int, text: str, place: int) -> bool:
    """Whether the rest of a value may be around a piece of it that begins at ``place`` of a text."""
    key, most = one.key, one.errors
    before = text[max(0, place - begin - most) : place]
    errors = _least_errors(key[:begin][::-1], before[::-1], most)
    if errors > most:
        return False
    after = key[begin + length :]
    rest = text[place + length : place + length + len(after) + most]
    return errors + _least_errors(after, rest, most - errors) <= most


def _least_errors(part: str, text: str, most: int) -> int:
    """Least edits between a part of a key and any beginning of a text; over ``most`` if there are more."""
    if text.startswith(part):
        return 0
    last = list(range(len(text) + 1))
    for row, char in enumerate(part, 1):
        line = [row]
        for column, against in enumerate(text):
            line.append(min(last[column] + (char != against), last[column + 1] + 1, line[-1] + 1))
        if min(line) > most:
            return most + 1
        last = line
    return min(last)


def _approximate(key: str, text: str, errors: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and edits of the best matches of ``key``, with at most ``errors`` edits (Sellers)."""
    if not errors:
        start = text.find(key)
        while start >= 0:
            yield start, start + len(key), 0
            start = text.find(key, start + 1)
        return
    costs = list(range(len(key) + 1))
    begins = [0] * (len(key) + 1)
    best: tuple[int, int, int] | None = None
    for place, char in enumerate(text, 1):
        corner, corner_begin = costs[0], begins[0]
        costs[0], begins[0] = 0, place
        for row, against in enumerate(key, 1):
            change, begin = corner + (char != against), corner_begin
            corner, corner_begin = costs[row], begins[row]
            if corner + 1 < change:
                change, begin = corner + 1, corner_begin
            if costs[row - 1] + 1 < change:
                change, begin = costs[row - 1] + 1, begins[row - 1]
            costs[row], begins[row] = change, begin
        if costs[-1] <= errors:
            if best is None or costs[-1] < best[2]:
                best = begins[-1], place, costs[-1]
        elif best:
            yield best
            best = None
    if best:
        yield best


def _accepted(
    text: str, words: list[tuple[int, int]], one: Skeleton, span: tuple[int, int], errors: int
) -> TextCut | None:
    """Return the cut for a match, None if it is an ordinary word or only part of one."""
    start, end = span
    begins = not text[start - 1 : start].isalnum()
    cancellation = not text[end : end + 1].isalnum()
    if one.number:
        digits = sum(map(str.isdigit, text[start:end]))
        # OCR loses spaces: a long number may have lost one of its boundaries.
        good = (begins and cancellation) or (len(one.key) >= _ANYWHERE and (begins or cancellation))
        return TextCut(start, end, one.rule) if good and 2 * digits >= len(one.key) else None
    if begins and cancellation and not errors:
        return TextCut(start, end, one.rule)
    first = bisect_left(words, start, key=itemgetter(1))
    touched = [word for word in words[first : bisect_left(words, end, key=itemgetter(0))] if word[1] > start]
    if not touched:
        return None
    low, high = touched[0][0], touched[-1][1]
    over = start - low + high - end
    if len(one.key) <= _LEAST_WORD or (over > _LEFT_OVER and len(one.key) < _ANYWHERE):
        return None
    if all(_is_ordinary(fold_letters(text[low:high])) for low, high in touched):
        return None
    return TextCut(low, high, one.rule) if over <= _LEFT_OVER else TextCut(start, end, one.rule)


def _is_ordinary(word: str) -> bool:
    return len(word) < _SHORTEST or word in vocabulary()
