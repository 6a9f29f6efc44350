"""What the rules of a whole object share while it is walked."""

from __future__ import annotations

from dataclasses import dataclass, field

from medsanitize.policies.model import Limits
from medsanitize.policies.tables.safe_private import SafePrivate
from medsanitize.sanitize.dicom.object_state import ObjectState
from medsanitize.sanitize.dicom.rules import AttributeRules
from medsanitize.sanitize.dicom.sample_data import Counts
from medsanitize.sanitize.dicom.sr_content import ContentTree
from medsanitize.sanitize.formats.dicom.transfer_syntax import Layout
from medsanitize.sanitize.formats.file_type import Buffer

Planes = dict[int, dict[int, bytes]]
"""Group -> element -> value, as the source has them."""

SafePrivates = dict[tuple[int, str, int], SafePrivate]


@dataclass(slots=True)
class WalkState:
    """One pass over one object: what is read, by which rules, and what has come out so far.

    ``captured`` maps top-level tags of ``capture`` to the (start, end) of their values in ``buf``.
    ``counts`` are what the data set in hand says of the length of its sample data;
    ``tree`` holds the places of a report's content items, ``overlays`` the planes that the policy may keep.
    """

    job: ObjectState
    book: AttributeRules
    buf: Buffer
    target: Layout
    limits: Limits
    safe_private: SafePrivates
    capture: frozenset[int] = frozenset()
    tree: ContentTree = field(default_factory=ContentTree)
    captured: dict[int, tuple[int, int]] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    counts: Counts = field(default_factory=dict)
    overlays: Planes = field(default_factory=dict)

    def text(self, tag: int) -> str:
        """A captured top-level value as text, trimmed; empty when the attribute is absent."""
        span = self.captured.get(tag)
        return bytes(self.buf[span[0] : span[1]]).decode("latin-1").strip(" \0") if span else ""

    def number(self, tag: int, default: int) -> int:
        """A captured top-level US value."""
        span = self.captured.get(tag)
        raw = bytes(self.buf[span[0] : span[1]])[:2] if span else b""
        return int.from_bytes(raw, "big" if self.target.big else "little") if len(raw) == 2 else default
