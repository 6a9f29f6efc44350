"""Coded entries (PS3.3 8.8): known and plausible codes are kept, since other values may be identifiers."""

from __future__ import annotations

import re

from medsanitize.policies.tables.coded_concepts import known_code, plausible_code
from medsanitize.sanitize.dicom.dummies import Outcome, dummy_value
from medsanitize.sanitize.dicom.object_state import ObjectState
from medsanitize.sanitize.formats.dicom import charset
from medsanitize.sanitize.text.vocabulary_filter import is_named, reduce_to_vocabulary

CODE_VALUE, SCHEME, SCHEME_VERSION, CODE_MEANING = 0x00080100, 0x00080102, 0x00080103, 0x00080104
CODED = frozenset([CODE_VALUE, 0x00080119, 0x00080120, SCHEME, SCHEME_VERSION, CODE_MEANING])
"""Attributes of a coded entry; (0008,0119) is Long Code Value, (0008,0120) URN Code Value."""

CONTEXT_IDENTIFIER = 0x0008010F
CONTEXT_GROUP = frozenset([0x00080105, 0x00080106, 0x00080107, 0x0008010B, 0x0008010D])
"""Attributes that precede the Context Identifier and say more of its group (PS3.3 8.6)."""

_CONTEXT = re.compile(r"(?:CID ?)?(\d{1,5})")
_LAST_CONTEXT_GROUP = 12999  # PS3.16 numbers its groups by subject, so far up to 12325
_PRIVATE_SCHEME = re.compile(r"99[A-Za-z_]{1,12}")
_SCHEMES = frozenset(
    "DCM SRT SNM3 99SDM SCT LN UCUM FMA RADLEX RADELEMENT ICD10 I10 I10C I10P I9 I9C ICDO3 C4 C5 MDC "
    "NCIt UMLS BARI ACR MA MAYOASRG NEU NDC NDFRT RXNORM PUBCHEM_CID CD8 DC NYUMCCG OPENGIS POS SDM "
    "UBERON UNS ISO3166_1 ISO639_1 ISO639_2 RFC5646 RFC3066 HPC IBSI UCSF ITIS_TSN MGI CAS "
    "ASTM-sigpurpose IEC61217 LEPIDAS GDS CADSR FDAUNII PATHLEX 99_OFFIS_DCMTK 99PMP 99GEMS 99SMS_RAD "
    "99PHILIPS 99QIICR 99DCM4CHE 99ELSCINT 99HOLOGIC 99TOSHIBA 99AGFA 99KHEOPS".split()
)
"""Coding schemes of PS3.16 Section 8, and private schemes of manufacturers."""


def is_context_identifier(text: str) -> bool:
    """Return whether a Context Identifier has the form of one of PS3.16, such as 29 or CID 4031."""
    match = _CONTEXT.fullmatch(text)
    return match is not None and int(match[1]) <= _LAST_CONTEXT_GROUP


def scheme_designator(job: ObjectState, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Clean a Coding Scheme Designator.

    Designators of the standard and private ones (``99`` and a short name, PS3.3 8.2) are kept unless they
    contain a known identifier; all others are replaced by a private one.
    """
    text = value.decode("latin-1").strip(" \0")
    ban = job.subject.ban
    if text in _SCHEMES or reduce_to_vocabulary(text, ban) == text:
        return vr, value, "K:unchanged", ()
    if (
        _PRIVATE_SCHEME.fullmatch(text)
        and not is_named(text, ban)
        and reduce_to_vocabulary(text[2:], ban) == text[2:]
    ):
        return vr, value, "K:unchanged", ()
    # [5:] removes the prefix "ANON-": designators of private schemes begin with 99.
    return vr, b"99" + dummy_value(job, tag, vr, value)[5:], "D:unknown-scheme", ()


def code_value(job: ObjectState, tag: int, vr: bytes, value: bytes, scheme: bytes, meaning: bytes) -> Outcome:
    """Clean a Code Value: keep it if it is a code, otherwise replace it by a dummy value.

    A value is a code if its scheme defines it, if it has the form of the scheme's codes, if it consists of
    vocabulary words, or if it spells a Code Meaning that does.

    Parameters
    ----------
    job : ObjectState
        Its ``code`` is set for the Code Meaning that follows.
    tag : int
    vr, value : bytes
    scheme, meaning : bytes
        Coding Scheme Designator and Code Meaning of the same item.

    Returns
    -------
    Outcome
    """
    text = value.decode("latin-1").strip(" \0")
    designator = scheme.decode("latin-1").strip(" \0")
    # Many patient numbers have the form of a code: those that are known are never plausible.
    named = is_named(text, job.subject.ban)
    job.code = (designator, text)
    if known_code(designator, text) is not None or (plausible_code(designator, text) and not named):
        return vr, value, "K:unchanged", ()
    if not named and (reduce_to_vocabulary(text, job.subject.ban) == text or _spells(job, text, meaning)):
        return vr, value, "K:unchanged", ()
    return vr, dummy_value(job, tag, vr, value), "D:unknown-code", ()


def _spells(job: ObjectState, code: str, meaning: bytes) -> bool:
    text = charset.decode_text(meaning, job.charset).strip(" \0")
    return (
        code.isalpha()
        and code == "".join(text.split())
        and reduce_to_vocabulary(text, job.subject.ban) == text
    )
