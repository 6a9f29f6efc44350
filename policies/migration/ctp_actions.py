"""The action of one element in a script of CTP or of the RSNA Anonymizer: what it leaves of the value.

An action is a sequence of calls, ``@name(arguments)``, and literal text; a backslash escapes the next
character, and braces enclose clauses. A function that is not listed here is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from medsanitize.policies.migration.foreign_rules import Effect

# What a value that the function returns has of the value in the element.
_FUNCTIONS: Final[dict[str, Effect]] = {
    **dict.fromkeys(("keep", "require", "append"), "keep"),
    **dict.fromkeys(("process",), "clean"),
    **dict.fromkeys(("incrementdate", "hashdate", "modifydate"), "shift"),
    **dict.fromkeys(("hashuid", "uid"), "uid"),
    **dict.fromkeys(
        ("contents", "value", "truncate", "pathelement", "uppercase", "lowercase", "initials", "round"),
        "derive",
    ),
    **dict.fromkeys(("hash", "hashname", "hashptid", "integer", "encrypt"), "derive"),
    **dict.fromkeys(("lookup", "call"), "unknown"),
    **dict.fromkeys(("param", "date", "time", "ptid", "acc"), "replace"),
    **dict.fromkeys(("empty", "blank"), "empty"),
    "remove": "remove",
}
_CLAUSES: Final = {"if": 2, "select": 2, "append": 1}
_ENDINGS: Final = ("quarantine", "skip")
# Weakest first: of several parts the weakest decides what is left.
_ORDER: Final[tuple[Effect, ...]] = (
    *("unknown", "keep", "derive", "clean", "shift", "replace", "uid", "empty", "remove"),
)


class UnknownSyntax(Exception):
    """An action that cannot be read; the message says why, without values."""


@dataclass(frozen=True, slots=True)
class CtpAction:
    """What an action leaves, and the names of its functions for messages."""

    effect: Effect
    written: str


def read_action(text: str, *, empty_keeps: bool) -> CtpAction:
    """Read the action of an element.

    Parameters
    ----------
    text : str
        The script of one element.
    empty_keeps : bool
        Whether an empty script keeps the element, as in the RSNA Anonymizer, or removes it, as in CTP.

    Raises
    ------
    UnknownSyntax
        A function is unknown, or a bracket is not closed.
    """
    if not text.strip():
        return CtpAction("keep" if empty_keeps else "remove", "an empty script")
    reader = _Reader(text.strip())
    parts = list(reader.parts())
    names = ", ".join(dict.fromkeys(f"@{name}" if name else "a text" for name, _ in parts))
    if not parts:
        return CtpAction("replace", names or "@always")
    return CtpAction(_together([effect for _, effect in parts]), names)


def _together(effects: list[Effect]) -> Effect:
    """Return what several parts leave, one behind the other: a text beside a value leaves the value."""
    return min(effects, key=_ORDER.index) if "conditional" not in effects else "conditional"


def _either(effects: list[Effect]) -> Effect:
    """Return what one of two clauses leaves."""
    return effects[0] if len(set(effects)) == 1 else "conditional"


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0

    def parts(self) -> Iterator[tuple[str, Effect]]:
        """Yield the name and effect of each call; an empty name stands for text."""
        while self.at < len(self.text):
            if self.text[self.at] == "@":
                found = self._call()
                if found is not None:
                    yield found
            elif self._literal().strip():
                yield "", "replace"

    def _literal(self) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] != "@":
            self.at += 2 if self.text[self.at] == "\\" else 1
        return self.text[start : self.at]

    def _call(self) -> tuple[str, Effect] | None:
        end = self.at + 1
        while end < len(self.text) and self.text[end].isalnum():
            end += 1
        name, self.at = self.text[self.at + 1 : end].lower(), end
        arguments = self._enclosed("(", ")") if self._next_is("(") else None
        clauses = [self._clause() for _ in range(_CLAUSES.get(name, 0))]
        if name == "always":
            return None
        if name in ("if", "select"):
            return name, _either(clauses)
        if name == "skip":
            return name, "keep"
        if name == "quarantine":
            return name, "remove"
        if name not in _FUNCTIONS:
            # A name may be any text of the site.
            raise UnknownSyntax("The function is unknown")
        if arguments is None and name not in ("uid", "ptid", "acc", "round", "hashdate"):
            raise UnknownSyntax(f"@{name} has no arguments in parentheses")
        return name, _FUNCTIONS[name]

    def _clause(self) -> Effect:
        while self._next_is(" ", "\t", "\n", "\r"):
            self.at += 1
        if not self._next_is("{"):
            raise UnknownSyntax("A clause in braces is missing")
        inner = _Reader(self._enclosed("{", "}"))
        effects = [effect for _, effect in inner.parts()]
        return _together(effects) if effects else "remove"

    def _next_is(self, *characters: str) -> bool:
        return self.text[self.at : self.at + 1] in characters

    def _enclosed(self, opening: str, closing: str) -> str:
        """Return the text between two brackets, and move behind the closing one."""
        depth, quoted, start = 0, False, self.at + 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "\\":
                self.at += 1
            elif character == '"' and opening == "(":
                quoted = not quoted
            elif not quoted and character == opening:
                depth += 1
            elif not quoted and character == closing:
                depth -= 1
                if not depth:
                    self.at += 1
                    return self.text[start : self.at - 1]
            self.at += 1
        raise UnknownSyntax("A bracket is not closed")


def uses_rsna_functions(text: str) -> bool:
    """Report whether an action is one of those that only the RSNA Anonymizer has."""
    return text.strip() in ("@uid", "@ptid", "@acc")
