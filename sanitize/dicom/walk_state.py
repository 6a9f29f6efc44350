"""State of one pass over a DICOM object."""

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
"""Group -> element number -> value of the source."""

SafePrivates = dict[tuple[int, str, int], SafePrivate]


@dataclass(slots=True)
class WalkState:
    """State of one pass over one object.

    Attributes
    ----------
    job : ObjectState
    book : AttributeRules
    buf : bytes or mmap
        The source data set.
    target : Layout
        Layout of the rewritten data set.
    limits : Limits
    safe_private : dict
        Private attributes that the policy keeps.
    capture : frozenset of int
        Top-level tags whose values are located for later use.
    tree : ContentTree
        Positions of the content items of a structured report.
    captured : dict
        Tag of ``capture`` -> (start, end) of its value in ``buf``.
    rules : list of str
        One entry per element that a rule applied to.
    links : list of (str, str)
        Old and new identifiers. PHI.
    counts : dict
        Attributes of the current data set or item that state the length of its sample data.
    overlays : dict
        Overlay planes that the policy may keep.
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

    @property
    def shifts_times(self) -> bool:
        """Whether a date may move past midnight with its time of day."""
        return bool(self.job.subject.shift.seconds)

    def text(self, tag: int) -> str:
        """Return a captured value without padding; empty when the attribute is absent."""
        span = self.captured.get(tag)
        return bytes(self.buf[span[0] : span[1]]).decode("latin-1").strip(" \0") if span else ""

    def number(self, tag: int, default: int) -> int:
        """Return a captured US value, or ``default``."""
        span = self.captured.get(tag)
        raw = bytes(self.buf[span[0] : span[1]])[:2] if span else b""
        return int.from_bytes(raw, "big" if self.target.big else "little") if len(raw) == 2 else default
