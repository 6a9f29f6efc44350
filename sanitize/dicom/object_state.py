"""State that the rules for a DICOM object share: subject, policy and intermediate results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.dicom.dates import (
    Shift,
    days_carried,
    shift_date,
    shift_datetime,
    year_of_date,
    year_of_datetime,
)
from medsanitize.sanitize.dicom.text_rules import TextRules
from medsanitize.sanitize.pseudonyms import SubKeys, remap_uid
from medsanitize.sanitize.result import ReviewItem
from medsanitize.sanitize.text.vocabulary_filter import ForbiddenWords

if TYPE_CHECKING:
    from medsanitize.sanitize.text.known_identifiers import KnownTerms

Links = tuple[tuple[str, str], ...]
Piece = tuple[bytes, tuple[str, ...], Links]
"""A rewritten element: its bytes (empty when removed), the rules that applied, links for the ledger."""


@dataclass(slots=True)
class SubjectState:
    """State that the objects of one patient and study share.

    Attributes
    ----------
    patient : str
        Canonical key of the patient. PHI.
    pseudonym : str
        The PatientID of the released objects.
    shift : Shift
    ban : ForbiddenWords
        Words and numbers that no kept text may contain.
    dates : frozenset of str
        Dates of the patient's objects; never used as dummy values.
    known : frozenset of KnownValue
    memory : dict
        Cache of rewritten elements: equal bytes in an equal scope give equal results.
    compiled : KnownTerms or None
        Set by `terms`.
    """

    patient: str
    pseudonym: str
    shift: Shift
    ban: ForbiddenWords
    dates: frozenset[str]
    known: frozenset[KnownValue] = frozenset()
    memory: dict[tuple[int, bytes, int, int], dict[bytes, Piece]] = field(default_factory=dict)
    compiled: KnownTerms | None = None

    @property
    def terms(self) -> KnownTerms:
        """Identifiers of the patient and study, compiled for the search in texts."""
        if self.compiled is None:
            # On demand: many objects contain no text to clean.
            from medsanitize.sanitize.text.known_identifiers import compile_terms

            self.compiled = compile_terms(self.known)
        return self.compiled


@dataclass(slots=True)
class ObjectState:
    """State of one object while it is rewritten.

    Attributes
    ----------
    policy : Policy
    keys : SubKeys
    subject : SubjectState
    uids : dict
        Cache of replaced UIDs, shared by all objects.
    texts : TextRules
    charset : bytes
        Specific Character Set of the current data set or item.
    code : tuple of str or None
        Scheme and value of the current coded entry.
    times : tuple of str
        Times of day that belong to the values of the current date; empty if it has none.
    replaced : frozenset of int
        Top-level attributes that the program writes itself.
    own_uid : bool
        Whether SOP Instance UID is derived from the content, since another object states the same one.
    review_items : list of ReviewItem
        Texts for a person to review.
    decided : mapping
        Location -> the reviewer's verdict.
    """

    policy: Policy
    keys: SubKeys
    subject: SubjectState
    uids: dict[str, str]
    texts: TextRules
    charset: bytes = b""
    code: tuple[str, str] | None = None
    times: tuple[str, ...] = ()
    replaced: frozenset[int] = frozenset()
    own_uid: bool = False
    review_items: list[ReviewItem] = field(default_factory=list)
    decided: Mapping[str, str] = field(default_factory=dict)

    def uid(self, old: str) -> str:
        """Return the replacement of a UID."""
        new = self.uids.get(old)
        if new is None:
            # The cache is bounded, since a worker lives for the whole run; values are derived again.
            if len(self.uids) > 100_000:
                self.uids.clear()
            new = self.uids[old] = remap_uid(self.keys, self.policy.pseudonyms.uid_root, old)
        return new

    def date(self, text: str, time: str = "") -> str | None:
        """Shift or reduce a DA value by the policy; ``None`` if it is malformed.

        ``time`` is the time of day that belongs to it, which may carry it to the next day.
        """
        if self.policy.dicom.dates.method == "year":
            return year_of_date(text)
        shift = self.subject.shift
        return shift_date(text, shift.days + days_carried(time, shift.seconds))

    def datetime(self, text: str) -> str | None:
        """Shift or reduce a DT value by the policy; ``None`` if it is malformed."""
        if self.policy.dicom.dates.method == "year":
            return year_of_datetime(text)
        return shift_datetime(text, self.subject.shift)
