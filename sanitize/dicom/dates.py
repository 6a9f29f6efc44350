"""Dates and times of day: one shift per patient, or reduction of dates to the year.

The shift has whole days, and whole seconds if the policy shifts times of day as well. All values of a
patient move by the same amount, so that every interval is kept; fractions of a second do not change. A
constant that is added to local times is added to the instants as well, whatever their offset from UTC:
offsets are kept.

See PS3.15 E.3.6 (Retain Longitudinal Temporal Information, Modified Dates) and 45 CFR 164.514(b)(2)(i)(C).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from medsanitize.policies.model import Dates
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac

# Days: at least about a month, at most five years.
_MIN_SHIFT_DAYS, _MAX_SHIFT_DAYS = 30, 1825
# Seconds: at least an hour, so that a time stated by its hour changes too, and less than a day, so that a
# date without a time of day moves by the days alone.
_MIN_SHIFT_SECONDS, _SECONDS_A_DAY = 3600, 86_400
_DA = re.compile(r"(\d{4})([.\-/]?)(\d{2})\2(\d{2})")
_DT = re.compile(r"(\d{4})(\d{2})?(\d{2})?((?:\d{2}){0,3}(?:\.\d{1,6})?)([+-]\d{4})?")
# Second 60 is a leap second (PS3.5 6.2).
_TM = re.compile(r"([01]\d|2[0-3])(?::?([0-5]\d)(?::?([0-5]\d|60)(\.\d{1,6})?)?)?")


@dataclass(frozen=True, slots=True, repr=False)
class Shift:
    """The secret amount by which all dates and times of a patient move.

    Attributes
    ----------
    days : int
        Whole days, in either direction.
    seconds : int
        Seconds that are added to the days, below one day; 0 if times of day do not move.
    """

    days: int
    seconds: int = 0

    # One true date of the patient and the shift give all others.
    def __repr__(self) -> str:
        return "Shift(...)"


def patient_shift(keys: SubKeys, patient: str, dates: Dates) -> Shift:
    """Derive the shift of a patient.

    Parameters
    ----------
    keys : SubKeys
    patient : str
        Canonical key of the patient.
    dates : Dates
        Section of the policy; with ``keep_weekday`` the days are a multiple of seven.

    Returns
    -------
    Shift
        30 to 1825 days in either direction and, with ``times: shift``, one hour to one day more.
    """
    digest = keyed_mac(keys.dates, patient)
    # 64 bits: the bias of the modulo below is negligible.
    span = int.from_bytes(digest[:8], "big")
    sign = 1 if digest[8] & 1 else -1
    if dates.keep_weekday:
        first, last = -(-_MIN_SHIFT_DAYS // 7), _MAX_SHIFT_DAYS // 7
        days = sign * 7 * (first + span % (last - first + 1))
    else:
        days = sign * (_MIN_SHIFT_DAYS + span % (_MAX_SHIFT_DAYS - _MIN_SHIFT_DAYS + 1))
    if dates.times != "shift":
        return Shift(days)
    # Other bytes of the digest: the days are those of a policy that keeps times.
    choices = _SECONDS_A_DAY - _MIN_SHIFT_SECONDS
    return Shift(days, _MIN_SHIFT_SECONDS + int.from_bytes(digest[9:17], "big") % choices)


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


def shift_time(text: str, seconds: int) -> str | None:
    """Shift one TM value by ``seconds``, past midnight if need be; return ``None`` if it is malformed.

    Precision and the fraction of a second are kept. ``HH:MM:SS`` (of ACR-NEMA) is written as ``HHMMSS``.
    """
    found = _seconds_of(text)
    return None if found is None else _written(found[0] + seconds, found[1], found[2])


def days_carried(time: str, seconds: int) -> int:
    """Return how many midnights the time of day ``time`` passes when it moves by ``seconds``.

    0 if it is absent or malformed: its date then counts as the beginning of the day.
    """
    found = _seconds_of(time)
    return (found[0] + seconds) // _SECONDS_A_DAY if found else 0


def _seconds_of(text: str) -> tuple[int, int, str] | None:
    """Return a TM value as whole seconds, number of components that it states, and fraction."""
    match = _TM.fullmatch(text.strip(" \0"))
    if not match:
        return None
    hour, minute, second, fraction = match.groups()
    stated = 1 + (minute is not None) + (second is not None)
    return int(hour) * 3600 + int(minute or 0) * 60 + int(second or 0), stated, fraction or ""


def _written(seconds: int, stated: int, fraction: str) -> str:
    within = seconds % _SECONDS_A_DAY
    return f"{within // 3600:02d}{within // 60 % 60:02d}{within % 60:02d}"[: 2 * stated] + fraction


def shift_datetime(text: str, shift: Shift) -> str | None:
    """Shift one DT value and keep its precision, fraction and UTC offset (PS3.5 6.2).

    Returns ``None`` if the value is malformed.
    """
    match = _DT.fullmatch(text.strip(" \0"))
    if not match:
        return None
    year, month, day, rest, offset = match.groups()
    if (day is None and rest) or (rest and not is_time(rest)) or not _is_offset(offset):
        return None
    # A value without month or day is shifted from the middle of its year or month.
    days = shift.days + days_carried(rest, shift.seconds)
    moved = _moved(int(year), int(month or 7), int(day or (15 if month else 1)), days)
    if moved is None:
        return None
    out = f"{moved.year:04d}" + (f"{moved.month:02d}" if month else "") + (f"{moved.day:02d}" if day else "")
    if rest and shift.seconds:
        rest = shift_time(rest, shift.seconds) or ""
    return out + rest + (offset or "")


def _is_offset(offset: str | None) -> bool:
    """Whether an offset from UTC is between -1200 and +1400 (PS3.5 6.2)."""
    return not offset or (int(offset[3:]) < 60 and -1200 <= int(offset) <= 1400)


def is_date(text: str) -> bool:
    """Return whether a DA value is a valid date."""
    return shift_date(text, 0) is not None


def is_datetime(text: str) -> bool:
    """Return whether a DT value is valid, at any precision."""
    return shift_datetime(text, Shift(0)) is not None


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
