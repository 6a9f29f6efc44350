"""An unvalidated policy: values of any type, each with its position in the text."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from medsanitize.errors import Problem
from medsanitize.policies.strict_yaml import SourcePosition

Steps: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a value."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A policy with its preset applied, whose values may still be of any type.

    ``locate`` returns the position of a path of keys, or of its nearest ancestor in the text.
    """

    data: dict[str, Any]
    base: Path
    locate: Callable[[Steps], SourcePosition]

    def get(self, *path: str | int) -> Any:
        """Return the value at a path, or None."""
        value: Any = self.data
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def items(self, *path: str | int) -> Sequence[Any]:
        """Return the list at a path, or an empty sequence."""
        value = self.get(*path)
        return value if isinstance(value, list) else ()

    def problem(self, path: Steps, message: str, remedy: str) -> Problem:
        """Create a problem positioned at a path."""
        return Problem(*self.locate(path), message, remedy)

    def real(self, *path: str | int) -> Path | None:
        """Resolve the folder or file named at a path, following links; None if it is no local path."""
        value = self.get(*path)
        if not isinstance(value, str) or path_problem(value) is not None:
            return None
        # Links are followed: an output linked into an input would be written into the input.
        return Path(os.path.realpath(self.base / value))


def path_problem(value: str) -> tuple[str, str] | None:
    """Return message and remedy if a text cannot be a path, else None."""
    if not value.strip():
        return "The path is empty", "Set a file or folder, relative to the policy"
    if not value.isprintable():
        return "The path holds a control character", "Rename the file or folder"
    if value.startswith("~"):
        return "Paths are not expanded: ~ does not mean the home folder here", "Write the full path"
    if "://" in value:
        return "A path must be local", "Mount the store, or copy its objects to a folder"
    return None
