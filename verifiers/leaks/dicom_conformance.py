"""Structural rules for released objects: container, elements, UIDs and person names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final

from medsanitize.sanitize.result import Finding
from medsanitize.verifiers.leaks.dicom_reader import (
    DEFLATED,
    EXPLICIT_BIG,
    IMPLICIT_LITTLE,
    PIXEL_DATA,
    Parsed,
)
from medsanitize.verifiers.leaks.identifier_search import is_registered

NATIVE: Final = frozenset([IMPLICIT_LITTLE, "1.2.840.10008.1.2.1", DEFLATED, EXPLICIT_BIG])
"""Transfer syntaxes with uncompressed pixel data."""

STRUCTURE: Final = "audit:structure"
# PS3.10 table 7.1-1 without source AE title and private information, which identify the sender.
_META: Final = frozenset(0x00020000 | number for number in (0x00, 0x01, 0x02, 0x03, 0x10, 0x12, 0x13))
# Keyed dummies of the sanitizer: 8 base32 characters.
_DUMMY_NAME: Final = re.compile(rb"ANON-[A-Z2-7]{8}")
_NOTHING_BUT: Final = b" ^=\\\0"
_TEXT: Final = frozenset(b"AE AS CS DA DS DT IS LO LT SH ST TM UC UR UT UN".split())
# Longer UN values are binary; they are left to the byte search.
_MAX_UNKNOWN: Final = 1 << 16
# Data Set Trailing Padding: any content may hide in it.
_TRAILING_PADDING: Final = 0xFFFCFFFC
_CODING_SCHEMES: Final = ("2.16.840.1.113883.", "1.2.840.113556.")
_SCHEME_UIDS: Final = frozenset([0x0008010C, 0x00089123])
"""Coding Scheme UID and Creator-Version UID identify a scheme or software, so short roots are allowed."""
_ORGANIZATION: Final = re.compile(rb"[12]\.\d{1,3}(?:\.\d{1,7}){1,8}")
_DIRECT_IDENTIFIERS: Final = frozenset(
    [0x00100010, 0x00101000, 0x00101001, 0x00101005, 0x00101040, 0x00101060, 0x00102154]
)
"""Attributes that identify the patient directly; keeping one means that the identity is not removed."""
_NO_PREFIX: Final = ""
_LEAST_UID: Final = 4
"""Shorter UIDs (such as ``0`` for an open reference) identify nothing."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a released object is checked against.

    Attributes
    ----------
    sha256 : str or None
        SHA-256 (hex) in the record; None if there is no record.
    pseudonym : str or None
        PatientID, and the only person name besides keyed dummies; None: not checked.
    uid_prefix : str or None
        Prefix of every UID that the standard does not register; None if UIDs are retained.
    private_creators : frozenset of str or None
        Private creators that the policy keeps; None if unknown: any creator is accepted.
    kept_uids : frozenset of str
        Public UIDs that are neither registered nor generated (private SOP classes).
    allowed_dates : frozenset of str
        Known dates (YYYYMMDD) that may occur, because the date shift of the patient maps another known date
        to them. Dates that the policy keeps are left out of ``own`` instead.
    kept_attributes : frozenset of int
        Attributes whose values the policy keeps unchanged.
    """

    sha256: str | None = None
    pseudonym: str | None = None
    uid_prefix: str | None = "2.25."
    private_creators: frozenset[str] | None = frozenset()
    kept_uids: frozenset[str] = frozenset()
    allowed_dates: frozenset[str] = frozenset()
    kept_attributes: frozenset[int] = frozenset()


def check_container(parsed: Parsed, expected: Expected) -> Iterator[Finding]:
    """Check preamble, file meta information, element order and digest."""
    if expected.sha256 is not None and sha256(parsed.raw).hexdigest() != expected.sha256:
        yield Finding("file", "audit:digest")
    # PS3.10 7.1 allows any content in the preamble, such as a TIFF header or executable code.
    if parsed.raw[:128] != bytes(128):
        yield Finding("file", "audit:preamble")
    for index in range(parsed.meta):
        if parsed.elements[index][0] not in _META:
            yield Finding(parsed.path(index), "audit:meta")
    for index in parsed.unordered:
        yield Finding(parsed.path(index), "audit:order")


def check_elements(parsed: Parsed, expected: Expected) -> tuple[list[Finding], list[int]]:
    """Check every element once.

    Parameters
    ----------
    parsed : Parsed
        The object.
    expected : Expected
        What it is checked against.

    Returns
    -------
    findings : list of Finding
        Violations of structural rules.
    texts : list of int
        Indexes of the text elements, for `search_texts`.
    """
    buffer, elements, path = parsed.buffer, parsed.elements, parsed.path
    findings: list[Finding] = []
    texts: list[int] = []
    creators: dict[tuple[int, int, int], bytes] = {}
    kept = expected.private_creators
    allowed = None if kept is None else {creator.encode("latin-1", "replace") for creator in kept}
    prefix = (_NO_PREFIX if expected.uid_prefix is None else expected.uid_prefix).encode("ascii")
    name = None if expected.pseudonym is None else expected.pseudonym.encode("utf-8")
    for index in range(parsed.meta, len(elements)):
        tag, vr, start, end, _ = elements[index]
        if vr == b"UI":
            value = buffer[start:end].rstrip(b"\0 ")
            if (
                expected.uid_prefix is not None
                and value
                and not _is_uid_expected(value, prefix, expected.kept_uids)
                and not (tag in _SCHEME_UIDS and _ORGANIZATION.fullmatch(value))
            ):
                findings.append(Finding(path(index), "audit:uid"))
        elif vr == b"PN" and tag not in expected.kept_attributes:
            value = buffer[start:end].strip(_NOTHING_BUT)
            if value and name is not None and value != name and not _DUMMY_NAME.fullmatch(value):
                findings.append(Finding(path(index), "audit:person-name"))
            texts.append(index)
        elif vr in _TEXT and end > start and (vr != b"UN" or end - start <= _MAX_UNKNOWN):
            texts.append(index)
        if tag & 0x10000:
            findings.extend(_check_private(parsed, index, creators, allowed))
        # Group lengths, curves (group 50xx, retired) and trailing padding: the sanitizer never writes them.
        elif not tag & 0xFFFF or tag >> 24 == 0x50 or tag == _TRAILING_PADDING:
            findings.append(Finding(path(index), STRUCTURE))
    return findings, texts


def _check_private(
    parsed: Parsed, index: int, creators: dict[tuple[int, int, int], bytes], allowed: set[bytes] | None
) -> Iterator[Finding]:
    """Check that a private element has a creator in its own dataset, and that the policy keeps it."""
    tag, _, start, end, item = parsed.elements[index]
    group, number = tag >> 16, tag & 0xFFFF
    if 0x10 <= number <= 0xFF:
        value = parsed.buffer[start:end].strip(b" \0")
        creators[item, group, number] = value
        if allowed is not None and value not in allowed:
            yield Finding(parsed.path(index), "audit:private")
    elif (item, group, number >> 8) not in creators:
        yield Finding(parsed.path(index), "audit:private")


@lru_cache(maxsize=4096)
def _is_public_uid(uid: str) -> bool:
    return is_registered(uid) or uid.startswith(_CODING_SCHEMES)


def _is_uid_expected(value: bytes, prefix: bytes, kept: frozenset[str]) -> bool:
    if b"\\" in value:
        # Compared part by part: one registered UID must not cover an unknown one.
        return all(_is_uid_expected(part.strip(b"\0 "), prefix, kept) for part in value.split(b"\\"))
    if value.startswith(prefix) or len(value) < _LEAST_UID:
        return True
    uid = value.decode("ascii", "replace")
    return _is_public_uid(uid) or uid in kept


def check_subject(parsed: Parsed, expected: Expected) -> Iterator[Finding]:
    """Check top-level values: pseudonym, equality of both instance UIDs, and bytes after the pixels.

    Absent identifiers and missing pixels are faults of some files, but not leaks.
    """
    top = {tag: index for index, (tag, _, _, _, item) in enumerate(parsed.elements) if item < 0}

    def text(tag: int) -> bytes:
        index = top.get(tag)
        if index is None:
            return b""
        _, _, start, end, _ = parsed.elements[index]
        return bytes(parsed.buffer[start:end]).strip(b" \0")

    # Patient Identity Removed must not claim more than the policy does.
    stated = b"NO" if expected.kept_attributes & _DIRECT_IDENTIFIERS else b"YES"
    if text(0x00120062) != stated:
        yield Finding("(0012,0062)", STRUCTURE)
    if text(0x00020003) != text(0x00080018):
        yield Finding("(0002,0003)", "audit:uid")
    if text(0x00080016) and text(0x00020002) != text(0x00080016):
        yield Finding("(0002,0002)", "audit:uid")
    identifier = text(0x00100020)
    if identifier and expected.pseudonym is not None and identifier != expected.pseudonym.encode("utf-8"):
        yield Finding("(0010,0020)", "audit:pseudonym")
    if PIXEL_DATA in top and parsed.transfer_syntax in NATIVE:
        _, _, start, end, _ = parsed.elements[top[PIXEL_DATA]]
        # Samples beyond the stated size are shown by no viewer.
        if end - start > pixel_bytes(parsed, top):
            yield Finding("pixels", STRUCTURE)


def pixel_bytes(parsed: Parsed, top: dict[int, int]) -> int:
    """Return the size of native pixel data (PS3.5 8.1.1 and 8.2), padded to even; -1 if not stated."""

    def number(tag: int, default: int) -> int:
        index = top.get(tag)
        if index is None:
            return default
        _, vr, start, end, _ = parsed.elements[index]
        raw = bytes(parsed.buffer[start:end])
        if vr == b"IS":
            return int(raw) if raw.strip(b" \0").isdigit() else default
        return int.from_bytes(raw[:2], "little" if parsed.little else "big") if len(raw) == 2 else default

    rows, columns, bits = (number(tag, -1) for tag in (0x00280010, 0x00280011, 0x00280100))
    if min(rows, columns, bits) < 0:
        return -1
    samples, frames = number(0x00280002, 1), number(0x00280008, 1)
    index = top.get(0x00280004)
    if index is not None and b"_422" in parsed.buffer[parsed.elements[index][2] : parsed.elements[index][3]]:
        # YBR_FULL_422 stores two luminance and two chrominance samples per two pixels.
        samples = 2
    total = (rows * columns * samples * frames * bits + 7) // 8
    return total + total % 2
