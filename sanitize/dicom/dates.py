"""Dates: one shift per patient in whole days, or reduction to the year.

See PS3.15 E.3.6 (Retain Longitudinal Temporal Information, Modified Dates) and 45 CFR 164.514(b)(2)(i)(C).
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from medsanitize.policies.model import Dates
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac

# Days: at least about a month, at most five years.
_MIN_SHIFT_DAYS, _MAX_SHIFT_DAYS = 30, 1825
_DA = re.compile(r"(\d{4})([.\-/]?)(\d{2})\2(\d{2})")
_DT = re.compile(r"(\d{4})(\d{2})?(\d{2})?((?:\d{2}){0,3}(?:\.\d{1,6})?)([+-]\d{4})?")
# Second 60 is a leap second (PS3.5 6.2).
_TM = re.compile(r"(?:[01]\d|2[0-3])(?::?[0-5]\d(?::?(?:[0-5]\d|60)(?:\.\d{1,6})?)?)?")


def shift_days(keys: SubKeys, patient: str, dates: Dates) -> int:
    """Derive the date shift of a patient.

    Parameters
    ----------
    keys : SubKeys
    patient : str
        Canonical key of the patient.
    dates : Dates
        Section of the policy; with ``keep_weekday`` the shift is a multiple of seven.

    Returns
    -------
    int
        Days to add to every date: 30 to 1825 in either direction.
    """
    digest = keyed_mac(keys.dates, patient)
    # 64 bits: the bias of the modulo below is negligible.
    span = int.from_bytes(digest[:8], "big")
    sign = 1 if digest[8] & 1 else -1
    if dates.keep_weekday:
        first, last = -(-_MIN_SHIFT_DAYS // 7), _MAX_SHIFT_DAYS // 7
        return sign * 7 * (first + span % (last - first + 1))
    return sign * (_MIN_SHIFT_DAYS + span % (_MAX_SHIFT_DAYS - _MIN_SHIFT_DAYS + 1))


def _moved(year: int, month: int, day: int, days: int) -> date | None:
    try:
        return date(year, month, day) + timedelta(days=days)
    except (ValueError, OverflowError):
        return None


def shift_date(text: str, days: int) -> str | None:
    """Shift one DA value by ``days``; return ``None`` if it is malformed.

    ``YYYY-MM-DD``, ``YYYY/MM/DD`` and ``YYYY.MM.DD`` (of ACR-NEMA) are read as well and written as
    ``YYYYMMDD`` (PS3.5 6.2).
    """
    match = _DA.fullmatch(text.strip(" \0"))
    if not match:
        return None
    moved = _moved(int(match[1]), int(match[3]), int(match[4]), days)
    return f"{moved.year:04d}{moved.month:02d}{moved.day:02d}" if moved else None


def shift_datetime(text: str, days: int) -> str | None:
    """Shift one DT value by ``days`` and keep its precision, time of day and UTC offset (PS3.5 6.2).

    Returns ``None`` if the value is malformed.
    """
    match = _DT.fullmatch(text.strip(" \0"))
    if not match:
        return None
    year, month, day, rest, offset = match.groups()
    if (day is None and rest) or (rest and not is_time(rest)) or not _is_offset(offset):
        return None
    # A value without month or day is shifted from the middle of its year or month.
    moved = _moved(int(year), int(month or 7), int(day or (15 if month else 1)), days)
    if moved is None:
        return None
    out = f"{moved.year:04d}" + (f"{moved.month:02d}" if month else "") + (f"{moved.day:02d}" if day else "")
    return out + rest + (offset or "")


def _is_offset(offset: str | None) -> bool:
    """Whether an offset from UTC is between -1200 and +1400 (PS3.5 6.2)."""
    return not offset or (int(offset[3:]) < 60 and -1200 <= int(offset) <= 1400)


def is_date(text: str) -> bool:
    """Return whether a DA value is a valid date."""
    return shift_date(text, 0) is not None


def is_datetime(text: str) -> bool:
    """Return whether a DT value is valid, at any precision."""
    return shift_datetime(text, 0) is not None


def year_of_date(text: str) -> str | None:
    """Reduce a DA value to 1 January of its year; return ``None`` if it is malformed."""
    match = _DA.fullmatch(text.strip(" \0"))
    return f"{match[1]}0101" if match else None


def year_of_datetime(text: str) -> str | None:
    """Reduce a DT value to its year, a precision that DT allows; return ``None`` if it is malformed."""
    match = _DT.fullmatch(text.strip(" \0"))
    return match[1] if match else None


def is_time(text: str) -> bool:
    """Return whether a TM value is valid (PS3.5 6.2)."""
    return _TM.fullmatch(text.strip(" \0")) is not None
