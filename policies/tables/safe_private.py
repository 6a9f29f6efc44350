"""Private attributes that are safe to keep: PS3.15 Table E.3.10-1 and numeric additions."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal, cast

Care = Literal["none", "text", "date", "uid", "items", "opaque"]
"""What the value still needs before it may stay.

``none``: numbers, keep. ``text``: reduce to the vocabulary. ``date``: shift. ``uid``: remap unless
registered. ``items``: a sequence whose items are cleaned in turn. ``opaque``: bytes nobody can read
(OB, UN, a text of unknown layout); the standard's own note calls such values unsafe: drop them
unless the policy names the attribute.
"""


@dataclass(frozen=True, slots=True)
class SafePrivate:
    """One private attribute. ``vr`` and ``vm`` are as documented; ``care`` says what is still to do."""

    vr: str
    vm: str
    meaning: str
    care: Care
    source: str


@cache
def safe_private() -> Mapping[tuple[int, str, int], SafePrivate]:
    """(group, private creator, element byte) -> the attribute. Creators compare exactly, after trimming."""
    text = (files(__package__) / "safe_private.csv").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            (int(row["group"], 16), row["creator"], int(row["element"], 16)): SafePrivate(
                row["vr"], row["vm"], row["meaning"], cast(Care, row["care"]), row["source"]
            )
            for row in csv.DictReader(text.splitlines())
        }
    )
