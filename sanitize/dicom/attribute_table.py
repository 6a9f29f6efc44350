"""What a policy does with each attribute, as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from medsanitize.policies.model import OPTION_CODES, Dicom
from medsanitize.policies.tables.standard import ConfidentialityRow, confidentiality_rows
from medsanitize.sanitize.dicom.rules import AttributeRules

_EFFECTS: Final[Mapping[str, str]] = {
    "K": "kept",
    "C": "cleaned: identifiers and dates in it are removed or shifted",
    "D": "replaced by a dummy value",
    "Z": "emptied, or replaced where the IOD requires a value",
    "X": "removed",
    "U": "replaced by a new UID",
    "Z/D": "replaced or emptied, by its Type",
    "X/Z": "removed or emptied, by its Type",
    "X/D": "removed or replaced, by its Type",
    "X/Z/D": "removed, emptied or replaced, by its Type",
    "X/Z/U*": "kept as references, with new UIDs",
    "G": "by its value representation: numbers and codes are kept, free text and names are not",
}
_MOST_UNLISTED: Final = 200


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """What happens to an attribute.

    Attributes
    ----------
    tag : str
        ``(gggg,eeee)``, with x for any digit.
    keyword : str
        Keyword of the data dictionary.
    action : str
        Action code of PS3.15 Table E.1-1a; G for the rule of the value representation.
    effect : str
        The action in words.
    source : str
        ``policy``, ``option``, ``E.1-1`` or ``unlisted``.
    reason : str
        Why, as a sentence.
    """

    tag: str
    keyword: str
    action: str
    effect: str
    source: str
    reason: str


def attribute_table(dicom: Dicom, search: str = "") -> tuple[AttributeRule, ...]:
    """Return the attributes of Table E.1-1 and of the policy that match a search, ordered by tag."""
    rules, wanted = AttributeRules(dicom), search.lower().split()
    rows = [row for row in confidentiality_rows() if row.mask != "private"]
    found = [_of_row(rules, dicom, row) for row in rows]
    stated = {one.tag for one in found}
    found += [
        _rule(mask, _keyword(mask), action, "policy", _POLICY)
        for mask, action in dicom.attributes.items()
        if _shown(mask) not in stated
    ]
    if search.strip():
        found += _unlisted(search.strip(), {one.tag for one in found})
    found = [one for one in found if all(word in _text(one) for word in wanted)]
    return tuple(sorted(found, key=lambda one: one.tag))


_POLICY: Final = "The policy says so (dicom.attributes)."
_UNLISTED: Final = "It is in no table of PS3.15: the rule of its value representation applies."


def _of_row(rules: AttributeRules, dicom: Dicom, row: ConfidentialityRow) -> AttributeRule:
    tag, action = int(row.mask.replace("x", "0"), 16), rules.action_of(row)
    if rules.override(tag) is not None:
        return _rule(row.mask, row.keyword, action, "policy", _POLICY)
    if action == row.basic:
        return _rule(
            row.mask, row.keyword, action, "E.1-1", "The Basic Profile says so (PS3.15 Table E.1-1)."
        )
    on = [name for name, is_on in dicom.options if is_on and row.options.get(name)]
    names = ", ".join(f"{OPTION_CODES[name][1]} ({OPTION_CODES[name][0]})" for name in on)
    return _rule(row.mask, row.keyword, action, "option", f"{names}.")


def _rule(mask: str, keyword: str, action: str, source: str, reason: str) -> AttributeRule:
    return AttributeRule(_shown(mask), keyword, action, _EFFECTS.get(action, action), source, reason)


def _shown(mask: str) -> str:
    return f"({mask[:4].upper()},{mask[4:].upper()})".replace("X", "x")


def _text(one: AttributeRule) -> str:
    return " ".join((one.tag, one.keyword, one.action, one.effect, one.source, one.reason)).lower()


def _keyword(mask: str) -> str:
    from pydicom.datadict import keyword_for_tag

    return "" if "x" in mask else keyword_for_tag(int(mask, 16))


def _unlisted(search: str, stated: set[str]) -> Iterator[AttributeRule]:
    """Yield attributes of the data dictionary that match by keyword or tag and are in neither table."""
    from pydicom.datadict import keyword_dict

    wanted, left = search.lower(), _MOST_UNLISTED
    for keyword, tag in keyword_dict.items():
        one = _rule(f"{tag:08x}", keyword, "G", "unlisted", _UNLISTED)
        if left and one.tag not in stated and (wanted in keyword.lower() or wanted in one.tag.lower()):
            left -= 1
            yield one
