"""Dates: one whole-day shift per patient, or the year alone (PS3.15 E.3.6; 45 CFR 164.514(b)(2)(i)(C))."""

from __future__ import annotations

import re
from datetime import date, timedelta

from medsanitize.policies.model import Dates
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac

_SHORTEST, _LONGEST = 30, 1825
_DA = re.compile(r"(\d{4})([.\-/]?)(\d{2})\2(\d{2})")
_DT = re.compile(r"(\d{4})(\d{2})?(\d{2})?((?:\d{2}){0,3}(?:\.\d{1,6})?)([+-]\d{4})?")
_TM = re.compile(r"(?:[01]\d|2[0-3])(?::?[0-5]\d(?::?(?:[0-5]\d|60)(?:\.\d{1,6})?)?)?")


def shift_days(keys: SubKeys, patient: str, dates: Dates) -> int:
    """Days added to every date of one patient: 30 to 1825 either way, never 0.

    Under ``keep_weekday`` the shift is a multiple of seven.
    """
    digest = keyed_mac(keys.dates, patient)
    span = int.from_bytes(digest[:8], "big")
    sign = 1 if digest[8] & 1 else -1
    if dates.keep_weekday:
        first, last = -(-_SHORTEST // 7), _LONGEST // 7
        return sign * 7 * (first + span % (last - first + 1))
    return sign * (_SHORTEST + span % (_LONGEST - _SHORTEST + 1))


def _moved(year: int, month: int, day: int, days: int) -> date | None:
    try:
        return date(year, month, day) + timedelta(days=days)
    except (ValueError, OverflowError):
        return None


def shift_date(text: str, days: int) -> str | None:
    """One DA value moved by ``days``; ``None`` when no safe reading exists.

    ``YYYY-MM-DD`` and the old ``YYYY.MM.DD`` are read as well and written as ``YYYYMMDD``.
    """
    match = _DA.fullmatch(text.strip(" \0"))
    if not match:
        return None
    moved = _moved(int(match[1]), int(match[3]), int(match[4]), days)
    return f"{moved.year:04d}{moved.month:02d}{moved.day:02d}" if moved else None


def shift_datetime(text: str, days: int) -> str | None:
    """One DT value moved by ``days`` at its own precision; time of day and offset stay."""
    match = _DT.fullmatch(text.strip(" \0"))
    if not match:
        return None
    year, month, day, rest, offset = match.groups()
    if (day is None and rest) or (rest and not is_time(rest)) or not _is_offset(offset):
        return None
    moved = _moved(int(year), int(month or 7), int(day or (15 if month else 1)), days)
    if moved is None:
        return None
    out = f"{moved.year:04d}" + (f"{moved.month:02d}" if month else "") + (f"{moved.day:02d}" if day else "")
    return out + rest + (offset or "")


def _is_offset(offset: str | None) -> bool:
    """Offsets from UTC run from -1200 to +1400 (PS3.5 6.2)."""
    return not offset or (int(offset[3:]) < 60 and -1200 <= int(offset) <= 1400)


def is_date(text: str) -> bool:
    """Whether a DA value names a day."""
    return shift_date(text, 0) is not None


def is_datetime(text: str) -> bool:
    """Whether a DT value is well formed at some precision."""
    return shift_datetime(text, 0) is not None


def year_of_date(text: str) -> str | None:
    """A DA value reduced to 1 January of its year."""
    match = _DA.fullmatch(text.strip(" \0"))
    return f"{match[1]}0101" if match else None


def year_of_datetime(text: str) -> str | None:
    """A DT value reduced to its year, a precision that DT allows."""
    match = _DT.fullmatch(text.strip(" \0"))
    return match[1] if match else None


def is_time(text: str) -> bool:
    """Whether a TM value is well formed (PS3.5 6.2)."""
    return _TM.fullmatch(text.strip(" \0")) is not None
