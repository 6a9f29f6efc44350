"""Filters of a deid recipe: conditions on the header, and the areas that are blanked where they hold."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from medsanitize.policies.migration.foreign_rules import DeviceRegion, ForeignNote

_ONE_FIELD: Final = ("missing", "empty", "present")
_WITH_VALUE: Final = ("contains", "notcontains", "equals", "notequals")
_COORDINATES: Final = re.compile(r"(keep)?(ctp)?coordinates\s+(.+)", re.IGNORECASE)
# Conditions that a region of the policy can state, and its fields.
_FIELDS: Final = {
    "Modality": "modality",
    "Manufacturer": "manufacturer",
    "ManufacturerModelName": "model",
    "SoftwareVersions": "software",
    "Rows": "rows",
    "Columns": "columns",
}


class Unreadable(Exception):
    """A line that is no condition; the message says why."""


@dataclass(slots=True)
class FilterLabel:
    """One filter: its conditions as (operator, action, field, value), and its areas."""

    line: int
    conditions: list[tuple[str, str, str, str]] = field(default_factory=list)
    boxes: list[tuple[int, int, int, int]] = field(default_factory=list)
    keeps: bool = False


def read_condition(label: FilterLabel, line: str) -> None:
    """Add one line to a filter.

    Raises
    ------
    Unreadable
        The line is neither a condition nor coordinates.
    """
    line = line.split("#")[0].strip()
    coordinates = _COORDINATES.fullmatch(line)
    if coordinates is not None:
        label.keeps = label.keeps or coordinates[1] is not None
        if coordinates[1] is None:
            label.boxes.append(_box(coordinates[3], corners=coordinates[2] is None))
        return
    operator = "||" if line.startswith("||") else "+"
    for part in re.split(r"\|\|(?=\s*[a-z])|\+(?=\s*[a-z])", line.removeprefix("||").removeprefix("+")):
        label.conditions.append((operator, *_condition(part.strip())))
        operator = "||" if "||" in line else "+"


def _condition(text: str) -> tuple[str, str, str]:
    action, _, rest = text.partition(" ")
    action, words = action.lower(), rest.split(None, 1)
    if action in _ONE_FIELD and len(words) >= 1:
        return action, words[0], ""
    if action in _WITH_VALUE and len(words) == 2:
        return action, words[0], words[1].strip()
    raise Unreadable("The condition is unknown, or has no value")


def _box(text: str, *, corners: bool) -> tuple[int, int, int, int]:
    """Return left, top, width and height."""
    numbers = [part.strip() for part in text.split(",")]
    if len(numbers) != 4 or not all(part.isdecimal() and len(part) < 7 for part in numbers):
        raise Unreadable("The coordinates are not four numbers")
    left, top, third, fourth = map(int, numbers)
    width, height = (third - left, fourth - top) if corners else (third, fourth)
    if width <= 0 or height <= 0:
        raise Unreadable("The coordinates enclose no area")
    return left, top, width, height


def device_region(label: FilterLabel) -> DeviceRegion | ForeignNote:
    """Return the areas of a filter for a policy, or why there are none.

    A region of the policy holds for equal values only. ``contains`` is as good for a modality, whose values
    are codes; a part of a manufacturer's name is not.
    """
    if not label.boxes or label.keeps:
        what = "an area that is kept" if label.keeps else "conditions without an area"
        return ForeignNote(label.line, f"a filter: {what}")
    fields: dict[str, str | int] = {}
    for operator, action, name, value in label.conditions:
        stated = _FIELDS.get(name)
        is_code = name == "Modality" and re.fullmatch(r"[A-Z]{2,16}", value) is not None
        exact = action == "equals" or (action == "contains" and is_code)
        if operator != "+" or stated is None or stated in fields or not exact or "|" in value:
            return ForeignNote(label.line, "a filter: a region of the policy states equal values only")
        if stated == "modality" and not is_code:
            return ForeignNote(label.line, "a filter: its modality is not a code")
        if stated in ("rows", "columns") and not (value.isdecimal() and 0 < int(value) < 2**31):
            return ForeignNote(label.line, "a filter: its size is no number")
        fields[stated] = int(value) if stated in ("rows", "columns") else value
    if not fields:
        return ForeignNote(label.line, "a filter without conditions")
    return DeviceRegion(label.line, tuple(fields.items()), tuple(label.boxes))
