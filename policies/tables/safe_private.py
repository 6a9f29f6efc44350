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
OW, UN), which PS3.15 itself calls unsafe: dropped unless the policy names the attribute.
"""


Source = Literal["PS3.15", "PixelMed", "policy"]
"""Where an attribute is listed: Table E.3.10-1, the list of PixelMed's de-identifier, or the policy."""

_FILES: tuple[tuple[str, Source], ...] = (
    ("safe_private_extra.csv", "PixelMed"),
    ("safe_private.csv", "PS3.15"),
)
"""Files in the order in which they are read: the standard decides about an attribute of both."""


@dataclass(frozen=True, slots=True)
class SafePrivate:
    """A private attribute: documented ``vr`` and ``vm``, and the ``care`` its value needs."""

    vr: str
    vm: str
    care: Care
    source: Source


@cache
def safe_private() -> Mapping[tuple[int, str, int], SafePrivate]:
    """Return (group, private creator, element byte) -> attribute. Creators match exactly, after stripping."""
    found = {}
    for name, source in _FILES:
        text = (files(__package__) / name).read_text(encoding="utf-8")
        for row in csv.DictReader(text.splitlines()):
            key = (int(row["group"], 16), row["creator"], int(row["element"], 16))
            found[key] = SafePrivate(row["vr"], row["vm"], cast(Care, row["care"]), source)
    return MappingProxyType(found)
