"""Which action of PS3.15 Table E.1-1a an attribute gets: table, options, overrides, IOD type.

The order of precedence is: the policy's override, the options switched on, the Basic Profile,
and for what no table names the rule of its value representation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from medsanitize.policies.model import Dicom
from medsanitize.policies.tables.standard import ConfidentialityRow, attribute_types, confidentiality_rows
from medsanitize.sanitize.dicom.wsi import WHOLE_SLIDE

GENERIC = "G"
"""No table names the attribute: the rule of its value representation applies."""

_CONTENT_SEQUENCE = 0x0040A730
_DATE_OPTIONS = ("retain_longitudinal_full_dates", "retain_longitudinal_modified_dates")


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to one attribute at one place.

    ``action``: K, C, D, Z, X, U of the standard or G. ``source`` says why: ``E.1-1``, ``option``,
    ``policy`` or ``unlisted``. ``type`` is the attribute's Type in the object's IOD there
    (``1 1C 2 2C 3``, empty when it does not belong there).
    """

    action: str
    source: str
    type: str


@dataclass(slots=True)
class Scope:
    """One place in the tree of a SOP class's attributes: the data set, or the items of a sequence.

    ``types`` is ``None`` for a SOP class that no IOD table has. ``strict`` scopes lie inside a
    sequence kept only because its IOD demands one: no text stays in them.
    """

    sop_class: str
    path: tuple[int, ...]
    types: dict[tuple[int, ...], str] | None
    strict: bool = False
    rules: dict[int, Rule] = field(default_factory=dict)
    children: dict[tuple[int, bool], Scope] = field(default_factory=dict)

    def child(self, tag: int, strict: bool) -> Scope:
        """The scope of the items of sequence ``tag``."""
        found = self.children.get((tag, strict))
        if found is None:
            found = Scope(self.sop_class, (*self.path, tag), self.types, self.strict or strict)
            self.children[tag, strict] = found
        return found

    def belongs(self, tag: int) -> bool:
        """Whether the IOD has the attribute at this place; unknown IODs have every attribute."""
        return self.types is None or self.type_of(tag) is not None

    def type_of(self, tag: int) -> str | None:
        """The attribute's Type here; content items nest without end and repeat their Types."""
        if self.types is None:
            return None
        path = self.path
        found = self.types.get((*path, tag))
        if found is None and path.count(_CONTENT_SEQUENCE) > 1:
            last = len(path) - 1 - path[::-1].index(_CONTENT_SEQUENCE)
            found = self.types.get((*path[last:], tag))
        return found


def root_scope(sop_class: str) -> Scope:
    """The top-level scope of a SOP class."""
    types = attribute_types(sop_class)
    return Scope(sop_class, (), dict(types) if types is not None else None)


def settle_by_type(code: str, attribute_type: str) -> str:
    """Settle a code by the attribute's Type, so that the object stays valid in its IOD.

    X stays X for what the IOD does not require; a Type 2 attribute is emptied and a Type 1
    attribute replaced, also where the table's code alone would break the IOD (PS3.15 E.1.1).
    """
    if code in ("U", "K", "C"):
        return code
    if code.startswith("X/Z/U"):
        return "U"
    if attribute_type == "1":
        return "D"
    choices = code.split("/")
    if attribute_type == "1C":
        return "D" if "D" in choices else choices[-1]
    if attribute_type in ("2", "2C"):
        return "Z" if "D" not in choices or "Z" in choices else "D"
    return choices[0]


_ICON = 0x00880200
"""A small copy of the image may show what the image no longer shows: it goes, whatever the policy says."""
_BIRTH_DATES = frozenset([0x00100033, 0x00100034, 0x00100035])
"""Birth and death dates in other calendars: identifying, and in no row of the table."""


class AttributeRules:
    """The rules of one policy, compiled once; answers by attribute and place."""

    def __init__(self, dicom: Dicom) -> None:
        self._options = {name for name, on in dicom.options if on}
        self._overrides = dict(dicom.attributes)
        self._rows = {row.mask: row for row in confidentiality_rows()}
        self._exact = {
            int(mask, 16): row for mask, row in self._rows.items() if "x" not in mask and len(mask) == 8
        }
        self._roots: dict[str, Scope] = {}

    def scope(self, sop_class: str) -> Scope:
        """The top-level scope of ``sop_class``; kept, since most objects share a few."""
        found = self._roots.get(sop_class)
        if found is None:
            found = self._roots[sop_class] = root_scope(sop_class)
        return found

    def rule(self, scope: Scope, tag: int) -> Rule:
        """The rule of public attribute ``tag`` at ``scope``."""
        found = scope.rules.get(tag)
        if found is None:
            found = scope.rules[tag] = self._resolve(scope, tag)
        return found

    def _resolve(self, scope: Scope, tag: int) -> Rule:
        attribute_type = _type_of(scope, tag)
        if tag == _ICON:
            return Rule("X", "icon-image", attribute_type)
        override = self.override(tag)
        if override is not None:
            return Rule(
                override if override in "KXCU" else settle_by_type(override, ""), "policy", attribute_type
            )
        if tag in _BIRTH_DATES:
            return Rule("X", "unlisted", attribute_type)
        row = self._row(tag)
        if row is None:
            return Rule(GENERIC, "unlisted", attribute_type)
        code = self._code_by_options(row)
        if scope.sop_class == WHOLE_SLIDE and any(row.options.get(name) for name in _DATE_OPTIONS):
            code = row.basic  # when a slide was scanned goes, as it does in the formats of vendors
        source = "E.1-1" if code == row.basic else "option"
        return Rule(settle_by_type(code, attribute_type), source, attribute_type)

    def override(self, tag: int) -> str | None:
        """The policy's own action for ``tag``, the narrowest mask first."""
        text = f"{tag:08x}"
        best: tuple[int, str] | None = None
        for mask, action in self._overrides.items():
            if all(m in ("x", t) for m, t in zip(mask, text, strict=True)):
                width = mask.count("x")
                if best is None or width < best[0]:
                    best = (width, action)
        return best[1] if best else None

    def _row(self, tag: int) -> ConfidentialityRow | None:
        found = self._exact.get(tag)
        if found is not None:
            return found
        group = tag >> 16
        if 0x5000 <= group <= 0x501E or 0x6000 <= group <= 0x601E:
            text = f"{tag:08x}"
            return self._rows.get(text[:2] + "xx" + text[4:]) or self._rows.get(text[:2] + "xxxxxx")
        return None

    def _code_by_options(self, row: ConfidentialityRow) -> str:
        codes = {row.options[name] for name in self._options if row.options.get(name)}
        device_date = bool(row.options.get("retain_device_identity")) and any(
            row.options.get(n) for n in _DATE_OPTIONS
        )
        if device_date:
            full = "retain_longitudinal_full_dates" in self._options
            return "K" if full and "retain_device_identity" in self._options else row.basic
        if "K" in codes:
            return "K"
        return "C" if "C" in codes else row.basic


_MACROS = {
    0x00080104: "1",
    0x00080102: "1C",
    0x00080100: "1C",
    0x0040A040: "1",
    0x0040A010: "1",
    0x00081150: "1",
    0x00081155: "1",
}
"""Types that hold wherever the macro is included: codes, content items, SOP references (PS3.3 8.8, 10)."""


def _type_of(scope: Scope, tag: int) -> str:
    """The attribute's Type at a place, that of a macro where the IOD's tables end."""
    return scope.type_of(tag) or (_MACROS.get(tag, "") if scope.path else "")


_HL7 = "2.16.840.1.113883."
_HL7_SCHEMES = (
    "6.1 6.2 6.3 6.4 6.5 6.6 6.8 6.12 6.13 6.14 6.24 6.42 6.43 6.43.1 6.44 6.51 6.53 6.56 6.57 6.63 6.69 "
    "6.73 6.76 6.82 6.83 6.86 6.88 6.90 6.96 6.99 6.100 6.103 6.104 6.119 6.177 6.210 6.256 6.257 "
    "6.285 6.345 3.26.1.1 3.26.1.2 3.26.1.5 3.913 4.9 13.226"
)
_CODING_SCHEMES = frozenset(_HL7 + number for number in _HL7_SCHEMES.split()) | {"1.2.276.0.7230010.3.0.0.1"}
"""Coding schemes of PS3.16 Section 8 that PS3.6 does not register, and that of a well-known toolkit.

LOINC, UCUM, ICD, SNOMED, CPT, MDC, MeSH, NDC, RxNorm, FMA, RadLex, UMLS and NCI, of HL7's registry.
"""


@cache
def registered_uids() -> frozenset[str]:
    """UIDs that identify no patient: those of PS3.6 and the OIDs of well-known coding schemes."""
    from pydicom._uid_dict import UID_dictionary

    return frozenset(UID_dictionary) | _CODING_SCHEMES
