"""Choice of the action (PS3.15 Table E.1-1a) for an attribute of an IOD.

Order of precedence: override of the policy, enabled options (PS3.15 E.3), Basic Profile (Table E.1-1), and
for attributes in no table the rule of their value representation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from medsanitize.policies.model import Dicom
from medsanitize.policies.tables.standard import (
    ConfidentialityRow,
    attribute_types,
    confidentiality_rows,
    private_sop_classes,
)
from medsanitize.sanitize.dicom.claimed_options import DATE_OPTIONS, claimed_options
from medsanitize.sanitize.dicom.wsi import WHOLE_SLIDE

GENERIC = "G"
"""Action for attributes in no table: the rule of their value representation applies."""

_CONTENT_SEQUENCE = 0x0040A730


@dataclass(frozen=True, slots=True)
class Rule:
    """The action for one attribute in one scope.

    Attributes
    ----------
    action : str
        ``K``, ``C``, ``D``, ``Z``, ``X`` or ``U`` (PS3.15 Table E.1-1a), or `GENERIC`.
    source : str
        Why: ``E.1-1``, ``option``, ``policy``, ``unlisted``, ``icon-image`` or ``safe-private``.
    type : str
        Type of the attribute in the IOD (PS3.5 7.4): ``1``, ``1C``, ``2``, ``2C`` or ``3``; empty when the
        attribute does not belong to the scope.
    """

    action: str
    source: str
    type: str


@dataclass(slots=True)
class Scope:
    """The data set of a SOP class, or the items of one of its sequences.

    Attributes
    ----------
    sop_class : str
    path : tuple of int
        Tags of the enclosing sequences.
    types : dict or None
        Tag path -> Type in the IOD; ``None`` for a SOP class without an IOD table.
    strict : bool
        Whether the scope is inside a sequence that is kept only because the IOD requires it: free text is
        removed there.
    rules, children : dict
        Caches of the rules and of the nested scopes.
    """

    sop_class: str
    path: tuple[int, ...]
    types: dict[tuple[int, ...], str] | None
    strict: bool = False
    rules: dict[int, Rule] = field(default_factory=dict)
    children: dict[tuple[int, bool], Scope] = field(default_factory=dict)

    def child(self, tag: int, strict: bool) -> Scope:
        """Return the scope of the items of sequence ``tag``."""
        found = self.children.get((tag, strict))
        if found is None:
            found = Scope(self.sop_class, (*self.path, tag), self.types, self.strict or strict)
            self.children[tag, strict] = found
        return found

    def belongs(self, tag: int) -> bool:
        """Return whether the IOD contains the attribute in this scope; an unknown one contains all."""
        return self.types is None or self.type_of(tag) is not None

    def type_of(self, tag: int) -> str | None:
        """Return the Type of the attribute in this scope, or ``None``."""
        if self.types is None:
            return None
        path = self.path
        found = self.types.get((*path, tag))
        # Content items include themselves (PS3.3 C.17.3), so the tables list one level of them only.
        if found is None and path.count(_CONTENT_SEQUENCE) > 1:
            last = len(path) - 1 - path[::-1].index(_CONTENT_SEQUENCE)
            found = self.types.get((*path[last:], tag))
        return found


def root_scope(sop_class: str) -> Scope:
    """Return the top-level scope of a SOP class."""
    types = attribute_types(sop_class)
    return Scope(sop_class, (), dict(types) if types is not None else None)


def settle_by_type(code: str, attribute_type: str) -> str:
    """Resolve a compound action code by the Type of the attribute, so that the object conforms to its IOD.

    X remains X for attributes that the IOD does not require. A Type 2 attribute is emptied and a Type 1
    attribute replaced, also where the code of the table would violate the IOD (PS3.15 E.1.1).

    Parameters
    ----------
    code : str
        Action code of Table E.1-1, for example ``X/Z/D``.
    attribute_type : str
        As in `Rule`.

    Returns
    -------
    str
        A single action.
    """
    if code in ("U", "K", "C"):
        return code
    # X/Z/U* is for sequences of references: they are kept, and the UIDs in them replaced.
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


# The icon (PS3.3 C.7.6.1.1.6) is a small copy of the image: it may show what was blanked in the image.
_ICON = 0x00880200
# The name of an ethics committee is allowed only beside its approval number (PS3.3 C.7.1.3.1), which the
# profile removes: a dummy name by itself would violate the IOD.
_PRESENT_WITH = {0x00120081: 0x00120082}
# Birth and death dates in alternative calendars identify, but have no row in Table E.1-1.
_BIRTH_DATES = frozenset([0x00100033, 0x00100034, 0x00100035])


class AttributeRules:
    """The rules of one policy by attribute and scope.

    Parameters
    ----------
    dicom : Dicom
        The ``dicom`` section of the policy.
    """

    def __init__(self, dicom: Dicom) -> None:
        self._options = {name for name, on in dicom.options if on}
        self._overrides = dict(dicom.attributes)
        rows = [row for row in confidentiality_rows() if row.mask != "private"]
        self._exact = {int(row.mask, 16): row for row in rows if "x" not in row.mask}
        # The digits that a mask states, and their values; the mask with the fewest wildcards first.
        self._masked = sorted(
            (
                (_digits(row.mask, "f", "0"), _digits(row.mask, "", "0"), row)
                for row in rows
                if "x" in row.mask
            ),
            key=lambda one: one[2].mask.count("x"),
        )
        self._roots: dict[str, Scope] = {}
        self._claims: dict[str, frozenset[str]] = {}
        self._dicom = dicom

    def scope(self, sop_class: str) -> Scope:
        """Return the top-level scope of ``sop_class``."""
        found = self._roots.get(sop_class)
        if found is None:
            found = self._roots[sop_class] = root_scope(sop_class)
        return found

    def claims(self, sop_class: str) -> frozenset[str]:
        """Return the options that objects of a SOP class may state, without those of the pixels."""
        found = self._claims.get(sop_class)
        if found is None:
            found = claimed_options(self._dicom.options, self.override, sop_class)
            self._claims[sop_class] = found
        return found

    def rule(self, scope: Scope, tag: int) -> Rule:
        """Return the rule for the public attribute ``tag`` in ``scope``."""
        found = scope.rules.get(tag)
        if found is None:
            found = scope.rules[tag] = self._resolve(scope, tag)
        return found

    def _resolve(self, scope: Scope, tag: int) -> Rule:
        attribute_type = _type_of(scope, tag)
        if tag == _ICON:  # before the override: no policy can keep it
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
        if scope.sop_class == WHOLE_SLIDE and any(row.options.get(name) for name in DATE_OPTIONS):
            code = row.basic  # scan dates are removed, as from slides in vendor formats
        source = "E.1-1" if code == row.basic else "option"
        needed = _PRESENT_WITH.get(tag)
        if needed is not None and self.rule(scope, needed).action == "X":
            return Rule("X", source, attribute_type)
        return Rule(settle_by_type(code, attribute_type), source, attribute_type)

    def action_of(self, row: ConfidentialityRow) -> str:
        """Return the action code of a row of the table under the policy, before a Type settles it."""
        return self.override(int(row.mask.replace("x", "0"), 16)) or self._code_by_options(row)

    def override(self, tag: int) -> str | None:
        """Return the action that the policy sets for ``tag``; the mask with the fewest wildcards decides."""
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
        # Curves and overlays are repeating groups (PS3.5 7.6): the table lists them as 50xx and 60xx.
        return next((row for stated, value, row in self._masked if tag & stated == value), None)

    def _code_by_options(self, row: ConfidentialityRow) -> str:
        codes = {row.options[name] for name in self._options if row.options.get(name)}
        device_date = bool(row.options.get("retain_device_identity")) and any(
            row.options.get(n) for n in DATE_OPTIONS
        )
        if device_date:
            # The calibration of a device is often of the day of the study: with the device alone, the true
            # date would tell when that was; shifted, equal dates of one device would tell the shifts.
            return "K" if "retain_longitudinal_full_dates" in self._options else row.basic
        if "K" in codes:
            return "K"
        return "C" if "C" in codes else row.basic


def _digits(mask: str, stated: str, wild: str) -> int:
    """Return a mask as a number: ``stated`` (or the digit itself) for its digits, ``wild`` for each x."""
    return int("".join(wild if digit == "x" else stated or digit for digit in mask), 16)


_MACROS = {
    0x00080104: "1",
    0x00080102: "1C",
    0x00080100: "1C",
    0x0040A040: "1",
    0x0040A010: "1",
    0x00081150: "1",
    0x00081155: "1",
}
"""Types in the macros for codes, content items and SOP references (PS3.3 8.8 and 10), wherever included."""


def _type_of(scope: Scope, tag: int) -> str:
    """Type of the attribute in the scope, or that of a macro below the depth of the IOD tables."""
    return scope.type_of(tag) or (_MACROS.get(tag, "") if scope.path else "")


_HL7 = "2.16.840.1.113883."
_HL7_SCHEMES = (
    "6.1 6.2 6.3 6.4 6.5 6.6 6.8 6.12 6.13 6.14 6.24 6.42 6.43 6.43.1 6.44 6.51 6.53 6.56 6.57 6.63 6.69 "
    "6.73 6.76 6.82 6.83 6.86 6.88 6.90 6.96 6.99 6.100 6.103 6.104 6.119 6.177 6.210 6.256 6.257 "
    "6.285 6.345 3.26.1.1 3.26.1.2 3.26.1.5 3.913 4.9 13.226"
)
_CODING_SCHEMES = frozenset(_HL7 + number for number in _HL7_SCHEMES.split()) | {"1.2.276.0.7230010.3.0.0.1"}
"""OIDs of coding schemes of PS3.16 Section 8 that PS3.6 does not register, and that of DCMTK.

LOINC, UCUM, ICD, SNOMED, CPT, MDC, MeSH, NDC, RxNorm, FMA, RadLex, UMLS and NCI, from the registry of HL7.
"""


@cache
def registered_uids() -> frozenset[str]:
    """Return UIDs that identify no patient.

    Those of PS3.6 Annex A, OIDs of common coding schemes, and documented private SOP classes, which have no
    IOD here.
    """
    from pydicom._uid_dict import UID_dictionary

    return frozenset(UID_dictionary) | _CODING_SCHEMES | private_sop_classes()
