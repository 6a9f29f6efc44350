"""Write a policy as YAML, as ``plan`` prints it, including the values of the preset."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from medsanitize.policies.model import Policy


def dumps(policy: Policy) -> str:
    """Serialize a policy as YAML that ``loads`` reads back to an equal policy.

    Unset settings are omitted. Texts are always quoted, so that no YAML reader takes them for another type.
    """
    return "\n".join(_lines(policy.model_dump(mode="json", exclude_none=True), 0)) + "\n"


def _lines(mapping: dict[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, value in mapping.items():
        name = key if re.fullmatch(r"[a-z_]+", key) else quoted(key)
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            yield f"{indent}{name}:"
            for item in value:
                first, *rest = _lines(item, depth + 2)
                yield f"{indent}  - {first.lstrip()}"
                yield from rest
        else:
            yield f"{indent}{name}: {_inline(value)}"


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value)


def quoted(text: str) -> str:
    """Return a text as a double-quoted YAML scalar."""
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    if character in ('"', "\\"):
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08X}"
