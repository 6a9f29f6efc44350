"""The result of sanitizing one object: outcome, findings, counts, pseudonyms, digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from medsanitize.sanitize.pieces import OutFile


class Outcome(StrEnum):
    """Outcome of an object; every object has exactly one."""

    RELEASED = "released"
    DROPPED = "dropped"
    QUARANTINED = "quarantined"


class CheckResult(StrEnum):
    """Result of one check, as the manifest states it."""

    # There is no "failed" here: an object that fails a check is quarantined.
    PASSED = "passed"
    FLAGGED = "flagged"
    NOT_RUN = "not_run"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Finding:
    """A location and the rule that applied there, never a value.

    ``location`` is ``file``, ``meta``, ``pixels`` or a tag path such as ``(0040,A730)>(0040,A160)``.
    """

    location: str
    rule: str


@dataclass(frozen=True, slots=True)
class SlideRecord:
    """Public facts about a whole-slide image.

    Attributes
    ----------
    vendor : str
        Format of the slide.
    levels : tuple of (int, int)
        Width and height in pixels, the largest level first.
    mpp : float or None
        Micrometers per pixel.
    objective : float or None
        Magnification.
    stain : str
        A stain of the vocabulary, or empty.
    sample, block, section, scanner : str
        Pseudonyms; empty where nothing is known.
    macros : str
        SHA-256 (hex) of the macro images that are kept, one per channel of an AFI, separated by commas.
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
    """One file of a multi-file object: suffix of its name, size in bytes, SHA-256 in hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """Facts about one object; contains no element value of the source but those of ``stated``.

    Attributes
    ----------
    outcome : Outcome
    kind : str
        ``dicom``, ``raster`` or ``slide``.
    findings : tuple of Finding
    rules : mapping of str to int
        How often each rule applied.
    patient, study, series, instance : str
        Pseudonym and UIDs as written into the released object.
    pixels : CheckResult
        ``not_run`` when the object is at risk of burned-in text and released unread; ``not_applicable``
        without pixels, or where the header indicates no risk.
    faces : CheckResult
        ``passed`` when no face can be rendered from the released pixels, ``flagged`` when one may be.
    pixel_regions_cleaned : int
        Number of different areas that were blanked.
    slide : SlideRecord or None
    parts : tuple of FilePart
        All files of a multi-file object, the main one first; filled in when they are written.
    times : tuple of (str, str)
        Keyed digests of modality and times of day, before and after; empty without times. For counts only.
    stated : tuple of (int or None, str, str)
        Age in years up to 90, sex, and body part if it is a defined term, as the source states them. PHI,
        only for the dataset card; not shown by ``repr``.
    research : mapping of str to str, int or float
        Columns of the research index that the released header gives.
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
    times: tuple[str, str] = ("", "")
    stated: tuple[int | None, str, str] = field(default=(None, "", ""), repr=False)
    research: Mapping[str, str | int | float] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, repr=False)
class ReviewItem:
    """A result for a person to review. Contains PHI.

    Attributes
    ----------
    location, rule : str
        As in `Finding`.
    text : str
        The text that was read or removed.
    before, after : bytes
        PNG images of the location; empty for header elements.
    """

    location: str
    rule: str
    text: str = ""
    before: bytes = b""
    after: bytes = b""

    # PHI must not reach logs and tracebacks.
    def __repr__(self) -> str:
        return f"ReviewItem({self.location}, {self.rule})"


@dataclass(frozen=True, slots=True, repr=False)
class Sanitized:
    """Result of sanitizing one object of any kind.

    Attributes
    ----------
    record : ObjectRecord
    files : tuple of OutFile
        Released files, the main one first; empty unless the outcome is ``released``.
    links : tuple of (str, str)
        Old and new identifiers, replaced at any depth: UIDs, the PatientID, names of files. PHI, for the
        ledger.
    review_items : tuple of ReviewItem
        PHI, for the review.
    """

    record: ObjectRecord
    files: tuple[OutFile, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    review_items: tuple[ReviewItem, ...] = ()

    # As in `ReviewItem`: no links, no review items.
    def __repr__(self) -> str:
        return f"Sanitized({self.record.outcome}, {len(self.files)} files)"
