"""Read the settings of DSA WSI DeID: the section ``[wsi_deid]`` of a Girder configuration."""

from __future__ import annotations

import re
from typing import Final

from medsanitize.errors import Problem
from medsanitize.policies.migration.foreign_rules import ForeignNote, ForeignRules

_SECTION: Final = re.compile(r"\[([A-Za-z0-9_. -]+)\]\s*(?:[#;].*)?")
_SETTING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_FALSE: Final = ("False", "false", "0", "None", '""')
# How its own pages and names look, which decides nothing about what is released.
_OF_ITS_PAGES: Final = re.compile(
    r"(show|hide|require|reject|phi|edit|reimport|name|folder|image|validate|import|new|upload_metadata_for"
    r"|add|sftp|ingest|ocr|database|large|unfiled)_?\w*"
)
_MOST_PROBLEMS: Final = 20


def has_settings(text: str) -> bool:
    """Report whether a file has the section ``[wsi_deid]``."""
    return re.search(r"(?m)^\s*\[wsi_deid\]", text) is not None


def read_wsi_deid_settings(text: str) -> tuple[ForeignRules | None, list[Problem]]:
    """Read the settings; None if they have problems."""
    notes: list[ForeignNote] = []
    problems: list[Problem] = []
    inside, depth = False, 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if depth:  # a value of several lines
            depth += _brackets(line)
        elif match := _SECTION.fullmatch(line):
            inside = match[1] == "wsi_deid"
        elif not inside or not line or line[0] in "#;":
            continue
        elif (setting := _SETTING.fullmatch(line)) is None:
            problems.append(Problem(number, 1, "The line is no setting", "Write name = value"))
        else:
            depth = _brackets(setting[2])
            found = _note(number, setting[1], setting[2].strip())
            if isinstance(found, Problem):
                problems.append(found)
            elif found is not None:
                notes.append(found)
    if depth:
        problems.append(Problem(len(text.splitlines()), 1, "A bracket is not closed", "Close it"))
    if problems:
        return None, problems[:_MOST_PROBLEMS]
    return ForeignRules("DSA WSI DeID settings", (), tuple(notes)), []


def _brackets(text: str) -> int:
    """Return how many brackets a line opens and does not close, outside quotes."""
    bare = re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", "", text)
    return sum(map(bare.count, "[{(")) - sum(map(bare.count, ")}]"))


def _note(line: int, name: str, value: str) -> ForeignNote | Problem | None:
    if name == "always_redact_label":
        weaker = value in _FALSE
        return (
            ForeignNote(line, "the label image is kept unless a person redacts it", True) if weaker else None
        )
    if name.startswith("redact_macro"):
        if value in _FALSE:
            return ForeignNote(line, "the macro image is kept unless a person redacts it", True)
        return ForeignNote(line, f"{name}: see wsi.macro, which keeps a part of the macro image")
    if name.startswith("no_redact_control_keys"):
        return ForeignNote(line, f"{name}: these fields are always kept", True)
    if name in ("upload_metadata_add_to_images", "add_title_to_label"):
        return ForeignNote(line, f"{name}: see wsi.label and wsi.specimens")
    if _OF_ITS_PAGES.fullmatch(name):
        return None
    return Problem(line, 1, "The setting is unknown", "Delete it, and decide in the policy yourself")
