"""What became of one object: outcome, findings, counts, pseudonyms, digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from medsanitize.sanitize.pieces import OutFile


class Outcome(StrEnum):
    """Every object ends in exactly one of these."""

    RELEASED = "released"
    DROPPED = "dropped"
    QUARANTINED = "quarantined"


class CheckResult(StrEnum):
    """Result of one check, as the manifest states it."""

    PASSED = "passed"
    FLAGGED = "flagged"
    NOT_RUN = "not_run"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Finding:
    """A place and the rule that applied there. Never a value.

    ``place`` is ``file``, ``meta``, ``pixels`` or a tag path such as ``(0040,A730)>(0040,A160)``.
    """

    place: str
    rule: str


@dataclass(frozen=True, slots=True)
class SlideRecord:
    """What is said of a whole-slide image: facts of its format, and its place as pseudonyms.

    ``levels`` are (width, height) in pixels, the largest first; ``mpp`` micrometres a pixel; ``objective``
    the magnification; ``stain`` a known one or empty. ``sample``, ``block``, ``section`` and ``scanner`` are
    pseudonyms, empty where nothing is known. ``macros`` are SHA-256 in hex of the pictures of the whole glass
    that stay, one a channel of an AFI, separated by commas; empty where none does.
    """

    vendor: str
    levels: tuple[tuple[int, int], ...]
    mpp: float | None = None
    objective: float | None = None
    stain: str = ""
    sample: str = ""
    block: str = ""
    section: str = ""
    scanner: str = ""
    macros: str = ""


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file of an object that is several: what follows the object's name, bytes, SHA-256 in hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """The public and holder-side facts about one object; no element value of the source.

    Pseudonyms are those written into the released object. ``sha256`` and ``size`` (bytes)
    are of the released bytes; they are filled in by whoever writes them.
    ``pixels``: ``not_run`` when the object is at risk of burned-in text and released unchecked,
    ``not_applicable`` without pixels, and where nothing in the header says there could be text.
    ``faces``: ``passed`` when no face is shown any more, ``flagged`` when one may be.
    ``parts`` are all files of an object of several, the main one first; filled in by whoever writes them.
    """

    outcome: Outcome
    kind: str
    findings: tuple[Finding, ...] = ()
    rules: Mapping[str, int] = field(default_factory=dict)
    patient: str = ""
    study: str = ""
    series: str = ""
    instance: str = ""
    modality: str = ""
    sop_class: str = ""
    transfer_syntax: str = ""
    rows: int | None = None
    columns: int | None = None
    frames: int | None = None
    pixels: CheckResult = CheckResult.NOT_APPLICABLE
    faces: CheckResult = CheckResult.NOT_APPLICABLE
    pixel_regions_cleaned: int = 0
    slide: SlideRecord | None = None
    parts: tuple[FilePart, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ReviewItem:
    """Something a person should look at; for the holder's eyes alone, since it shows values.

    ``place`` and ``rule`` as in a finding; ``text`` what was read or cut there; ``before`` and ``after``
    PNG pictures of the place (empty for headers).
    """

    place: str
    rule: str
    text: str = ""
    before: bytes = b""
    after: bytes = b""

    def __repr__(self) -> str:
        return f"Doubt({self.place}, {self.rule})"


@dataclass(frozen=True, slots=True, repr=False)
class Sanitized:
    """One object after sanitization, whatever its kind.

    ``files`` are the released files, the main one first; empty unless ``record.outcome`` is released.
    ``links`` are the (old, new) identifiers replaced at any depth: UIDs, the PatientID, names of files.
    They and ``doubts`` contain PHI; they are for the data controller's ledger and review.
    """

    record: ObjectRecord
    files: tuple[OutFile, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    doubts: tuple[ReviewItem, ...] = ()

    def __repr__(self) -> str:
        return f"Sanitized({self.record.outcome}, {len(self.files)} files)"
