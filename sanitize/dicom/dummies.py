"""Action D (PS3.15 Table E.1-1a): dummy values that are valid for their VR and derived from the key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from medsanitize.sanitize.dicom.object_state import Links, ObjectState
from medsanitize.sanitize.dicom.rules import Rule
from medsanitize.sanitize.formats.dicom.dictionary import least_values
from medsanitize.sanitize.formats.dicom.transfer_syntax import NUMBER_SIZES, TEXT_VRS
from medsanitize.sanitize.pseudonyms import keyed_mac, pseudonym_token

_DAYS = 18_000
Outcome = tuple[bytes, bytes | None, str, Links]
"""VR, value (``None``: removed), rule, links."""


def dummy_value(job: ObjectState, tag: int, vr: bytes, value: bytes) -> bytes:
    """Derive a dummy value; equal values of an attribute of one patient get equal dummy values.

    Parameters
    ----------
    job : ObjectState
    tag : int
    vr, value : bytes

    Returns
    -------
    bytes
        A value that is valid for ``vr`` (PS3.5 6.2); zero for numbers.
    """
    if vr in NUMBER_SIZES:
        return bytes(NUMBER_SIZES[vr] * least_values(tag))
    if vr in (b"IS", b"DS"):
        return b"\\".join([b"0"] * least_values(tag))
    parts = (f"{tag:08x}", job.subject.patient, value.decode("latin-1"))
    if vr in (b"DA", b"DT", b"TM", b"AS"):
        return _dated(job, vr, value, parts)
    if vr == b"UI":
        return job.uid(value.decode("latin-1").strip(" \0")).encode("ascii")
    name = pseudonym_token(job.keys.dummy, 8, *parts).encode("ascii")
    if vr == b"CS":  # allows no hyphen
        return b"\\".join([b"ANON_" + name] * least_values(tag))
    if vr == b"UR":
        return b"urn:x-anon:" + name
    if vr in TEXT_VRS or vr in (b"AE", b"PN"):
        return b"ANON-" + name
    # Values have even length (PS3.5 7.1.1).
    return b"\0\0"


def _dated(job: ObjectState, vr: bytes, value: bytes, parts: tuple[str, ...]) -> bytes:
    text = value.decode("latin-1").split("\\")[0]
    number = int.from_bytes(keyed_mac(job.keys.dummy, *parts)[:8], "big")
    if vr == b"AS":  # 20 to 79 years: never an age over 89
        ages = (b"%03dY" % (20 + (number + step) % 60) for step in range(60))
        return next(age for age in ages if age != value.strip(b" \0"))
    if vr == b"TM":
        return b"%02d%02d%02d" % (number % 24, number // 24 % 60, number // 1440 % 60)
    # A valid date is changed like all others, so that the order of events is preserved.
    moved = job.date(text, job.times[0] if job.times else "") if vr == b"DA" else job.datetime(text)
    if moved is None:
        moved = next(day for day in _days(number) if day not in job.subject.dates)
    return moved.encode("ascii")


def _days(number: int) -> Iterator[str]:
    """Days from 1970 to 2019, starting with one chosen by the key."""
    # More than one, since a date that the patient's objects contain must not be the dummy value.
    for step in range(_DAYS):
        yield (date(1970, 1, 1) + timedelta(days=(number + step) % _DAYS)).strftime("%Y%m%d")


def remove_by_type(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes, why: str) -> Outcome:
    """Remove, empty or replace an element as its Type in the IOD allows (PS3.5 7.4).

    Parameters
    ----------
    job : ObjectState
    rule : Rule
        Gives the Type.
    tag : int
    vr, value : bytes
    why : str
        Reason, the second part of the reported rule.

    Returns
    -------
    Outcome
    """
    if rule.type in ("1", "1C") and value:
        return vr, dummy_value(job, tag, vr, value), f"D:{why}", ()
    if rule.type in ("2", "2C"):
        return vr, b"", f"Z:{why}", ()
    return vr, None, f"X:{why}", ()
