"""Canonical JSON: equal content has equal bytes."""

from __future__ import annotations

import json


def canonical_json(value: object) -> str:
    """Return one line of JSON: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def document_json(value: object) -> bytes:
    """Return the JSON of a published file: sorted keys, two spaces per level, final newline."""
    # allow_nan=False: NaN and Infinity are not JSON.
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")
