"""What a run amounts to: all that the evidence and the report say, and no identifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from medsanitize.policies.model import Release

GateResult = Literal["passed", "flagged", "failed", "not_run", "not_applicable"]
Standing = Literal["met", "not_met", "needs_review"]


@dataclass(frozen=True, slots=True)
class GateSummary:
    """One check of the whole release. ``detail`` is a public sentence, without values or paths."""

    name: str
    result: GateResult
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Guideline:
    """How the release stands by one of the guidelines A1 to A7 of Holub et al. 2023; ``why`` is public."""

    code: str
    name: str
    result: Standing
    why: str


@dataclass(frozen=True, slots=True)
class TableSummary:
    """An accompanying table of the release; ``path`` is relative to the release's root."""

    name: str
    path: str
    rows: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table of figures on synthetic images; ``texts`` columns from the left hold words, the others numbers.

    The cells are text already, with their intervals.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class SyntheticSummary:
    """What became of the originals that were replaced, and of the synthetic images in their place.

    Attributes
    ----------
    replaced, asked, released, removed
        Originals dropped; synthetic images asked for, released, and removed because they matched somebody.
    state, label, bound
        What the gate concluded, what the images may be called (empty unless it passed), and the upper bound
        of the share of them that match a training patient.
    model
        SHA-256 of the generator, hexadecimal.
    statement
        Everything behind the verdict, in public sentences.
    grid
        Some of the released synthetic images side by side, PNG in base 64; empty where there are none.
    copy_rate, residual
        Upper bounds of the share of copies among what the generator makes, and among what is left when
        matches are removed; None unless it passed.
    quality, figures
        Public sentences on how good the released images are, and the figures.
    """

    replaced: int
    asked: int
    released: int
    removed: int
    state: str
    label: str
    model: str
    bound: float | None
    statement: tuple[str, ...]
    grid: str
    copy_rate: float | None = None
    residual: float | None = None
    quality: tuple[str, ...] = ()
    figures: tuple[FigureTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The public account of a run.

    Counts are of objects unless said otherwise; mappings go from a name to a count. Nothing here
    names a patient, a source file or an element's value.

    Parameters
    ----------
    release : Release
        The policy's ``release`` section, as far as it is public.
    preset, policy_digest, tool_version : str
        Preset of the policy, ``sha256`` of its canonical form in hex, version of this program.
    outcomes : mapping
        ``released``, ``dropped``, ``quarantined``.
    modalities, sop_classes : mapping
        Released objects by modality (``CT``) and by SOP Class UID.
    patients, studies, series, objects, bytes : int
        What is released.
    actions : mapping
        Changes to attributes: ``replaced``, ``emptied``, ``removed``, ``cleaned``, ``uid``, ``kept``.
    rules : mapping
        Changes by rule id, over all released objects.
    meanings : mapping
        Rule id to one plain sentence, for the report; a rule without one is shown by its id alone.
    kinds : mapping
        Released objects by kind (``dicom``, ``raster``).
    dropped, quarantined : mapping
        Objects that were not released, by rule id.
    options : tuple of (code, meaning)
        The de-identification methods of CID 7050 that were used.
    gates : tuple of Gate
        Every gate of the run, those not run included.
    checks : mapping
        Per check of the manifest (``pixels`` ...): result to number of released objects.
    duplicates_dropped, pixel_equal_flagged, pixel_regions_cleaned : int
        Duplicates by bytes, released objects with equal pixels elsewhere, cleaned regions.
    supersedes : str or None
        Version of the same release that this one replaces.
    public_prior : tuple of str
        ``name version`` of earlier releases that the policy lists as public and that overlap.
    tables : tuple of TableSummary
        Accompanying tables.
    guidelines : tuple of Guideline
        The checklist of Holub et al. 2023, in its order; empty when it was not gone through.
    synthetic : Synthetic or None
        What stands in place of originals; None when none was replaced.
    """

    release: Release
    preset: str
    policy_digest: str
    tool_version: str
    outcomes: Mapping[str, int]
    modalities: Mapping[str, int]
    sop_classes: Mapping[str, int]
    patients: int
    studies: int
    series: int
    objects: int
    bytes: int
    actions: Mapping[str, int]
    rules: Mapping[str, int] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    options: tuple[tuple[str, str], ...] = ()
    gates: tuple[GateSummary, ...] = ()
    checks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    duplicates_dropped: int = 0
    pixel_equal_flagged: int = 0
    pixel_regions_cleaned: int = 0
    supersedes: str | None = None
    public_prior: tuple[str, ...] = ()
    tables: tuple[TableSummary, ...] = ()
    guidelines: tuple[Guideline, ...] = ()
    synthetic: SyntheticSummary | None = None

    def missing_metadata(self) -> tuple[str, ...]:
        """Return the public fields of the release that its owner left out, in the policy's order."""
        names = ("date", "description", "creator", "license", "contact", "ethics")
        return tuple(name for name in names if getattr(self.release, name) is None)


@dataclass(frozen=True, slots=True)
class SynthesisStatement:
    """That a release holds synthetic images, as a sentence, and the SHA-256 of their generator."""

    sentence: str
    generator: str


def synthesis_statement(summary: Summary) -> SynthesisStatement | None:
    """What is to be said of the synthetic images of a release; None where it has none."""
    made = summary.synthetic
    if made is None or not made.released:
        return None
    sentence = (
        f"{made.released} of {summary.objects} objects are synthetic images, generated by the model with "
        f"SHA-256 {made.model}; privacy gate: {made.state}{_bounds(made)}. "
        "The manifest marks them in its column synthetic."
    )
    return SynthesisStatement(sentence, made.model)


def _bounds(made: SyntheticSummary) -> str:
    """Upper bounds of matches and copies among what the generator draws, and of copies among what is left."""
    if made.bound is None:
        return ""
    told = f", at most {made.bound:.3%} of its images match a training patient"
    if made.copy_rate is None or made.residual is None:
        return told
    return (
        f"{told}, at most {made.copy_rate:.3%} are copies, and at most {made.residual:.2e}"
        " after matches are removed"
    )
