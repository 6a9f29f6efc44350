"""Frames: facts as one line of JSON, and binary parts by name, in one sequence of bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from medsanitize.errors import IntegrityError
from medsanitize.release.canonical_json import canonical_json

_LENGTH: Final = struct.Struct(">I")
_MOST_HEADER_BYTES: Final = 1 << 20


def packed(facts: Mapping[str, Any], parts: Mapping[str, bytes] | None = None) -> bytes:
    """Write facts and parts as a frame."""
    names = sorted(parts or {})
    lengths = {name: len((parts or {})[name]) for name in names}
    header = canonical_json({"facts": dict(facts), "parts": lengths}).encode("ascii")
    return b"".join([_LENGTH.pack(len(header)), header, *((parts or {})[name] for name in names)])


def unpacked(frame: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read a frame.

    Raises
    ------
    IntegrityError
        If it is malformed.
    """
    try:
        (length,) = _LENGTH.unpack_from(frame)
        if length > _MOST_HEADER_BYTES:
            raise ValueError("too long")
        place = _LENGTH.size + length
        header = json.loads(frame[_LENGTH.size : place])
        facts, lengths = header["facts"], header["parts"]
        parts: dict[str, bytes] = {}
        for name in sorted(lengths):
            if type(lengths[name]) is not int or lengths[name] < 0:
                raise ValueError("no length")
            parts[name] = frame[place : place + lengths[name]]
            place += lengths[name]
        if place != len(frame) or not isinstance(facts, dict):
            raise ValueError("another length")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error):
        raise IntegrityError(
            "A message of the federation is malformed", "Install the same version of the program everywhere"
        ) from None
    return facts, parts
