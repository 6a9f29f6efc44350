"""Inspection of a DICOM object for the inventory: kind, patient, study, and identifying values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Literal

from medsanitize.policies.model import Dicom, Limits
from medsanitize.sanitize.context import Demographics, ImageSize, Inspection, KnownValue
from medsanitize.sanitize.dicom.burned_in_risk import RISK_ATTRIBUTES, may_show_text
from medsanitize.sanitize.dicom.dates import shift_date
from medsanitize.sanitize.dicom.identifying_attributes import CATEGORY, CODED, CONCEPT_CATEGORY, Coded
from medsanitize.sanitize.dicom.rules import AttributeRules
from medsanitize.sanitize.formats.dicom import charset as charsets
from medsanitize.sanitize.formats.dicom.dictionary import dictionary
from medsanitize.sanitize.formats.dicom.elements import ITEM, ITEM_END, SEQUENCE_END, read_element_header
from medsanitize.sanitize.formats.dicom.file import looks_like_dicom, open_dicom
from medsanitize.sanitize.formats.dicom.transfer_syntax import IMPLICIT_LITTLE, UNDEFINED, Layout
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

DICOMDIR = "1.2.840.10008.1.3.10"
_CHARSET, _PATIENT_ID, _ISSUER = 0x00080005, 0x00100020, 0x00100021
_STUDY, _SERIES, _SOP, _ACCESSION, _CLASS = 0x0020000D, 0x0020000E, 0x00080018, 0x00080050, 0x00080016
_NAME, _BIRTH, _SEX = 0x00100010, 0x00100030, 0x00100040
_OTHER_IDS, _OTHER_IDS_SEQUENCE = 0x00101000, 0x00101002
_PERSON = frozenset([_NAME, _BIRTH, _SEX, _OTHER_IDS])
_FRAMES, _ROWS, _COLUMNS = 0x00280008, 0x00280010, 0x00280011
# A type of device, not a single one.
_MAKER, _MODEL, _SOFTWARE = 0x00080070, 0x00081090, 0x00181020
_NUMBER_TAGS = frozenset([_ROWS, _COLUMNS])
_PLAIN_TEXT_TAGS = (
    frozenset(
        [_STUDY, _SERIES, _SOP, _ACCESSION, _CLASS, _PATIENT_ID, _ISSUER, _FRAMES, *RISK_ATTRIBUTES.values()]
    )
    | frozenset([_MAKER, _MODEL, _SOFTWARE])
    | _PERSON
)
_MARKERS = frozenset([ITEM, ITEM_END, SEQUENCE_END])
_NESTED_REMEMBERED = 4096
_MAX_DEPTH = 100

_CODE_VALUE, _CODE_MEANING, _CONCEPT, _TEXT_VALUE = 0x00080100, 0x00080104, 0x0040A043, 0x0040A160
_DATED = frozenset([b"DA", b"DT"])
_UNTYPED = (b"", b"UN")
# Longer values are free texts, not names or numbers.
_MAX_IDENTIFIER_BYTES = 256


def kept_attributes(dicom: Dicom) -> frozenset[int]:
    """Return the identifying attributes that a policy keeps: their values are not searched for."""
    book = AttributeRules(dicom)
    scope = book.scope("")
    names = (tag for tag, allowed in dictionary().items() if allowed[0] == b"PN")
    return frozenset(tag for tag in (*CATEGORY, *names) if book.rule(scope, tag).action == "K")


def inspect_dicom(
    data: Buffer, limits: Limits | None = None, kept: frozenset[int] = frozenset()
) -> Inspection:
    """Inspect one object without sanitizing it. No content raises an exception.

    Parameters
    ----------
    data : bytes or mmap
    limits : Limits, optional
    kept : frozenset of int
        Attributes whose values are not collected (see ``kept_attributes``).

    Returns
    -------
    Inspection
        A malformed object is of kind ``unreadable`` with a rule, or has only the values that could be read;
        `DicomSanitizer` quarantines both.
    """
    if not len(data):
        return Inspection("unreadable", "empty-file")
    if not looks_like_dicom(data):
        return Inspection("other")
    try:
        container = open_dicom(data, limits or Limits())
    except Quarantined as refused:
        return Inspection("other" if refused.rule == "not-dicom" else "unreadable", refused.rule)
    if container.sop_class == DICOMDIR:
        return Inspection("dicomdir")
    plain: dict[int, str] = {}
    known: set[KnownValue] = set()
    try:
        _scan(
            container.buf,
            container.start,
            len(container.buf),
            container.syntax.layout,
            b"",
            known,
            plain,
            kept,
        )
    except Quarantined:
        pass  # `DicomSanitizer` reads the object again and reports the rule
    return _peek(plain, known)


def _peek(plain: dict[int, str], known: set[KnownValue]) -> Inspection:
    issuer = plain.get(_ISSUER, "").strip()
    ids = [part.strip() for part in plain.get(_PATIENT_ID, "").split("\\") if part.strip()]
    return Inspection(
        "dicomdir" if plain.get(_CLASS) == DICOMDIR else "dicom",
        "",
        tuple(sorted({(issuer, part) for part in ids})),
        plain.get(_STUDY, ""),
        plain.get(_SERIES, ""),
        plain.get(_SOP, ""),
        plain.get(_ACCESSION, ""),
        frozenset(known),
        _image_size(plain),
        _demographics(plain),
        (plain.get(_MAKER, "").strip(), plain.get(_MODEL, "").strip(), plain.get(_SOFTWARE, "").strip()),
    )


def _demographics(plain: dict[int, str]) -> Demographics | None:
    if not any(plain.get(tag) for tag in (*_PERSON, _OTHER_IDS_SEQUENCE)):
        return None
    others = "\\".join((plain.get(_OTHER_IDS, ""), plain.get(_OTHER_IDS_SEQUENCE, ""))).split("\\")
    return Demographics(
        plain.get(_NAME, "").split("\\")[0].strip(),
        (shift_date(plain.get(_BIRTH, ""), 0) or ""),
        plain.get(_SEX, "").strip(),
        tuple(sorted({one.strip() for one in others if one.strip()})),
    )


def _image_size(plain: dict[int, str]) -> ImageSize | None:
    if _ROWS not in plain or _COLUMNS not in plain:
        return None
    frames = plain.get(_FRAMES, "").strip()
    count = int(frames) if frames.isascii() and frames.isdigit() and len(frames) < 8 else 1
    risk = {name: plain[tag] for name, tag in RISK_ATTRIBUTES.items() if tag in plain}
    return ImageSize(int(plain[_ROWS]), int(plain[_COLUMNS]), count, may_show_text(risk))


def _scan(
    buf: Buffer,
    pos: int,
    end: int,
    layout: Layout,
    charset: bytes,
    known: set[KnownValue],
    plain: dict[int, str] | None,
    kept: frozenset[int],
    depth: int = 0,
    coded: Coded = None,
) -> int:
    """Collect values from the data set at ``pos`` and return where it ended (``plain``: top level only)."""
    concept: str | None = None
    while end - pos >= 8:
        tag, vr, length, start = read_element_header(buf, pos, end, layout)
        if tag == ITEM_END and plain is None:
            return start
        if tag in _MARKERS and (plain is not None or length == UNDEFINED):
            # Outside of a sequence: the elements in it are those that follow.
            pos = start
            continue
        if tag >= 0x7FE00000 and plain is not None:
            break
        inner = IMPLICIT_LITTLE if vr == b"UN" else layout  # PS3.5 6.2.2
        if tag == _CONCEPT:
            concept = CONCEPT_CATEGORY.get(_code_value(buf, start, end, inner))
        if length == UNDEFINED:
            # Other sequences add to `known` directly, so that a truncated one loses nothing that was read.
            into: set[KnownValue] = set() if tag == _OTHER_IDS_SEQUENCE else known
            try:
                pos = _scan_items(buf, start, end, inner, charset, into, kept, depth + 1, CODED.get(tag))
            finally:
                _keep_nested(tag, into, known, plain)
            continue
        pos = start + length
        if pos > end:
            raise Quarantined("length-past-end")
        if length and (vr == b"SQ" or (vr in _UNTYPED and _is_sequence(tag))):
            found = _nested(bytes(buf[start:pos]), vr, inner, charset, kept, depth, CODED.get(tag))
            _keep_nested(tag, found, known, plain)
            continue
        if tag == _CHARSET:
            charset = bytes(buf[start:pos]).rstrip(b" \0")
        if plain is not None and tag in _NUMBER_TAGS and length >= 2:
            order: Literal["big", "little"] = "big" if layout.big else "little"
            plain.setdefault(tag, str(int.from_bytes(bytes(buf[start : start + 2]), order)))
            continue
        category = _category(tag, vr, coded, concept) if tag not in kept else None
        if category is None and (plain is None or tag not in _PLAIN_TEXT_TAGS):
            continue
        text = charsets.decode_text(bytes(buf[start:pos]), charset).strip(" \0")
        if plain is not None and tag in _PLAIN_TEXT_TAGS:
            plain.setdefault(tag, text)
        if category:
            known.update(_known(category, text))
    return pos


def _keep_nested(
    tag: int, found: Collection[KnownValue], known: set[KnownValue], plain: dict[int, str] | None
) -> None:
    """Add the values of a sequence, and note the patient's other IDs."""
    known.update(found)
    if plain is not None and tag == _OTHER_IDS_SEQUENCE:
        plain.setdefault(tag, "\\".join(sorted(one.value for one in found if one.category == "id")))


def _known(category: str, text: str) -> Iterator[KnownValue]:
    # A DT value begins with its date; an empty PN may consist of delimiters only.
    for part in text.split("\\"):
        value = part.strip()[:8] if category == "date" else part.strip()
        if value.strip("^") and len(value) <= _MAX_IDENTIFIER_BYTES:
            yield KnownValue(category, value)


def _category(tag: int, vr: bytes, coded: Coded, concept: str | None) -> str | None:
    """Category of the identifier in an element, or ``None``; every PN, DA and DT is one."""
    # By the VR of the dictionary as well: a writer may hide a name behind another VR.
    meant = dictionary().get(tag, (vr,))[0]
    if vr == b"PN" or meant == b"PN":
        return "name"
    if vr in _DATED or (vr in _UNTYPED and meant in _DATED):
        return "date"
    if coded and tag in (_CODE_VALUE, _CODE_MEANING):
        return coded[tag == _CODE_MEANING]
    return concept if tag == _TEXT_VALUE else CATEGORY.get(tag)


def _code_value(buf: Buffer, pos: int, end: int, layout: Layout) -> str:
    """Code Value of the first item at ``pos``: the first element of a coded entry."""
    if end - pos < 8:
        return ""
    pos = read_element_header(buf, pos, end, layout if layout.big else IMPLICIT_LITTLE)[3]
    if end - pos < 8:
        return ""
    tag, _, length, start = read_element_header(buf, pos, end, layout)
    return bytes(buf[start : start + length]).decode("latin-1").strip(" \0") if tag == _CODE_VALUE else ""


def _is_sequence(tag: int) -> bool:
    return dictionary().get(tag, (b"",))[0] == b"SQ"


def _nested(
    chunk: bytes,
    written: bytes,
    layout: Layout,
    charset: bytes,
    kept: frozenset[int],
    depth: int,
    coded: Coded,
) -> frozenset[KnownValue]:
    """Collect values from the items of a sequence."""
    try:
        # Short sequences, such as codes, repeat in every object of a series.
        if len(chunk) <= _NESTED_REMEMBERED:
            return _remembered(chunk, layout, charset, kept, depth, coded)
        return _nested_known(chunk, layout, charset, kept, depth, coded)
    except Quarantined:
        if written == b"UN":  # may contain no items at all
            return frozenset()
        raise


def _nested_known(
    chunk: bytes, layout: Layout, charset: bytes, kept: frozenset[int], depth: int, coded: Coded
) -> frozenset[KnownValue]:
    known: set[KnownValue] = set()
    _scan_items(chunk, 0, len(chunk), layout, charset, known, kept, depth + 1, coded)
    return frozenset(known)


_remembered = lru_cache(maxsize=4096)(_nested_known)


def _scan_items(
    buf: Buffer,
    pos: int,
    end: int,
    layout: Layout,
    charset: bytes,
    known: set[KnownValue],
    kept: frozenset[int],
    depth: int,
    coded: Coded,
) -> int:
    if depth > _MAX_DEPTH:
        raise Quarantined("too-deep")
    heads = layout if layout.big else IMPLICIT_LITTLE
    while end - pos >= 8:
        tag, _, length, start = read_element_header(buf, pos, end, heads)
        if tag == SEQUENCE_END:
            return start
        if tag != ITEM:
            raise Quarantined("malformed-sequence")
        stop = end if length == UNDEFINED else min(start + length, end)
        pos = _scan(buf, start, stop, layout, charset, known, None, kept, depth, coded)
    return pos
