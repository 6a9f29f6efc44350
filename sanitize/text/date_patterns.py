"""Search for known calendar dates in a text, in the forms used by persons and systems."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from medsanitize.sanitize.text.folding import fold_letters

Day = tuple[int, int, int]
"""Year, month, day of the month."""

# In European languages, folded as by `fold_letters`: without accents.
_MONTHS: Final = (
    "january jan januar janvier janv enero ene gennaio gen janeiro januari styczen stycznia leden ledna ocak",
    "february feb februar fevrier fevr fev febrero febbraio febr fevereiro februari luty lutego unor unora "
    "subat",
    "march mar marz maerz mars marzo marco maart mrt mrz marzec marca brezen brezna mart",
    "april apr avril avr abril abr aprile kwiecien kwietnia duben dubna nisan",
    "may mai mayo maggio mag maio mei maj maja kveten kvetna mayis",
    "june jun juni juin junio giugno giu junho czerwiec czerwca cerven cervna haziran",
    "july jul juli juillet juil julio luglio lug julho lipiec lipca cervenec cervence temmuz",
    "august aug aout agosto ago augustus augusti sierpien sierpnia srpen srpna agustos",
    "september sep sept septembre septiembre settembre set setembro wrzesien wrzesnia zari eylul",
    "october oct oktober okt octobre octubre ottobre ott outubro out pazdziernik pazdziernika rijen rijna "
    "ekim",
    "november nov novembre noviembre novembro listopad listopada listopadu kasim",
    "december dec dezember dez decembre diciembre dic dicembre dezembro desember grudzien grudnia prosinec "
    "prosince aralik des",
)
_MONTH: Final = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTHS_AT_ALL: Final = frozenset(_MONTH)
_DIGIT: Final = re.compile(r"\d")
_LONGEST_MONTH: Final = max(map(len, _MONTH)) + 2

_RUN: Final = re.compile(r"(?<!\d)(?:(\d{8})(?:\d{4}(?:\d\d)?)?+|(\d{6}))(?!\d)")
_PARTS: Final = re.compile(
    r"(?<!\d)(\d{1,4})([.,\-/ _:]{1,2}+|\s?[年년]\s?)(\d{1,2})([.,\-/ _:]{1,2}+|\s?[月월]\s?)"
    r"(\d{4}|\d{1,2})(?!\d)(?:\s?[日일])?+"
)
_GAP: Final = r"[\s.,\-/_]{0,3}+(?:de\s|del\s|of\s|den\s)?+"
_DAY: Final = r"(\d{1,2})(?:st|nd|rd|th|er|re|ème|eme|º|ª|°|:a|:e)?+"
_NAME: Final = r"([^\W\d_]{3,12}+)"
_YEAR: Final = r"'?(\d{4}|\d\d)(?!\d)"
_DAY_FIRST: Final = re.compile(rf"(?<!\d){_DAY}{_GAP}{_NAME}(?:{_GAP}{_YEAR})?", re.IGNORECASE)
_MONTH_FIRST: Final = re.compile(
    rf"(?<![^\W\d_]){_NAME}{_GAP}(?<!\d){_DAY}(?!\d)(?:{_GAP}{_YEAR})?", re.IGNORECASE
)
_YEAR_FIRST: Final = re.compile(rf"(?<!\d)(\d{{4}}){_GAP}{_NAME}{_GAP}(\d{{1,2}})(?!\d)", re.IGNORECASE)


def calendar_day(value: str) -> Day | None:
    """Parse the date of a DA or DT value (PS3.5 section 6.2).

    Returns
    -------
    Day or None
        Year, month and day; None if the value is not a full date.
    """
    digits = value.replace(".", "").replace("-", "")[:8]
    if len(digits) != 8 or not (digits.isascii() and digits.isdigit()):
        return None
    day = int(digits[:4]), int(digits[4:6]), int(digits[6:])
    return day if 1 <= day[1] <= 12 and 1 <= day[2] <= 31 else None


def dates_in(text: str, known: frozenset[Day], words: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text that may be one of the known days.

    An ambiguous form (01/02/2004, 04-01-19) counts if one of its readings is known. If the month is a word,
    day and month count without a year.

    Parameters
    ----------
    text : str
    known : frozenset of (int, int, int)
        Year, month and day.
    words : collection of str
        Folded words of the text; month names are searched only if one of them is a month.

    Yields
    ------
    tuple of (int, int)
        Half-open span.
    """
    if not known or not _DIGIT.search(text):
        return
    for found in _RUN.finditer(text):
        if not known.isdisjoint(_run(found[1] or found[2])):
            yield found.span()
    for found in _PARTS.finditer(text):
        # "T1 2 3 2004": a number after a letter belongs to the letter, not to a date with spaces.
        glued = text[max(0, found.start() - 1) : found.start()].isalpha() and found[2].isspace()
        if not glued and not known.isdisjoint(_readings(found[1], found[3], found[5])):
            yield found.span()
    if not _MONTHS_AT_ALL.isdisjoint(words):
        yield from _named(text, known)


def _run(digits: str) -> Iterator[Day]:
    if len(digits) == 8:
        yield int(digits[:4]), int(digits[4:6]), int(digits[6:])
        yield int(digits[4:]), int(digits[2:4]), int(digits[:2])
        yield int(digits[4:]), int(digits[:2]), int(digits[2:4])
    else:
        yield from _readings(digits[:2], digits[2:4], digits[4:])


def _readings(first: str, second: str, third: str) -> Iterator[Day]:
    a, b, c = int(first), int(second), int(third)
    if len(first) > 2:
        yield from ((a, b, c), (a, c, b))
        return
    if len(third) >= 2:
        for year in _years(third):
            yield from ((year, b, a), (year, a, b))
    if len(first) == 2 and len(third) <= 2:
        for year in _years(first):
            yield (year, b, c)


def _years(text: str) -> tuple[int, ...]:
    year = int(text)
    # Two digits may be either century: patients are born in both.
    return (year,) if len(text) == 4 else (1900 + year, 2000 + year)


def _named(text: str, known: frozenset[Day]) -> Iterator[tuple[int, int]]:
    for pattern, day, month, year in (
        (_DAY_FIRST, 1, 2, 3),
        (_MONTH_FIRST, 2, 1, 3),
        (_YEAR_FIRST, 3, 2, 1),
    ):
        for found in pattern.finditer(text):
            number = _month(found[month])
            if number and _is_known(int(found[day]), number, found[year] or "", known):
                yield found.span()


def _month(word: str) -> int:
    return _MONTH.get(fold_letters(word), 0) if len(word) <= _LONGEST_MONTH else 0


def _is_known(day: int, month: int, year: str, known: frozenset[Day]) -> bool:
    years = _years(year) if year else ()
    return any(month == one[1] and day == one[2] and (not years or one[0] in years) for one in known)
