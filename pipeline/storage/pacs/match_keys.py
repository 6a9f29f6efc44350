"""Check that a PACS matched the query keys: one that ignores a key returns everything."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Final
from unicodedata import combining, normalize

from pydicom.datadict import dictionary_VR

# Values of one study, series or instance by keyword; empty if the PACS returns none.
Answer = Mapping[str, tuple[str, ...]]


def first_ignored_key(keys: Mapping[str, str], answer: Answer) -> str | None:
    """Return the first keyword that an answer does not match, or None.

    The comparison follows PS3.4 C.2.2.2: person names by component, dates and times as ranges, everything
    else as a whole, with ``*`` and ``?``. Case and surrounding spaces are ignored. A value that cannot be
    compared does not match.
    """
    return next(
        (key for key, requested in keys.items() if not _matches(key, requested, answer.get(key, ()))), None
    )


def _matches(keyword: str, requested: str, values: tuple[str, ...]) -> bool:
    requested = requested.strip()
    if not requested.strip("*"):
        return True
    alike = _COMPARISONS.get(dictionary_VR(keyword), _matches_wildcards)
    return any(alike(requested, value.strip()) for value in values)


def _matches_wildcards(requested: str, value: str) -> bool:
    # fnmatch would read a bracket in the value as a character class.
    return fnmatchcase(value.casefold(), requested.casefold().replace("[", "[[]"))


def _date(requested: str, value: str) -> bool:
    first, dash, last = requested.partition("-")
    return value.isdecimal() and first <= value <= (last or ("99999999" if dash else first))


def _time(requested: str, value: str) -> bool:
    """Compare times; a partial time is its whole interval: 1030 is that minute, also as end of a range."""
    first, dash, last = requested.partition("-")
    have, low, high = _digits(value), _digits(first), _digits(last if dash else first)
    if not have or low is None or high is None:
        return False
    return low.ljust(_DIGITS, "0") <= have.ljust(_DIGITS, "0") <= high.ljust(_DIGITS, "9")


def _digits(time: str) -> str | None:
    """Return the digits of a time (an old one has colons), or None if the text is not a time."""
    found = _TIME.fullmatch(time.strip())
    return None if found is None else "".join(part or "" for part in found.groups())


def _person_name(requested: str, value: str) -> bool:
    """Compare person names; one requested representation may match any of the answer's three."""
    wanted, given = requested.split("="), value.split("=")
    if len(wanted) == 1:
        return any(_person(requested, one) for one in given)
    pairs = [(one, other) for one, other in zip_longest(wanted, given, fillvalue="") if one]
    return bool(pairs) and all(_person(one, other) for one, other in pairs)


def _person(requested: str, value: str) -> bool:
    """Compare one representation by component; the answer may have more, and a wildcard may span several."""
    wanted, given = (_components(one) for one in (requested, value))
    each = len(given) >= len(wanted) and all(
        _matches_wildcards(*pair) for pair in zip(wanted, given, strict=False)
    )
    return each or _matches_wildcards("^".join(wanted), "^".join(given))


def _components(name: str) -> list[str]:
    """Split a name into components without accents; peers may ignore accents in names as they ignore case."""
    plain = (one for one in normalize("NFKD", name) if not combining(one))
    return [one.strip() for one in "".join(plain).rstrip("^ ").split("^")]


_COMPARISONS: Final[Mapping[str, Callable[[str, str], bool]]] = {"DA": _date, "TM": _time, "PN": _person_name}
_TIME: Final = re.compile(r"(?:(\d{2})(?::?(\d{2})(?::?(\d{2})(?:\.(\d{1,6}))?)?)?)?", re.ASCII)
_DIGITS: Final = 12
