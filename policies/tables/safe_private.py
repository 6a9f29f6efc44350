"""Private attributes that are safe to keep: PS3.15 Table E.3.10-1, and additional numeric ones."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal, cast

Care = Literal["none", "text", "date", "uid", "items", "opaque"]
"""What a value still needs before it can be kept.

``none``: numbers, kept. ``text``: reduced to the vocabulary. ``date``: shifted. ``uid``: replaced unless
registered. ``items``: a sequence whose items are cleaned. ``opaque``: bytes without a readable layout (OB,
UN, some texts), which PS3.15 itself calls unsafe: dropped unless the policy names the attribute.
"""


@dataclass(frozen=True, slots=True)
class SafePrivate:
    """A private attribute: documented ``vr`` and ``vm``, and the ``care`` its value needs."""

    vr: str
    vm: str
    meaning: str
    care: Care
    source: str


@cache
def safe_private() -> Mapping[tuple[int, str, int], SafePrivate]:
    """Return (group, private creator, element byte) -> attribute. Creators match exactly, after stripping."""
    text = (files(__package__) / "safe_private.csv").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            (int(row["group"], 16), row["creator"], int(row["element"], 16)): SafePrivate(
                row["vr"], row["vm"], row["meaning"], cast(Care, row["care"]), row["source"]
            )
            for row in csv.DictReader(text.splitlines())
        }
    )
