"""Read rules of Kitware: a dictionary of dicom-anonymizer (JSON), or rules of ImageDePHI (YAML)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from medsanitize.errors import Problem
from medsanitize.policies.migration.foreign_rules import (
    Effect,
    ForeignNote,
    ForeignRule,
    ForeignRules,
    attribute_or_note,
)
from medsanitize.policies.strict_yaml import Node, read_yaml

_TAG: Final = re.compile(
    r"\(\s*0x([0-9A-Fa-f]{1,4})\s*,\s*0x([0-9A-Fa-f]{1,4})"
    r"(?:\s*,\s*0x([0-9A-Fa-f]{1,4})\s*,\s*0x([0-9A-Fa-f]{1,4}))?\s*\)"
)
# With and without underscores: older versions have replaceUID, newer ones replace_UID.
_ACTIONS: Final[dict[str, Effect]] = {
    **dict.fromkeys(("replace", "replaceelement", "replaceelementdate", "replaceelementdatetime"), "replace"),
    **dict.fromkeys(("replaceuid", "replaceelementuid"), "uid"),
    **dict.fromkeys(("empty", "emptyelement", "deleteorempty"), "empty"),
    **dict.fromkeys(("delete", "deleteelement"), "remove"),
    **dict.fromkeys(("emptyorreplace", "deleteorreplace"), "replace"),
    **dict.fromkeys(("deleteoremptyorreplace", "deleteoremplyorreplace"), "replace"),
    "deleteoremptyorreplaceuid": "uid",
    "keep": "keep",
    "clean": "clean",
    "regexp": "derive",
}
_SLIDE_ACTIONS: Final[dict[str, Effect]] = {
    "keep": "keep",
    "delete": "remove",
    "empty": "empty",
    "replace": "replace",
    "replace_dummy": "replace",
    "replace_uid": "uid",
    "check_type": "keep",
    "modify_date": "shift",
}
_SLIDE_SECTIONS: Final = ("tiff", "svs", "dicom")
_SLIDE_TEXTS: Final = ("name", "description", "output_file_name", "strict")
_MOST_PROBLEMS: Final = 20


def is_tag_dictionary(tree: Node) -> bool:
    """Report whether a file is a dictionary of dicom-anonymizer."""
    keys = list(tree.keys)
    return bool(keys) and all(key.strip().startswith("(") for key in keys)


def is_slide_rules(tree: Node) -> bool:
    """Report whether a file has rules of ImageDePHI."""
    return any(key in _SLIDE_SECTIONS for key in tree.keys)


def read_kitware_rules(text: str) -> tuple[ForeignRules | None, list[Problem]]:
    """Read either form; None if it has problems."""
    tree, problems = read_yaml(text)
    if tree is None or problems:
        return None, problems
    if is_tag_dictionary(tree):
        return _read_dictionary(tree)
    if is_slide_rules(tree):
        return _read_slide_rules(tree)
    return None, [Problem(1, 1, "The rules are of no known program", "See the manual, docs/migration.md")]


def _children(node: Node) -> Iterator[tuple[str, int, Node]]:
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            yield name, node.keys[name][0], child


# -- dicom-anonymizer -----------------------------------------------------------------------


def _read_dictionary(tree: Node) -> tuple[ForeignRules | None, list[Problem]]:
    rules: list[ForeignRule] = []
    notes: list[ForeignNote] = []
    problems: list[Problem] = []
    for name, line, child in _children(tree):
        match = _TAG.fullmatch(name.strip())
        if match is None:
            problems.append(Problem(*tree.keys[name], "The key is no tag", "Write it as (0x0010, 0x0010)"))
            continue
        action = _action_name(child)
        effect = _ACTIONS.get(action.replace("_", "").lower())
        if effect is None:
            notes.append(ForeignNote(line, "an action that is defined in a program of its own"))
            continue
        found = _mask(line, match, action)
        if isinstance(found, ForeignNote):
            notes.append(found)
        else:
            rules.append(ForeignRule(line, found, effect, action))
    if problems:
        return None, problems[:_MOST_PROBLEMS]
    return ForeignRules("Kitware dicom-anonymizer dictionary", tuple(rules), tuple(notes)), []


def _action_name(node: Node) -> str:
    if isinstance(node.value, dict) and "action" in node.value:
        node = node.value["action"]
    return node.value if isinstance(node.value, str) else ""


def _mask(line: int, match: re.Match[str], action: str) -> str | ForeignNote:
    """Return the mask of a tag; the third and fourth number say which of its bits count."""
    tag = match[1].lower().zfill(4) + match[2].lower().zfill(4)
    if match[3] is not None:
        bits = match[3].lower().zfill(4) + match[4].lower().zfill(4)
        if not set(bits) <= {"0", "f"}:
            return ForeignNote(line, f"{action}: a mask that ends within a digit")
        tag = "".join(digit if bit == "f" else "x" for digit, bit in zip(tag, bits, strict=True))
    if "x" not in tag[:4] and int(tag[:4], 16) % 2:
        kept = _ACTIONS.get(action.replace("_", "").lower()) in ("keep", "clean", "derive")
        return ForeignNote(line, f"{action} of a private attribute; see dicom.safe_private", kept)
    return attribute_or_note(line, tag, action)


# -- ImageDePHI -----------------------------------------------------------------------------


def _read_slide_rules(tree: Node) -> tuple[ForeignRules | None, list[Problem]]:
    rules: list[ForeignRule] = []
    notes: list[ForeignNote] = []
    problems: list[Problem] = []
    for name, _, child in _children(tree):
        if name in _SLIDE_TEXTS:
            continue
        if name not in _SLIDE_SECTIONS:
            problems.append(Problem(*tree.keys[name], "The section is unknown", "Write tiff, svs or dicom"))
            continue
        for part, place, group in _children(child):
            if part == "metadata" and name == "dicom":
                _read_metadata(group, rules, notes, problems)
            elif part in ("metadata", "image_description"):
                notes += _kept_fields(group, name)
            elif part == "associated_images":
                notes += _kept_images(group)
            elif part == "delete_custom_metadata":
                if group.value is False:
                    notes.append(ForeignNote(place, "private attributes are kept", weaker=True))
            else:
                problems.append(
                    Problem(
                        *child.keys[part], "The section is unknown", "Write metadata or associated_images"
                    )
                )
    if problems:
        return None, problems[:_MOST_PROBLEMS]
    return ForeignRules("DSA ImageDePHI rules", tuple(rules), tuple(notes)), []


def _read_metadata(
    group: Node, rules: list[ForeignRule], notes: list[ForeignNote], problems: list[Problem]
) -> None:
    for name, line, child in _children(group):
        action = _action_name(child)
        effect = _SLIDE_ACTIONS.get(action)
        if effect is None:
            problems.append(
                Problem(*group.keys[name], "The action is unknown", "Write keep, delete or replace")
            )
            continue
        found = attribute_or_note(line, name, action)
        if isinstance(found, ForeignNote):
            notes.append(found)
        else:
            rules.append(ForeignRule(line, found, effect, action))


# What a slide keeps in a release of its own accord: see docs/slides.md.
_TECHNICAL: Final = frozenset(
    "AppMag MPP mpp ImageWidth ImageLength BitsPerSample Compression Photometric SamplesPerPixel XResolution"
    " YResolution ResolutionUnit TileWidth TileHeight".split()
)


def _kept_fields(group: Node, section: str) -> Iterator[ForeignNote]:
    """Note the fields of a slide that the rules keep; a release has only those that viewers need."""
    kept = [(line, name) for name, line, child in _children(group) if _action_name(child) == "keep"]
    others = [line for line, name in kept if name not in _TECHNICAL]
    if others:
        yield ForeignNote(
            others[0],
            f"{section}: {len(others)} fields are kept; a release has those that viewers need",
            weaker=True,
        )


def _kept_images(group: Node) -> Iterator[ForeignNote]:
    for name, line, child in _children(group):
        if name in ("label", "macro", "overview", "default") and _action_name(child) == "keep":
            shown = "other associated images are" if name == "default" else f"the {name} image is"
            yield ForeignNote(line, f"{shown} kept", weaker=True)
