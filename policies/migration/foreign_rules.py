"""The rules of another program in one form: what each leaves of an attribute, and where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medsanitize.policies.tag_patterns import InvalidTagPattern, parse_tag_pattern

Effect = Literal[
    "keep", "clean", "shift", "derive", "uid", "replace", "empty", "remove", "conditional", "unknown"
]
"""What a rule leaves of a value.

``keep``: the value. ``clean``: the value without identifiers, or a sequence with cleaned items. ``shift``: a
moved date. ``derive``: something that is computed from the value without a key. ``uid``: another UID.
``replace``: a value that does not depend on it. ``empty``, ``remove``: nothing. ``conditional``: it depends
on the object. ``unknown``: it is defined elsewhere.
"""

Setting = Literal["private", "curves", "overlays"]
"""Attributes that a rule removes as a whole."""


@dataclass(frozen=True, slots=True)
class ForeignRule:
    """A rule on one attribute.

    Attributes
    ----------
    line : int
        Where it is written.
    attribute : str
        ``ggggeeee`` as in a policy.
    effect : str
        What it leaves.
    written : str
        Its action as the other program calls it, without values.
    """

    line: int
    attribute: str
    effect: Effect
    written: str


@dataclass(frozen=True, slots=True)
class ForeignNote:
    """A line that has no equivalent, or that weakens a whole group of attributes."""

    line: int
    text: str
    weaker: bool = False


@dataclass(frozen=True, slots=True)
class DeviceRegion:
    """Areas that are blanked on a device: fields of ``FixedRegion`` and boxes (left, top, width, height)."""

    line: int
    fields: tuple[tuple[str, str | int], ...]
    boxes: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class ForeignRules:
    """All that a file of another program says.

    Attributes
    ----------
    language : str
        Name of the program and its format.
    rules : tuple of ForeignRule
    notes : tuple of ForeignNote
        What could not be read as a rule on one attribute.
    removed : tuple of (int, str)
        Line, and the attributes that are removed as a whole (`Setting`).
    regions : tuple of DeviceRegion
    keeps_unnamed : bool
        Whether the program keeps the attributes that the file does not name.
    """

    language: str
    rules: tuple[ForeignRule, ...]
    notes: tuple[ForeignNote, ...] = ()
    removed: tuple[tuple[int, Setting], ...] = ()
    regions: tuple[DeviceRegion, ...] = ()
    keeps_unnamed: bool = False


def attribute_or_note(line: int, name: str, written: str) -> str | ForeignNote:
    """Return an attribute as a policy writes it, or why the policy has none like it."""
    found = parse_tag_pattern(name)
    if not isinstance(found, InvalidTagPattern):
        return found
    if found.message.startswith("Group"):
        return ForeignNote(line, f"{written}: {found.message.lower()}")
    return ForeignNote(line, f"{written}: {found.message.lower()}. {found.remedy}")
