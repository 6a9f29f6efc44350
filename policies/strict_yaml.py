"""Strict YAML 1.2, parsed into a tree that knows the position of every key and value.

Only what a policy needs is accepted: one document of mappings, lists, texts, numbers, true and false. Values
that YAML readers interpret differently (`no`, `0010`, `1_000`, `12:30`, duplicate keys) and constructs whose
meaning is not visible in place (anchors, aliases, merge keys, tags, directives) are reported as problems.
Parsing consumes the events of ruamel.yaml one by one, so nothing is expanded and no recursion depends on the
input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from medsanitize.errors import Problem

# Bounds on hostile or accidental input; a real policy has a few kilobytes and five levels.
MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_PROBLEMS = 100

SourcePosition = tuple[int, int]
"""Line and column, 1-based."""

Scalar = str | int | float | bool | None

# YAML 1.1 reads these as booleans, YAML 1.2 as texts.
_YAML_1_1_BOOLEANS = re.compile(r"y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF")
# YAML 1.1 reads a leading zero as octal; underscores and colons group digits, the latter in base 60.
_OCTAL_LOOKING = re.compile(r"[-+]?0[0-9_]+|[-+]?0[oOxXbB][0-9A-Fa-f_]+")
_GROUPED = re.compile(r"[-+]?[0-9][0-9]*(_[0-9_]+|(:[0-5]?[0-9])+)(\.[0-9_]*)?")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SYNTAX_HINTS = (
    ("cannot start any token", "Indent with spaces, and put text with special characters in quotes"),
    ("mapping values are not allowed", "Quote text that contains a colon, and check the indentation"),
    ("could not find expected ':'", "Add a colon and a space after the key"),
    ("unexpected end of stream", "Close the open quotes"),
    ("expected ',' or", "Close the bracket, or write a comma"),
    ("expected <block end>", "Check the indentation, and close quotes and brackets"),
)


@dataclass(slots=True)
class Node:
    """A value and its position.

    ``value`` is a scalar, a list of nodes, or a mapping of keys to nodes; ``keys`` contains the position of
    each key.
    """

    place: SourcePosition
    value: Scalar | list[Node] | dict[str, Node] = None
    keys: dict[str, SourcePosition] = field(default_factory=dict)

    def plain(self) -> Any:
        """Return the value as dicts, lists and scalars, without positions."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


@dataclass(slots=True)
class _Open:
    """A collection that is being parsed.

    ``value_next`` is True between a key and its value; ``key`` is None if the key was rejected and its value
    is to be discarded. ``skip`` discards the whole collection.
    """

    node: Node
    key: str | None = None
    value_next: bool = False
    skip: bool = False


def read_yaml(text: str) -> tuple[Node | None, list[Problem]]:
    """Parse one policy.

    Parameters
    ----------
    text : str
        YAML.

    Returns
    -------
    tuple of (Node or None, list of Problem)
        The root mapping, or None if the text could not be parsed to its end, and every problem found.
        Problems contain keys and the expected form, never values.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return None, [
            Problem(1, 1, "The policy is larger than 1 MB", "Move lists to files and set the file names")
        ]
    reader = _Reader()
    reader.read(text)
    root = reader.root if reader.finished else None
    if not reader.problems and (root is None or not isinstance(root.value, dict)):
        line, column = root.place if root else (1, 1)
        reader.report((line, column), "The policy is not a mapping of keys", "Start with: version: 1")
    if root is not None and not isinstance(root.value, dict):
        root = None
    return root, reader.problems


def display_key(key: str) -> str:
    """Return a key for messages; long keys and unusual characters are not shown, since they may be PHI."""
    return f"'{key}'" if re.fullmatch(r"[A-Za-z0-9_.(),<-]{1,48}", key) else "(not shown)"


class _Reader:
    """Build a tree and a list of problems from parser events."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self.finished = False
        self._reported: set[SourcePosition] = set()
        self._stack: list[_Open] = []
        self._documents = 0

    def report(self, place: SourcePosition, message: str, remedy: str) -> None:
        # One problem per position: the second is usually a consequence of the first.
        if place not in self._reported and len(self.problems) < MAX_PROBLEMS:
            self._reported.add(place)
            self.problems.append(Problem(*place, message, remedy))

    def read(self, text: str) -> None:
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
        from ruamel.yaml.reader import ReaderError

        try:
            for event in _events(text):
                if not self._take(event) or len(self.problems) == MAX_PROBLEMS:
                    return
            self.finished = True
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self.report((mark.line + 1, mark.column + 1) if mark else (1, 1), *_syntax(str(error.problem)))
        except ReaderError as error:
            before = text[: error.position]
            place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
            self.report(
                place, "A control character is not allowed in YAML", "Delete it, or write it as an escape"
            )
        except (YAMLError, ValueError, OverflowError):
            self.report((1, 1), "Invalid YAML", "Compare it with the output of: medsanitize init")

    def _take(self, event: Any) -> bool:
        """Process one event; False stops parsing."""
        kind = type(event).__name__
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        if kind == "DocumentStartEvent":
            return self._document(event, place)
        if kind == "AliasEvent":
            self.report(place, "An alias is not allowed", "Repeat the value instead")
            # Placed instead of the alias, so that keys and values stay in step.
            self._put(Node(place))
        # Bounded, because the tree is processed recursively later.
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._marks(event, place)
            if len(self._stack) >= MAX_DEPTH:
                self.report(place, f"The policy is nested deeper than {MAX_DEPTH}", "Unfold it")
                return False
            node = Node(place, {} if kind == "MappingStartEvent" else [])
            kept = self._put(node)
            self._stack.append(_Open(node, skip=not kept))
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._stack.pop()
        elif kind == "ScalarEvent":
            self._marks(event, place)
            self._scalar(event, place)
        return True

    def _document(self, event: Any, place: SourcePosition) -> bool:
        self._documents += 1
        if self._documents > 1:
            self.report(place, "A second document begins here", "Write one policy per file")
            return False
        if event.version or event.tags:
            self.report(place, "A directive is not allowed", "Delete the lines that begin with %")
        return True

    def _marks(self, event: Any, place: SourcePosition) -> None:
        if event.anchor is not None:
            self.report(place, "An anchor is not allowed", "Delete the & and its name; repeat values instead")
        if event.ctag is not None and str(event.ctag) not in ("", "None"):
            self.report(place, "A tag is not allowed", "Delete the ! and its name; put text in quotes")

    def _scalar(self, event: Any, place: SourcePosition) -> None:
        quoted = event.style is not None and event.style != ""
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.node.value, dict) and not top.value_next and not top.skip:
            self._key(top, event.value, place, quoted)
            return
        value: Scalar = event.value
        if not quoted:
            if not event.value and top is not None and top.key is not None:
                place = top.node.keys[top.key]  # an empty value has no text to point at
            value, wrong = _resolve(event.value)
            if wrong:
                self.report(place, *wrong)
        self._put(Node(place, value))

    def _key(self, top: _Open, key: str, place: SourcePosition, quoted: bool) -> None:
        top.value_next = True
        if key == "<<" and not quoted:
            self.report(place, "A merge key is not allowed", "List the keys instead")
        elif not quoted and not isinstance(_resolve(key)[0], str):
            self.report(
                place, "The key would be read as a number, a boolean or null", "Put the key in quotes"
            )
        elif not quoted and _resolve(key)[1]:
            self.report(place, "The key is ambiguous between YAML versions", "Put the key in quotes")
        elif key in top.node.keys:
            line = top.node.keys[key][0]
            self.report(
                place,
                f"The key {display_key(key)} is duplicated; first in line {line}",
                "Delete one of the two",
            )
        else:
            top.node.keys[key] = place
            top.key = key

    def _put(self, node: Node) -> bool:
        """Add a node to the open collection; False if it is discarded with all its content."""
        if not self._stack:
            self.root = node
            return True
        top = self._stack[-1]
        if top.skip:
            return False
        if isinstance(top.node.value, list):
            top.node.value.append(node)
            return True
        key, had_key = top.key, top.value_next
        top.key, top.value_next = None, not had_key
        if not had_key:
            self.report(node.place, "A key must be plain text", "Write a word before the colon")
        if key is None or not isinstance(top.node.value, dict):
            return False
        top.node.value[key] = node
        return True


def _events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    yield from YAML(typ="safe", pure=True).parse(text)


def _resolve(text: str) -> tuple[Scalar, tuple[str, str] | None]:
    """Resolve a plain scalar by the YAML 1.2 core schema; also message and remedy if it is ambiguous."""
    if text in _WORDS:
        return _WORDS[text], None
    if _YAML_1_1_BOOLEANS.fullmatch(text):
        return text, (
            "The word is ambiguous between YAML versions",
            "Write true or false, or put it in quotes",
        )
    if _OCTAL_LOOKING.fullmatch(text) or _GROUPED.fullmatch(text):
        return text, (
            "The number is ambiguous between YAML versions",
            "Write decimal digits without a leading zero, or put it in quotes",
        )
    if _NOT_A_NUMBER.fullmatch(text):
        return text, ("Infinity and not-a-number are not allowed", "Write a number, or put it in quotes")
    if _INTEGER.fullmatch(text):
        # 18 digits always fit into a signed 64-bit integer.
        if len(text) > 18:
            return text, ("The number is too long", "Write a smaller number, or put it in quotes")
        return int(text), None
    if _FLOAT.fullmatch(text):
        return float(text), None
    return text, None


def _syntax(problem: str) -> tuple[str, str]:
    """Return message and remedy of a syntax error; the parser's own message may quote the text."""
    for sign, remedy in _SYNTAX_HINTS:
        if sign in problem:
            return "Invalid YAML from this position", remedy
    if "tag" in problem:
        return "A tag is not allowed", "Delete the ! and its name; put text in quotes"
    return "Invalid YAML from this position", "Check quotes, brackets, colons and indentation"
