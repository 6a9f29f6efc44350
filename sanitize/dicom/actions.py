"""Application of a rule to the value of one element.

All functions are deterministic functions of the element, its scope and the state of the object, so that the
caller may cache their results.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache, lru_cache
from struct import error, pack

from medsanitize.sanitize.dicom.coded_entries import CODED, SCHEME, scheme_designator
from medsanitize.sanitize.dicom.dates import is_date, is_datetime, is_time, shift_time
from medsanitize.sanitize.dicom.dummies import Outcome, dummy_value, remove_by_type
from medsanitize.sanitize.dicom.object_state import Links, ObjectState
from medsanitize.sanitize.dicom.rules import Rule, Scope, registered_uids
from medsanitize.sanitize.dicom.sample_data import is_ramp
from medsanitize.sanitize.dicom.text_elements import clean_coded_string, clean_foreign_text, clean_text
from medsanitize.sanitize.dicom.wsi import WHOLE_SLIDE
from medsanitize.sanitize.formats.dicom import charset
from medsanitize.sanitize.formats.dicom.dictionary import dictionary, most_values
from medsanitize.sanitize.formats.dicom.transfer_syntax import BULK_VRS, NUMBER_SIZES, TEXT_VRS
from medsanitize.sanitize.formats.icc import clean_profile
from medsanitize.sanitize.text.vocabulary_filter import is_named

_DS = re.compile(rb" *[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)? *\0?")
_IS = re.compile(rb" *[+-]?\d{1,12} *\0?")
_AS = re.compile(rb"(\d{3})([DWMY])")
_UID = re.compile(r"[0-2](\.(0|[1-9]\d*))+")
# Empty values and root arcs identify nothing.
_ARCS = frozenset(["", "0", "1", "2"])
# 16 printable bytes: by chance, one in ten million positions of an array of numbers begins such a run.
_TEXT_IN_NUMBERS = re.compile(rb"[\x20-\x7e]{16,}")
_ID_DIGITS = re.compile(r"\d{5,}")
# Digits of known numbers that are searched in binary ones: fewer are found in them by chance.
_FEWEST_DIGITS, _MOST_DIGITS = 6, 15
# Bytes of a value, and of one number in it.
_MOST_SEARCHED, _LEAST_SEARCHED = 512, 4
_YEARS = {b"D": 1 / 365.25, b"W": 7 / 365.25, b"M": 1 / 12, b"Y": 1.0}
# Ages over 89 are identifiers: 45 CFR 164.514(b)(2)(i)(C).
_MAX_AGE = 89

# Two 16-bit or decimal numbers are too few to encode text.
_MAX_HARMLESS_NUMBERS = 2
_PATIENT_GROUP = 0x0010
_BULK_OB = frozenset([0x7FE00010, 0x54001010, 0x00282000])
_BULK_GROUPS = frozenset(
    [0x0014, 0x0018, 0x0022, 0x0028, 0x0062, 0x0064, 0x0066, 0x006A, 0x3004, 0x5400, 0x5600, 0x7FE0]
)
_DOCUMENT = 0x00420011


def apply_rule(job: ObjectState, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Apply a rule to an element that is not a sequence (PS3.15 Table E.1-1a).

    Parameters
    ----------
    job : ObjectState
    scope : Scope
        Where the element is.
    rule : Rule
    tag : int
    vr : bytes
        Value representation by which the value is read.
    value : bytes
        In the encoding of the data set.

    Returns
    -------
    Outcome
        VR, new value (``None``: removed), rule and links.
    """
    if rule.action == "X":
        return vr, None, f"X:{rule.source}", ()
    # No rule can keep a document: `put_document` adds the rebuilt PDF.
    if tag == _DOCUMENT:
        return vr, None, "X:encapsulated-document", ()
    if rule.action == "Z":
        return vr, b"", f"Z:{rule.source}", ()
    if not value:
        return vr, value, "K:empty", ()
    if rule.action == "U" and vr == b"UI":
        return _uids(job, rule, vr, value)
    # U also in a VR other than UI: there is no UID to replace, so the value gets a dummy.
    if rule.action in ("D", "U"):
        links = _link(job, value) if vr == b"UI" else ()
        why = "date" if vr in (b"DA", b"DT") else rule.source
        return vr, dummy_value(job, tag, vr, value), f"D:{why}", links
    if rule.action == "K":
        return _keep(job, scope, rule, tag, vr, value)
    return _clean(job, scope, rule, tag, vr, value)


def _keep(job: ObjectState, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Action K, except for ages over 89, texts with the patient's names and malformed values."""
    if vr == b"UI":
        # A malformed UID may be any text, which the option does not cover.
        texts = value.decode("latin-1").rstrip(" \0").split("\\")
        if all(_UID.fullmatch(text) and len(text) <= 64 for text in texts):
            return vr, value, "K:option", ()
        return _uids(job, rule, vr, value)
    if vr in (b"DA", b"DT"):
        # A malformed date may be any text, which no option to retain dates covers.
        well_formed = is_date if vr == b"DA" else is_datetime
        texts = value.decode("latin-1").split("\\")
        if all(not text.strip(" \0") or well_formed(text) for text in texts):
            return vr, value, "K:option", ()
        return remove_by_type(job, rule, tag, vr, value, "invalid-value")
    if vr == b"PN" and rule.source == "policy":
        return vr, value, "K:policy", ()
    if (vr in TEXT_VRS and tag >> 16 != _PATIENT_GROUP) or vr == b"AE":
        if not is_named(charset.decode_text(value, job.charset), job.subject.ban):
            return vr, value, f"K:{rule.source}", ()
        if vr == b"AE":
            return remove_by_type(job, rule, tag, vr, value, "named")
        return clean_text(job, rule, tag, vr, value)
    return _clean(job, scope, rule, tag, vr, value)


def _clean(job: ObjectState, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Action C, and the rule of the VR for attributes in no table."""
    if vr in TEXT_VRS:
        if tag == SCHEME:
            return scheme_designator(job, tag, vr, value)
        if (scope.strict and tag not in CODED) or (not scope.belongs(tag) and rule.source == "unlisted"):
            return clean_foreign_text(job, scope, rule, tag, vr, value)
        return clean_text(job, rule, tag, vr, value)
    if vr == b"CS":
        return clean_coded_string(job, rule, tag, vr, value)
    if vr in (b"IS", b"DS"):
        if _spells_freely(scope, rule, tag, vr, value):
            return remove_by_type(job, rule, tag, vr, value, "foreign-numbers")
        return _number_string(job, rule, tag, vr, value)
    if vr in NUMBER_SIZES:
        return _numbers(job, scope, rule, tag, vr, value)
    if vr in (b"DA", b"DT") and rule.source == "unlisted" and _keeps_dates(job, scope):
        return _keep(job, scope, rule, tag, vr, value)
    if vr in (b"DA", b"DT", b"TM"):
        return _when(job, rule, tag, vr, value)
    if vr == b"UI":
        return _uids(job, rule, vr, value)
    if vr == b"AS":
        return _age(job, rule, tag, vr, value)
    if vr in BULK_VRS:
        return _bulk(job, scope, rule, tag, vr, value)
    # PN, AE and UR: names and addresses are never kept without a rule.
    return remove_by_type(job, rule, tag, vr, value, "person-name" if vr == b"PN" else "address")


def _keeps_dates(job: ObjectState, scope: Scope) -> bool:
    """Whether full dates are kept: dates in no table must then not be moved away from the others."""
    return job.policy.dicom.options.retain_longitudinal_full_dates and scope.sop_class != WHOLE_SLIDE


def _spells_freely(scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> bool:
    """Whether the value has enough numbers to encode text, in an attribute outside the IOD with VM 1-n."""
    if rule.source != "unlisted" or most_values(tag) is not None or scope.belongs(tag):
        return False
    # Bytes of a text are hardly ever tags of the dictionary.
    if vr == b"AT":
        return not all(value[at : at + 4] in _known_tags() for at in range(0, len(value), 4))
    size = NUMBER_SIZES.get(vr)
    return (
        value.count(b"\\") >= _MAX_HARMLESS_NUMBERS
        if size is None
        else len(value) > 2 * _MAX_HARMLESS_NUMBERS
    )


@cache
def _known_tags() -> frozenset[bytes]:
    """Attribute tags of the data dictionary as AT values, in either byte order."""
    return frozenset(pack(order, tag >> 16, tag & 0xFFFF) for tag in dictionary() for order in ("<HH", ">HH"))


def _numbers(job: ObjectState, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Keep binary numbers unless their count is invalid or they may encode text."""
    size = NUMBER_SIZES[vr]
    count, rest = divmod(len(value), size)
    most = most_values(tag)
    if rest or (most is not None and count > most):
        return remove_by_type(job, rule, tag, vr, value, "invalid-value")
    if _spells_freely(scope, rule, tag, vr, value):
        return remove_by_type(job, rule, tag, vr, value, "foreign-numbers")
    if len(value) <= _MOST_SEARCHED and size >= _LEAST_SEARCHED:
        known = _encoded(job.subject.ban.numbers)
        if known and any(value[at : at + size] in known for at in range(0, len(value), size)):
            return remove_by_type(job, rule, tag, vr, value, "known-identifier")
    # A run may start in the middle of a number; compare whole numbers only.
    spelled = (found[0][-found.start() % size :] for found in _TEXT_IN_NUMBERS.finditer(value))
    if not all(is_ramp(run, size) for run in spelled):
        return remove_by_type(job, rule, tag, vr, value, "text-in-numbers")
    return vr, value, "K:unchanged", ()


@lru_cache(maxsize=256)
def _encoded(numbers: frozenset[str]) -> frozenset[bytes]:
    """Return known numbers of a patient as binary ones, in either byte order."""
    found: set[bytes] = set()
    for digits in numbers:
        if not _FEWEST_DIGITS <= len(digits.lstrip("0")) <= _MOST_DIGITS:
            continue
        number = int(digits)
        forms = "IiQqd" + ("f" if number < 1 << 24 else "")
        for form in forms:
            # A number that does not fit into 32 bits cannot be in them.
            with suppress(error):
                found.update((pack(f"<{form}", number), pack(f">{form}", number)))
    return frozenset(found)


def _number_string(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    pattern = _DS if vr == b"DS" else _IS
    if all(not part.strip(b" \0") or pattern.fullmatch(part) for part in value.split(b"\\")):
        numbers = job.subject.ban.numbers
        found = _ID_DIGITS.findall(value.decode("ascii"))
        # With and without leading zeros: writers pad patient numbers differently.
        if not numbers or numbers.isdisjoint([*found, *(digits.lstrip("0") for digits in found)]):
            return vr, value, "K:unchanged", ()
        return remove_by_type(job, rule, tag, vr, value, "known-identifier")
    return remove_by_type(job, rule, tag, vr, value, "invalid-value")


def _when(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Shift dates and times by the policy; remove malformed values."""
    texts = value.decode("latin-1").split("\\")
    if vr == b"TM":
        return _time_of_day(job, rule, tag, value, texts)
    if vr == b"DA":
        times = job.times if len(job.times) == len(texts) else ("",) * len(texts)
        moved = [
            job.date(text, time) if text.strip(" \0") else "" for text, time in zip(texts, times, strict=True)
        ]
    else:
        moved = [job.datetime(text) if text.strip(" \0") else "" for text in texts]
    if any(one is None for one in moved):
        return remove_by_type(job, rule, tag, vr, value, "invalid-value")
    return vr, "\\".join(one or "" for one in moved).encode("ascii"), "C:date", ()


def _time_of_day(job: ObjectState, rule: Rule, tag: int, value: bytes, texts: list[str]) -> Outcome:
    """Keep, shift or remove a TM element; a malformed one is removed."""
    dates = job.policy.dicom.dates
    if dates.times == "remove":
        return remove_by_type(job, rule, tag, b"TM", value, "time")
    if not all(not text.strip(" \0") or is_time(text) for text in texts):
        return remove_by_type(job, rule, tag, b"TM", value, "invalid-value")
    # The option to retain full dates retains times too (K of Table E.1-1).
    if dates.times == "keep" or rule.action == "K":
        return b"TM", value, "K:unchanged", ()
    moved = [shift_time(text, job.subject.shift.seconds) or "" for text in texts]
    return b"TM", "\\".join(moved).encode("ascii"), "C:time", ()


def _link(job: ObjectState, value: bytes) -> Links:
    old = value.decode("latin-1").strip(" \0")
    return ((old, job.uid(old)),)


def _uids(job: ObjectState, rule: Rule, vr: bytes, value: bytes) -> Outcome:
    """Action U: keep registered UIDs and replace all others, well-formed or not."""
    old = [text.strip(" \0") for text in value.decode("latin-1").split("\\")]
    known = registered_uids()
    new = [text if text in known or text in _ARCS else job.uid(text) for text in old]
    if new == old:
        return vr, value, "K:unchanged", ()
    links = tuple((a, b) for a, b in zip(old, new, strict=True) if a != b)
    return vr, "\\".join(new).encode("ascii"), "U:E.1-1" if rule.source == "E.1-1" else "U:unlisted", links


def _age(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    match = _AS.fullmatch(value.strip(b" \0"))
    if not match:
        return remove_by_type(job, rule, tag, vr, value, "invalid-value")
    if int(match[1]) * _YEARS[match[2]] > _MAX_AGE:
        # HIPAA allows one category of age 90 or older.
        return vr, b"090Y", "C:age-over-89", ()
    return vr, value, "K:unchanged", ()


def _bulk(job: ObjectState, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Keep binary data only in attributes that the standard defines for samples, in their IOD."""
    allowed = dictionary().get(tag, ())
    sample = tag in _BULK_OB or (bool(allowed) and b"OB" not in allowed and b"UN" not in allowed)
    # Pixel data of items, such as icons, is not read for text.
    astray = not scope.belongs(tag) or (scope.path and tag >> 16 == 0x7FE0)
    if not sample or astray or tag >> 16 not in _BULK_GROUPS:
        return remove_by_type(job, rule, tag, vr, value, "binary")
    if tag == 0x00282000:  # an ICC profile may contain texts, dates and private data
        profile = clean_profile(value)
        return (
            (vr, profile, "C:icc-profile", ())
            if profile
            else remove_by_type(job, rule, tag, vr, value, "icc-profile")
        )
    return vr, value, "K:unchanged", ()
