"""One element under one rule: what is left of its value.

Everything here is a plain function of the element, its place and the job; equal input gives
equal output, which is what lets the caller remember elements it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from medsanitize.policies.tables.coded_concepts import known_code, plausible_code
from medsanitize.policies.tables.vocabulary import defined_terms
from medsanitize.sanitize.dicom import charset
from medsanitize.sanitize.dicom.dates import is_date, is_datetime, is_time
from medsanitize.sanitize.dicom.dummies import dummy
from medsanitize.sanitize.dicom.encoding import (
    BULK_VRS,
    NUMBER_SIZES,
    SINGLE_TEXT_VRS,
    STRING_VRS,
    TEXT_VRS,
)
from medsanitize.sanitize.dicom.job import Job, Links
from medsanitize.sanitize.dicom.rules import Rule, Scope, registered_uids
from medsanitize.sanitize.text import is_named, is_product, reduce

Outcome = tuple[bytes, bytes | None, str, Links]
"""VR, value (``None``: removed), rule id, links."""

_DS = re.compile(rb" *[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)? *\0?")
_IS = re.compile(rb" *[+-]?\d{1,12} *\0?")
_AS = re.compile(rb"(\d{3})([DWMY])")
_PRIVATE_SCHEME = re.compile(r"99[A-Za-z_]{1,12}")
_SCHEMES = frozenset(
    "DCM SRT SNM3 99SDM SCT LN UCUM FMA RADLEX RADELEMENT ICD10 I10 I10C I10P I9 I9C ICDO3 C4 C5 MDC NCIt UMLS BARI ACR "
    "MA MAYOASRG NEU NDC NDFRT RXNORM PUBCHEM_CID CD8 DC NYUMCCG OPENGIS POS SDM UBERON UNS ISO3166_1 ISO639_1 ISO639_2 "
    "RFC5646 RFC3066 HPC IBSI UCSF ITIS_TSN MGI CAS ASTM-sigpurpose IEC61217 LEPIDAS GDS CADSR FDAUNII PATHLEX "
    "99_OFFIS_DCMTK 99PMP 99GEMS 99SMS_RAD 99PHILIPS 99QIICR 99DCM4CHE 99ELSCINT 99HOLOGIC 99TOSHIBA 99AGFA 99KHEOPS".split()
)
_UID = re.compile(r"[0-2](\.(0|[1-9]\d*))+")
_SCHEME_UIDS = frozenset([0x0008010C, 0x00089123])
"""Coding Scheme UID and Creator-Version UID name a scheme or software, never an instance."""
_ORGANISATION = re.compile(r"[12]\.\d{1,3}(?:\.\d{1,7}){1,8}")
_ARCS = frozenset(["", "0", "1", "2"])
"""An empty value or a bare root arc names nothing."""
_ID_DIGITS = re.compile(r"\d{5,}")
_YEARS = {b"D": 1 / 365.25, b"W": 7 / 365.25, b"M": 1 / 12, b"Y": 1.0}
_OLDEST = 89

_PRODUCTS = frozenset(
    int(tag, 16)
    for tag in (
        "00080070 00081090 00181020 00181016 00181018 00181019 0018101A 0018101B 00181017 0018702A 0018702B 0016004F "
        "00160050 00160051 00189004 00186031 00660031 00660036 00081091 00220030 300A0216"
    ).split()
)
"""Makers, models and software versions."""
CODE_MEANING = 0x00080104
_SCHEME = 0x00080102
_CODE_VALUES = frozenset([0x00080100, 0x00080119, 0x00080120])
_PATIENT_GROUP = 0x0010
_BULK_OB = frozenset([0x7FE00010, 0x54001010, 0x00282000])
_BULK_GROUPS = frozenset(
    [0x0014, 0x0018, 0x0022, 0x0028, 0x0062, 0x0064, 0x0066, 0x006A, 0x3004, 0x5400, 0x5600, 0x7FE0]
)
_CODED = _CODE_VALUES | {0x00080102, 0x00080103, 0x00080104}
_DOCUMENT = 0x00420011


@cache
def dictionary() -> dict[int, tuple[bytes, ...]]:
    """Public tags -> the VRs that PS3.6 allows them."""
    from pydicom._dicom_dict import DicomDictionary

    return {tag: tuple(vr.encode() for vr in row[0].split(" or ")) for tag, row in DicomDictionary.items()}


@cache
def most_values(tag: int) -> int | None:
    """The largest number of values PS3.6 allows an attribute; ``None`` where it names no limit."""
    from pydicom._dicom_dict import DicomDictionary

    last = DicomDictionary[tag][1].split("-")[-1] if tag in DicomDictionary else "n"
    return int(last) if last.isdigit() else None


def effective_vr(tag: int, written: bytes) -> bytes | None:
    """The VR to read a public element by: the dictionary's, or the written one where it is a choice.

    ``None``: the written VR cannot hold the attribute. Unknown attributes keep the written VR.
    """
    allowed = dictionary().get(tag)
    if allowed is None or written in allowed:
        return written
    if written in (b"UN", b""):
        return allowed[0] if allowed[0] != b"NONE" else None
    first = allowed[0]
    if first in STRING_VRS and written in STRING_VRS:
        return first
    if NUMBER_SIZES.get(first, 0) and NUMBER_SIZES.get(first) == NUMBER_SIZES.get(written):
        return written
    if first in BULK_VRS and written in BULK_VRS:
        return written
    return None


def act(job: Job, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Apply ``rule`` to an element that is not a sequence."""
    if rule.action == "X":
        return vr, None, f"X:{rule.source}", ()
    if tag == _DOCUMENT:
        return vr, None, "X:encapsulated-document", ()
    if rule.action == "Z":
        return vr, b"", f"Z:{rule.source}", ()
    if not value:
        return vr, value, "K:empty", ()
    if rule.action == "U" and vr == b"UI":
        return _uids(job, rule, tag, vr, value)
    if rule.action in ("D", "U"):
        links = _link(job, value) if vr == b"UI" else ()
        return vr, dummy(job, tag, vr, value), f"D:{rule.source}", links
    if rule.action == "K":
        return _keep(job, scope, rule, tag, vr, value)
    return _clean(job, scope, rule, tag, vr, value)


def gone(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes, why: str) -> Outcome:
    """Remove an element as far as its Type allows: removed, emptied or replaced."""
    if rule.type in ("1", "1C") and value:
        return vr, dummy(job, tag, vr, value), f"D:{why}", ()
    if rule.type in ("2", "2C"):
        return vr, b"", f"Z:{why}", ()
    return vr, None, f"X:{why}", ()


def _keep(job: Job, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Action K, and still: no age over 89, no name of the patient in a text, no malformed value."""
    if vr == b"UI":
        texts = value.decode("latin-1").rstrip(" \0").split("\\")
        if all(_UID.fullmatch(text) and len(text) <= 64 for text in texts):
            return vr, value, "K:option", ()
        return _uids(job, rule, tag, vr, value)
    if vr in (b"DA", b"DT"):
        well_formed = is_date if vr == b"DA" else is_datetime
        texts = value.decode("latin-1").split("\\")
        if all(not text.strip(" \0") or well_formed(text) for text in texts):
            return vr, value, "K:option", ()
        return gone(job, rule, tag, vr, value, "invalid-value")
    if vr == b"PN" and rule.source == "policy":
        return vr, value, "K:policy", ()
    if vr in TEXT_VRS and tag >> 16 != _PATIENT_GROUP or vr == b"AE":
        if not is_named(charset.decode(value, job.charset), job.subject.ban):
            return vr, value, f"K:{rule.source}", ()
        return (
            _text(job, rule, tag, vr, value) if vr in TEXT_VRS else gone(job, rule, tag, vr, value, "named")
        )
    return _clean(job, scope, rule, tag, vr, value)


def _clean(job: Job, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Action C, and the rule of the VR for what no table names."""
    if vr in TEXT_VRS:
        if tag == _SCHEME:
            return scheme_designator(job, rule, tag, vr, value)
        if scope.strict and tag not in _CODED or not scope.belongs(tag) and rule.source == "unlisted":
            return _foreign_text(job, scope, rule, tag, vr, value)
        return _text(job, rule, tag, vr, value)
    if vr == b"CS":
        return _coded_string(job, rule, tag, vr, value)
    if vr in (b"IS", b"DS"):
        return _number_string(job, rule, tag, vr, value)
    if vr in NUMBER_SIZES:
        count, rest = divmod(len(value), NUMBER_SIZES[vr])
        most = most_values(tag)
        fits = not rest and (most is None or count <= most)
        return (vr, value, "K:unchanged", ()) if fits else gone(job, rule, tag, vr, value, "invalid-value")
    if vr in (b"DA", b"DT", b"TM"):
        return _when(job, rule, tag, vr, value)
    if vr == b"UI":
        return _uids(job, rule, tag, vr, value)
    if vr == b"AS":
        return _age(job, rule, tag, vr, value)
    if vr in BULK_VRS:
        return _bulk(job, scope, rule, tag, vr, value)
    return gone(job, rule, tag, vr, value, "person-name" if vr == b"PN" else "address")


def _foreign_text(job: Job, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Text that does not belong to the SOP class: it stays only if nothing had to be cut."""
    kept = _text(job, rule, tag, vr, value)
    if kept[1] is value and not scope.strict:
        return kept
    return gone(job, rule, tag, vr, value, "free-text")


def _text(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Reduce a text to the vocabulary, value by value where the VR allows several."""
    text = charset.decode(value, job.charset)
    parts = [text] if vr in SINGLE_TEXT_VRS else text.split("\\")
    ban = job.subject.ban
    terms = _terms_of(job, tag)
    cleaned = [
        part if part.strip() in terms or (tag in _PRODUCTS and is_product(part, ban)) else reduce(part, ban)
        for part in parts
    ]
    if cleaned == parts:
        return vr, value, "K:unchanged", ()
    if not any(part.strip() for part in cleaned):
        return gone(job, rule, tag, vr, value, "free-text")
    return vr, charset.encode("\\".join(cleaned), job.charset), "C:free-text", ()


def _terms_of(job: Job, tag: int) -> Collection[str]:
    """Whole texts that the standard itself gives an attribute; a meaning is given by its code."""
    if tag == CODE_MEANING:
        return known_code(*job.code) or () if job.code else ()
    return defined_terms().get(tag, ())


def _coded_string(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """CS: defined terms and enumerated values stay; anything else only word by word."""
    text = charset.decode(value, b"").rstrip("\0")
    parts = text.split("\\")
    terms = defined_terms().get(tag, frozenset())
    ban = job.subject.ban
    good = [part.strip() in terms or reduce(part, ban) == part for part in parts]
    if all(good):
        return vr, value, "K:unchanged", ()
    if not any(ok and part.strip() for part, ok in zip(parts, good, strict=True)):
        return gone(job, rule, tag, vr, value, "not-a-defined-term")
    kept = [part if ok else "OTHER" for part, ok in zip(parts, good, strict=True)]
    return vr, "\\".join(kept).encode("ascii", "ignore"), "C:not-a-defined-term", ()


def _number_string(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    pattern = _DS if vr == b"DS" else _IS
    if all(not part.strip(b" \0") or pattern.fullmatch(part) for part in value.split(b"\\")):
        numbers = job.subject.ban.numbers
        found = _ID_DIGITS.findall(value.decode("ascii"))
        if not numbers or numbers.isdisjoint([*found, *(digits.lstrip("0") for digits in found)]):
            return vr, value, "K:unchanged", ()
        return gone(job, rule, tag, vr, value, "known-identifier")
    return gone(job, rule, tag, vr, value, "invalid-value")


def _when(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Dates are moved one by one; times stay or go as the policy says; malformed ones go."""
    texts = value.decode("latin-1").split("\\")
    if vr == b"TM":
        if job.policy.dicom.dates.times == "remove":
            return gone(job, rule, tag, vr, value, "time")
        if all(not text.strip(" \0") or is_time(text) for text in texts):
            return vr, value, "K:unchanged", ()
        return gone(job, rule, tag, vr, value, "invalid-value")
    move = job.date if vr == b"DA" else job.datetime
    moved = ["" if not text.strip(" \0") else move(text) for text in texts]
    if any(one is None for one in moved):
        return gone(job, rule, tag, vr, value, "invalid-value")
    return vr, "\\".join(one or "" for one in moved).encode("ascii"), "C:date", ()


def _link(job: Job, value: bytes) -> Links:
    old = value.decode("latin-1").strip(" \0")
    return ((old, job.uid(old)),)


def _uids(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Registered UIDs stay; every other one is remapped, whatever it looks like."""
    old = [text.strip(" \0") for text in value.decode("latin-1").split("\\")]
    known = registered_uids()
    scheme = tag in _SCHEME_UIDS
    new = [
        text
        if text in known or text in _ARCS or (scheme and _ORGANISATION.fullmatch(text))
        else job.uid(text)
        for text in old
    ]
    if new == old:
        return vr, value, "K:unchanged", ()
    links = tuple((a, b) for a, b in zip(old, new, strict=True) if a != b)
    return vr, "\\".join(new).encode("ascii"), "U:E.1-1" if rule.source == "E.1-1" else "U:unlisted", links


def _age(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    match = _AS.fullmatch(value.strip(b" \0"))
    if not match:
        return gone(job, rule, tag, vr, value, "invalid-value")
    if int(match[1]) * _YEARS[match[2]] > _OLDEST:
        return vr, b"090Y", "C:age-over-89", ()
    return vr, value, "K:unchanged", ()


def _bulk(job: Job, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Bytes stay only where the standard puts sample data, never astray or where they could be a document."""
    allowed = dictionary().get(tag, ())
    sample = tag in _BULK_OB or bool(allowed) and b"OB" not in allowed and b"UN" not in allowed
    astray = not scope.belongs(tag) or (scope.path and tag >> 16 == 0x7FE0)
    if not sample or astray or tag >> 16 not in _BULK_GROUPS:
        return gone(job, rule, tag, vr, value, "binary")
    if tag == 0x00282000:
        from medsanitize.sanitize.dicom.icc import clean_profile

        profile = clean_profile(value)
        return (
            (vr, profile, "C:icc-profile", ()) if profile else gone(job, rule, tag, vr, value, "icc-profile")
        )
    return vr, value, "K:unchanged", ()


def scheme_designator(job: Job, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """A coding scheme is named by the standard, or private: ``99`` and a short name (PS3.3 8.2)."""
    text = value.decode("latin-1").strip(" \0")
    ban = job.subject.ban
    if text in _SCHEMES or reduce(text, ban) == text:
        return vr, value, "K:unchanged", ()
    if _PRIVATE_SCHEME.fullmatch(text) and not is_named(text, ban) and reduce(text[2:], ban) == text[2:]:
        return vr, value, "K:unchanged", ()
    return vr, b"99" + dummy(job, tag, vr, value)[5:], "D:unknown-scheme", ()


def code_value(
    job: Job, rule: Rule, tag: int, vr: bytes, value: bytes, scheme: bytes, meaning: bytes
) -> Outcome:
    """A code stays if its scheme knows it, its form proves it one, or it only spells a meaning that
    stays itself; else the key replaces it."""
    text = value.decode("latin-1").strip(" \0")
    designator = scheme.decode("latin-1").strip(" \0")
    named = is_named(text, job.subject.ban)
    job.code = (designator, text)
    if known_code(designator, text) is not None or plausible_code(designator, text) and not named:
        return vr, value, "K:unchanged", ()
    if not named and (reduce(text, job.subject.ban) == text or _spells(job, text, meaning)):
        return vr, value, "K:unchanged", ()
    return vr, dummy(job, tag, vr, value), "D:unknown-code", ()


def _spells(job: Job, code: str, meaning: bytes) -> bool:
    text = charset.decode(meaning, job.charset).strip(" \0")
    return code.isalpha() and code == "".join(text.split()) and reduce(text, job.subject.ban) == text
