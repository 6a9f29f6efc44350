"""Read a recipe of pydicom's deid: sections of lines ``ACTION FIELD VALUE``, and filters with coordinates."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from medsanitize.errors import Problem
from medsanitize.policies.migration.deid_filters import FilterLabel, Unreadable, device_region, read_condition
from medsanitize.policies.migration.foreign_rules import (
    DeviceRegion,
    Effect,
    ForeignNote,
    ForeignRule,
    ForeignRules,
    Setting,
    attribute_or_note,
)
from medsanitize.policies.tag_patterns import keyword_masks

_SECTIONS: Final = ("header", "filter", "labels", "fields", "values")
_ACTIONS: Final[dict[str, Effect]] = {
    "ADD": "replace",
    "BLANK": "empty",
    "JITTER": "shift",
    "KEEP": "keep",
    "REMOVE": "remove",
    "REPLACE": "replace",
}
_NEEDS_A_VALUE: Final = ("ADD", "JITTER", "REPLACE")
_UID_FUNCTIONS: Final = ("deid_func:suid", "deid_func:dicom_uuid", "deid_func:pydicom_uuid")
_EXPANDERS: Final = ("contains", "startswith", "endswith")
_OTHER_EXPANDERS: Final = ("except", "allexcept", "fields", "values", "select")
_PRIVATE: Final = re.compile(r"\([0-9A-Fa-f]{4},\s*\".{1,64}?\",\s*[0-9A-Fa-f]{2,4}\)")
_MOST_PROBLEMS: Final = 20


@dataclass(slots=True)
class _Recipe:
    rules: list[ForeignRule] = field(default_factory=list)
    notes: list[ForeignNote] = field(default_factory=list)
    removed: list[tuple[int, Setting]] = field(default_factory=list)
    regions: list[DeviceRegion] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    label: FilterLabel | None = None

    def problem(self, line: int, message: str, remedy: str) -> None:
        self.problems.append(Problem(line, 1, message, remedy))


def read_deid_recipe(text: str) -> tuple[ForeignRules | None, list[Problem]]:
    """Read a recipe; None if it has problems."""
    recipe, section, stated = _Recipe(), "", False
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if re.match(r"format\s", line, re.IGNORECASE):
            stated = line.split(None, 1)[1].split("#")[0].strip().lower() == "dicom"
        elif line.startswith("%"):
            _close_label(recipe)
            section = line[1:].split("#")[0].split()[0].lower() if line[1:].split() else ""
            _open_section(recipe, number, section)
        elif section == "filter":
            _read_filter_line(recipe, number, line)
        elif section == "header":
            _read_header_line(recipe, number, line)
        elif section not in _SECTIONS:
            recipe.problem(number, "The line is in no section", "Put it below %header or %filter")
    _close_label(recipe)
    if not stated:
        recipe.problem(1, "The recipe does not say FORMAT dicom", "Start with: FORMAT dicom")
    if recipe.problems:
        return None, recipe.problems[:_MOST_PROBLEMS]
    found = ForeignRules(
        "pydicom deid recipe",
        tuple(recipe.rules),
        tuple(recipe.notes),
        tuple(recipe.removed),
        tuple(recipe.regions),
        keeps_unnamed=True,
    )
    return found, []


def _open_section(recipe: _Recipe, number: int, section: str) -> None:
    if section not in _SECTIONS:
        recipe.problem(
            number, "The section is unknown", "Write %header, %filter, %labels, %fields or %values"
        )
    elif section not in ("header", "filter"):
        recipe.notes.append(ForeignNote(number, f"the section %{section}"))


# -- header ---------------------------------------------------------------------------------


def _read_header_line(recipe: _Recipe, number: int, line: str) -> None:
    match = re.fullmatch(r"([A-Za-z]+)\s+(\([^)]*\)|\S+)\s*(.*)", line)
    action = match[1].upper() if match else ""
    if match is None or action not in _ACTIONS:
        remedy = "Write ADD, BLANK, JITTER, KEEP, REMOVE or REPLACE, and a field"
        recipe.problem(number, "The line is no action on a field", remedy)
        return
    name, value = match[2], match[3].split("#")[0].strip()
    if action in _NEEDS_A_VALUE and not value:
        recipe.problem(number, f"{action} has no value", "Write one behind the field")
        return
    effect = _effect(action, value)
    if _removes_private(action, name, value):
        recipe.removed.append((number, "private"))
        return
    for found in _attributes(number, name, action):
        if isinstance(found, ForeignNote):
            recipe.notes.append(found)
        else:
            recipe.rules.append(ForeignRule(number, found, effect, action))


def _removes_private(action: str, name: str, value: str) -> bool:
    return action == "REMOVE" and name.upper() == "ALL" and value.lower().endswith("func:is_tag_private")


def _effect(action: str, value: str) -> Effect:
    if action == "REMOVE" and value:
        return "conditional"  # a function decides for each object
    if action == "REPLACE" and value.lower() in _UID_FUNCTIONS:
        return "uid"
    if action in ("ADD", "REPLACE") and re.match(r"(var|func|deid_func):", value, re.IGNORECASE):
        return "unknown"
    return _ACTIONS[action]


def _attributes(number: int, name: str, action: str) -> list[str | ForeignNote]:
    """Return the attributes that a field means, or why it cannot be told."""
    if _PRIVATE.fullmatch(name):
        kept = action in ("KEEP", "JITTER")
        return [ForeignNote(number, f"{action} of a private attribute; see dicom.safe_private", kept)]
    kind, colon, pattern = name.partition(":")
    if name.upper() == "ALL" or (colon and kind.lower() in _OTHER_EXPANDERS):
        return [ForeignNote(number, f"{action} of fields that depend on the object", action == "KEEP")]
    if colon and kind.lower() in _EXPANDERS:
        if not pattern.isalnum():
            return [ForeignNote(number, f"{action} of fields by a regular expression", action == "KEEP")]
        return [mask for keyword, mask in keyword_masks().items() if _expands(kind, keyword, pattern)]
    if colon:
        return [ForeignNote(number, f"{action} of a field of an unknown form")]
    return [attribute_or_note(number, name, action)]


def _expands(kind: str, keyword: str, pattern: str) -> bool:
    keyword, pattern = keyword.lower(), pattern.lower()
    if kind.lower() == "contains":
        return pattern in keyword
    return keyword.startswith(pattern) if kind.lower() == "startswith" else keyword.endswith(pattern)


# -- filters --------------------------------------------------------------------------------


def _read_filter_line(recipe: _Recipe, number: int, line: str) -> None:
    if line.upper().startswith("LABEL"):
        _close_label(recipe)
        recipe.label = FilterLabel(number)
    elif recipe.label is None:
        recipe.problem(number, "A condition stands before the first LABEL", "Start with: LABEL name")
    else:
        try:
            read_condition(recipe.label, line)
        except Unreadable as error:
            recipe.problem(number, str(error), "Correct the line, or delete its label")


def _close_label(recipe: _Recipe) -> None:
    """Turn the filter that ends here into areas of a device, or note that it cannot be."""
    label, recipe.label = recipe.label, None
    if label is None:
        return
    found = device_region(label)
    if isinstance(found, DeviceRegion):
        recipe.regions.append(found)
    else:
        recipe.notes.append(found)
