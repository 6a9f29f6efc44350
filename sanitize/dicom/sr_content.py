"""Removal of content items of structured reports that identify subject, observers and requesters.

See PS3.15 E.3.4 (Clean Structured Content). The concepts are those of PS3.16: subject (TID 1007), observers
(TID 1002 to 1004), procedure and request (TID 1005), device and person participants (TID 1020, 1021).
Attributes with the same facts outside reports have rows in Table E.1-1. Items that reference others by their
position in the tree (PS3.3 C.17.3.2.5) are renumbered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from medsanitize.sanitize.formats.dicom.elements import (
    ITEM_END,
    read_element_header,
    skip_undefined,
)
from medsanitize.sanitize.formats.dicom.transfer_syntax import UNDEFINED, Layout
from medsanitize.sanitize.formats.file_type import Buffer

CONTENT_SEQUENCE, REFERENCED_PLACE = 0x0040A730, 0x0040DB73
_CONCEPT_NAME, _MEASURED_VALUE, _VALUE_TYPE = 0x0040A043, 0x0040A300, 0x0040A040
_AGE = b"121033"
_SUBJECT = b"121029 121030 121031 121034 121036 121041"
_OBSERVERS = (
    b"121005 121006 121007 121008 121009 121010 121011 121012 121013 121016 121017 110119 128774 121092 "
    b"121093 121114 113870 113871 113872 113873 113874 113875 113877 113880"
)
_REQUEST = b"121020 121021 121022"
_IDENTIFIERS = frozenset(
    (
        b"110190 111700 111705 111706 111724 112347 112351 112352 112363 113511 113512 113513 113514 113516 "
        b"113605 113832 120999 121121 121124 121154 121193 121196 121197 121434 121435 122128 125010 128775 "
        b"130527"
    ).split()
)
"""Concepts of Table E.3.4-1 whose texts are identifiers, labels, devices or places: no option cleans them."""
_RULES = {
    **dict.fromkeys(_SUBJECT.split(), "X:subject-context"),
    **dict.fromkeys(_OBSERVERS.split(), "X:observer-context"),
    **dict.fromkeys(_REQUEST.split(), "X:request-context"),
}
# The concepts are DCM codes of six digits; a match in the encoded item needs no parsing of nested codes.
_CODE = re.compile(rb"(?<!\d)(1[123]\d{4})(?!\d)")
# The same of LOINC (fetus, device) and of NCDR, whose code is short and precedes its scheme (PS3.3 8.8).
_OTHER_IDENTIFIERS = re.compile(rb"(?<![\d-])(?:11951-1|74711-3)(?![\d-])|(?<!\d)53.{8}NCDR", re.DOTALL)
_NUMBER = re.compile(rb"(?<![\d.])\d{2,}")
# Private concepts have unknown codes: their meanings are searched for these words.
_PLACE_CONCEPTS = re.compile(
    rb"(?:institution|hospital|facility|clinic|organi[sz]ation|department|observer|operator|physician|author"
    rb"|technologist|radiologist|patient)(?:'s)? (?:name|address|id|identifier|login name|number)"
    rb"|\b(?:address|telephone|phone number|fax|e-?mail)\b",
    re.IGNORECASE,
)
# Ages over 89 are identifiers: 45 CFR 164.514(b)(2)(i)(C).
_MAX_AGE = 89

ItemPath = tuple[int, ...]
"""Position of a content item: ordinals from the root's 1 down, as in Referenced Content Item Identifier."""


def read_concept(buf: Buffer, pos: int, end: int, source: Layout, depth: int) -> bytes:
    """Return the encoded Concept Name Code Sequence of the source's item at ``pos``; empty when absent."""
    while pos < end:
        tag, vr, length, start = read_element_header(buf, pos, end, source)
        if tag > _CONCEPT_NAME or tag == ITEM_END:
            break
        undefined = length == UNDEFINED
        pos = skip_undefined(buf, start, end, vr, source, depth) if undefined else start + length
        if tag == _CONCEPT_NAME:
            return bytes(buf[start:pos])
    return b""


def exclusion_rule(concept: bytes, item: list[bytes], layout: Layout, *, ages_kept: bool) -> str:
    """Return the rule that removes a content item; empty when the item is kept.

    Parameters
    ----------
    concept : bytes
        Encoded concept name of the source's item.
    item : list of bytes
        Elements of the rewritten item.
    layout : Layout
    ages_kept : bool
        Whether the policy keeps ages; an item with a number over 89 is removed nevertheless.

    Notes
    -----
    A name under any other concept remains an item whose value Table E.1-1 replaces: removing the item would
    change the meaning of the report.
    """
    chunks = {read_element_header(chunk, 0, len(chunk), layout)[0]: chunk for chunk in item}
    value_type = chunks.get(_VALUE_TYPE, b"")
    codes = _CODE.findall(concept)
    if _AGE in codes:
        old = any(int(number) > _MAX_AGE for number in _NUMBER.findall(chunks.get(_MEASURED_VALUE, b"")))
        return "X:subject-context" if old or not ages_kept else ""
    for code in codes:
        if code in _RULES:
            return _RULES[code]
    if b"TEXT" not in value_type:
        return ""
    if not _IDENTIFIERS.isdisjoint(codes) or _OTHER_IDENTIFIERS.search(concept):
        return "X:identifier-context"
    return "X:institution" if _PLACE_CONCEPTS.search(concept) else ""


@dataclass(slots=True)
class ContentTree:
    """Positions of the content items of a report during one walk.

    Attributes
    ----------
    before : frozenset of ItemPath
        Items that the previous walk removed.
    here : ItemPath
        The current item.
    dropped : set of ItemPath
        Items that this walk removes.
    dangling : set of ItemPath
        Items with a reference to a removed one; they are removed as well.
    refers : bool
        Whether the report contains references.
    """

    before: frozenset[ItemPath] = frozenset()
    here: ItemPath = (1,)
    dropped: set[ItemPath] = field(default_factory=set)
    dangling: set[ItemPath] = field(default_factory=set)
    refers: bool = False

    def settled(self) -> bool:
        """Return whether the references written in this walk are correct."""
        # They were renumbered for the removals of the previous walk, which must be those of this one.
        return not self.refers or self.before == self.dropped

    def renumbered(self, place: ItemPath) -> ItemPath | None:
        """Convert a position in the source's tree to one in the released tree; ``None`` if it was removed."""
        new: list[int] = []
        for depth, ordinal in enumerate(place):
            above = place[:depth]
            if (*above, ordinal) in self.before:
                return None
            removed = sum(1 for sibling in range(1, ordinal) if (*above, sibling) in self.before)
            new.append(ordinal - removed)
        return tuple(new)
