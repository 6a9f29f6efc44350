"""Read a script of the Clinical Trial Processor (CTP) or of the RSNA Anonymizer: XML without entities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

from medsanitize.errors import Problem
from medsanitize.policies.migration.ctp_actions import UnknownSyntax, read_action, uses_rsna_functions
from medsanitize.policies.migration.foreign_rules import (
    ForeignNote,
    ForeignRule,
    ForeignRules,
    Setting,
    attribute_or_note,
)

_REMOVALS: Final[dict[str, Setting]] = {
    "privategroups": "private",
    "curves": "curves",
    "overlays": "overlays",
}
_EXPECTED: Final = "Write the elements p, e, k and r within script, as CTP does"
_HEX: Final = frozenset("0123456789abcdef")
_MOST_PROBLEMS: Final = 20


@dataclass(slots=True)
class _Element:
    """An element of the script: its name, attributes, position and text."""

    name: str
    attributes: dict[str, str]
    line: int
    column: int
    text: str = ""

    @property
    def enabled(self) -> bool:
        return self.attributes.get("en", "T").strip().upper() == "T"

    @property
    def target(self) -> str:
        return self.attributes.get("t", "").strip().lower()

    def problem(self, message: str, remedy: str) -> Problem:
        return Problem(self.line, self.column, message, remedy)


@dataclass(slots=True)
class _Script:
    elements: list[_Element] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_ctp_script(raw: bytes) -> tuple[ForeignRules | None, list[Problem]]:
    """Read a script; None if it has problems."""
    script = _parse(raw)
    rsna = any(uses_rsna_functions(one.text) for one in script.elements)
    rules: list[ForeignRule] = []
    notes: list[ForeignNote] = []
    removed: list[tuple[int, Setting]] = []
    keeps_unnamed = not rsna
    problems = script.problems
    for one in script.elements:
        if one.name == "p":
            continue  # values for actions
        if one.attributes.get("en", "T").strip().upper() not in ("T", "F"):
            problems.append(one.problem("en is neither T nor F", "Write T for a rule that applies"))
        elif not one.enabled:
            continue
        elif one.name == "e":
            _read_element(one, rsna, rules, notes, problems)
        elif one.name == "k":
            notes.append(ForeignNote(one.line, *_kept_group(one)))
        elif one.target == "unspecifiedelements":
            keeps_unnamed = False
            notes.append(_unspecified(one.line))
        elif one.target in _REMOVALS:
            removed.append((one.line, _REMOVALS[one.target]))
        else:
            problems.append(one.problem("The rule r is unknown", "Delete it, or correct t"))
    if rsna:
        notes.append(_unspecified(1))
    if problems:
        return None, problems[:_MOST_PROBLEMS]
    language = "RSNA Anonymizer script" if rsna else "CTP DicomAnonymizer script"
    found = ForeignRules(language, tuple(rules), tuple(notes), tuple(removed), (), keeps_unnamed)
    return found, []


def _unspecified(line: int) -> ForeignNote:
    return ForeignNote(
        line,
        "attributes that the script does not name are removed; the policy removes those that Table E.1-1, its"
        " preset and its own rules name",
    )


def _kept_group(one: _Element) -> tuple[str, bool]:
    if one.target == "safeprivateelements":
        return "safe private elements are kept; the preset decides on them", False
    shown = one.target if set(one.target) <= _HEX else "(not shown)"
    return f"group {shown} is kept whole; the preset removes its identifiers", True


def _read_element(
    one: _Element,
    rsna: bool,
    rules: list[ForeignRule],
    notes: list[ForeignNote],
    problems: list[Problem],
) -> None:
    try:
        action = read_action(one.text, empty_keeps=rsna)
    except UnknownSyntax as error:
        problems.append(
            one.problem(
                str(error), "Correct the action, or disable the element with en=F and decide yourself"
            )
        )
        return
    tag = one.target
    if "[" in tag or (len(tag) == 8 and set(tag) <= _HEX and int(tag[:4], 16) % 2):
        if action.effect not in ("remove", "empty"):
            notes.append(
                ForeignNote(one.line, f"a private attribute: {action.written}; see dicom.safe_private", True)
            )
        return
    if len(tag) != 8 or not set(tag) <= _HEX | {"x"}:
        problems.append(one.problem("t is no tag", "Write eight hexadecimal digits"))
        return
    found = attribute_or_note(one.line, tag, action.written)
    if isinstance(found, ForeignNote):
        notes.append(found)
    else:
        rules.append(ForeignRule(one.line, found, action.effect, action.written))


# -- XML ------------------------------------------------------------------------------------


class _Refused(Exception):
    """A part of XML that no script needs."""


def _parse(raw: bytes) -> _Script:
    """Parse the XML; a document type, from which entities would come, is refused."""
    script, parser, depth = _Script(), expat.ParserCreate(), 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        line, column = parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
        known = name in ("p", "e", "k", "r") if depth == 2 else name == "script"
        if depth > 2 or not known:
            script.problems.append(Problem(line, column, "The element is unknown here", _EXPECTED))
        elif depth == 2:
            script.elements.append(_Element(name, attributes, line, column))

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def text(found: str) -> None:
        if depth == 2 and script.elements:
            script.elements[-1].text += found
        elif found.strip():
            line, column = parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
            script.problems.append(Problem(line, column, "There is text between the elements", _EXPECTED))

    def refuse(*_: Any) -> None:
        raise _Refused

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(raw, True)
    except _Refused:
        place = parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
        script.problems.append(Problem(*place, "The script has a document type", "Delete <!DOCTYPE ...>"))
    except expat.ExpatError as error:
        message = f"The script is not valid XML: {expat.ErrorString(error.code)}"
        script.problems.append(Problem(error.lineno, error.offset + 1, message, "Correct the line"))
    return script
