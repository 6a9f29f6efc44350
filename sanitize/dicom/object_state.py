"""What the rules need to know while one object passes through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.dicom.dates import shift_date, shift_datetime, year_of_date, year_of_datetime
from medsanitize.sanitize.dicom.text_rules import TextRules
from medsanitize.sanitize.pseudonyms import SubKeys, remap_uid
from medsanitize.sanitize.result import ReviewItem
from medsanitize.sanitize.text.vocabulary_filter import ForbiddenWords

if TYPE_CHECKING:
    from medsanitize.sanitize.text.known_identifiers import KnownTerms

Links = tuple[tuple[str, str], ...]
Piece = tuple[bytes, tuple[str, ...], Links]
"""A rewritten element: its bytes (empty when removed), the rules that applied, the ledger's links."""


@dataclass(slots=True)
class SubjectState:
    """One patient's and study's share of the state: pseudonym, shift, forbidden tokens, known dates, and a
    memory of elements already ruled on (equal bytes at an equal place give equal results).
    """

    patient: str
    pseudonym: str
    shift: int
    ban: ForbiddenWords
    dates: frozenset[str]
    known: frozenset[KnownValue] = frozenset()
    memory: dict[tuple[int, bytes, int, int], dict[bytes, Piece]] = field(default_factory=dict)
    compiled: KnownTerms | None = None

    @property
    def terms(self) -> KnownTerms:
        """What the patient and study are called, compiled when a text first needs it."""
        if self.compiled is None:
            from medsanitize.sanitize.text.known_identifiers import compile_terms

            self.compiled = compile_terms(self.known)
        return self.compiled


@dataclass(slots=True)
class ObjectState:
    """One object on its way: the policy's decisions, its subject, and what was found so far.

    ``charset`` is the data set's in hand, ``code`` the (scheme, value) of the code item in hand. ``doubts``
    are texts that a person should look at; ``decided`` says what a person decided, by place.
    """

    policy: Policy
    keys: SubKeys
    subject: SubjectState
    uids: dict[str, str]
    texts: TextRules
    charset: bytes = b""
    code: tuple[str, str] | None = None
    replaced: frozenset[int] = frozenset()
    doubts: list[ReviewItem] = field(default_factory=list)
    decided: Mapping[str, str] = field(default_factory=dict)

    def uid(self, old: str) -> str:
        """The new UID of ``old``."""
        new = self.uids.get(old)
        if new is None:
            if len(self.uids) > 100_000:
                self.uids.clear()
            new = self.uids[old] = remap_uid(self.keys, self.policy.pseudonyms.uid_root, old)
        return new

    def date(self, text: str) -> str | None:
        """A DA value as the policy changes dates; ``None`` without a safe reading."""
        if self.policy.dicom.dates.method == "year":
            return year_of_date(text)
        return shift_date(text, self.subject.shift)

    def datetime(self, text: str) -> str | None:
        """A DT value as the policy changes dates; ``None`` without a safe reading."""
        if self.policy.dicom.dates.method == "year":
            return year_of_datetime(text)
        return shift_datetime(text, self.subject.shift)
