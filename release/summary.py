"""The public account of a run: all content of evidence and report, without identifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from medsanitize.policies.model import Release
from medsanitize.release.dataset_card.noisy_tables import DatasetCard

GateResult = Literal["passed", "flagged", "failed", "not_run", "not_applicable"]
Standing = Literal["met", "not_met", "needs_review"]


@dataclass(frozen=True, slots=True)
class GateSummary:
    """A check of the whole release.

    Attributes
    ----------
    name, result : str
        Its name, and what it found. A gate that looked at nothing is ``not_run`` or ``not_applicable``.
    detail : str
        A public sentence without values or paths.
    looked_at, concerned : int or None
        How many of those that it concerns it looked at; None for a gate that looks at no single objects.
    unit : str
        What is counted.
    """

    name: str
    result: GateResult
    detail: str = ""
    looked_at: int | None = None
    concerned: int | None = None
    unit: str = "objects"

    def __post_init__(self) -> None:
        if self.result == "passed" and self.looked_at == 0:
            raise ValueError(f"the gate {self.name} looked at nothing and cannot have passed")

    @property
    def scope(self) -> str:
        """How much was looked at, as text; empty for a gate that looks at no single objects."""
        if self.looked_at is None or self.concerned is None:
            return ""
        return f"{self.looked_at:,} of {self.concerned:,} {self.unit}"


def gate_of_check(name: str, results: Mapping[str, int], detail: str, *, unconcerned: str) -> GateSummary:
    """Decide a gate by the results of its check on the released objects.

    Parameters
    ----------
    name : str
        Name of the gate.
    results : mapping of str to int
        Released objects by result of the check.
    detail : str
        Detail of the gate, if it concerns any object.
    unconcerned : str
        Detail of the gate otherwise.
    """
    looked = results.get("passed", 0) + results.get("flagged", 0)
    concerned = looked + results.get("not_run", 0)
    if not concerned:
        return GateSummary(name, "not_applicable", unconcerned, 0, 0)
    if not looked:
        return GateSummary(name, "not_run", detail, 0, concerned)
    complete = looked == concerned and not results.get("flagged", 0)
    return GateSummary(name, "passed" if complete else "flagged", detail, looked, concerned)


@dataclass(frozen=True, slots=True)
class Guideline:
    """Result for one of the guidelines A1 to A7 of Holub et al. 2023; ``why`` is public."""

    code: str
    name: str
    result: Standing
    why: str


@dataclass(frozen=True, slots=True)
class TableSummary:
    """An accompanying table; ``path`` is relative to the root of the release."""

    name: str
    path: str
    rows: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table of figures about synthetic images.

    The first ``texts`` columns contain text, the others numbers. Cells are already formatted, with their
    intervals.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class SyntheticSummary:
    """Originals that were replaced, and the synthetic images that replace them.

    Attributes
    ----------
    replaced : int
        Dropped originals.
    requested, released, removed : int
        Synthetic images requested, released, and removed because they match a training patient.
    state : str
        Verdict of the privacy gate.
    label : str
        What the images may be called; empty unless the gate passed.
    bound : float or None
        Upper bound of the fraction of generated images that match a training patient, before matching ones
        are removed.
    model : str
        SHA-256 (hex) of the generator.
    statement : tuple of str
        The basis of the verdict, in public sentences.
    grid : str
        Some of the released images as one PNG in base 64; empty if there are none.
    copy_rate, residual : float or None
        Upper bound of the fraction of copies among generated images, and after matches are removed; None
        unless the gate passed.
    quality, figures
        Public sentences about the quality of the released images, and tables of figures.
    """

    replaced: int
    requested: int
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
class Treatment:
    """What a policy decides about DICOM attributes.

    Attributes
    ----------
    enabled : tuple of str
        Options of PS3.15 E.3, named as in the policy.
    actions : tuple of (str, tuple of str)
        Action code -> rows of Table E.1-1 (keyword and tag) that have it under the policy.
    overrides, own_private : int
        Number of overridden attributes, and of safe private attributes that the policy adds.
    dates, times, texts, pdf : str
        ``dicom.dates.method``, ``dicom.dates.times``, ``text.action``, ``documents.pdf``.
    """

    enabled: tuple[str, ...] = ()
    actions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    overrides: int = 0
    dates: str = "shift"
    times: str = "keep"
    texts: str = "keep-vocabulary"
    pdf: str = "quarantine"
    own_private: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The public account of a run.

    Counts are of objects unless stated otherwise; mappings are from name to count. Nothing in it identifies a
    patient, a source file or an element value.

    Parameters
    ----------
    release : Release
        The public part of the policy's ``release`` section.
    preset, policy_digest, tool_version : str
        Preset of the policy, SHA-256 (hex) of its canonical form, version of this package.
    outcomes : mapping
        ``released``, ``dropped``, ``quarantined``.
    modalities, sop_classes : mapping
        Released objects by modality (such as ``CT``) and by SOP Class UID.
    patients, studies, series, objects, bytes : int
        Size of the release.
    actions : mapping
        Changes to attributes: ``replaced``, ``emptied``, ``removed``, ``cleaned``, ``uid``, ``kept``.
    rules : mapping
        Changes by rule id, over all released objects.
    meanings : mapping
        Rule id -> sentence for the report; rules without one are shown by their id.
    kinds : mapping
        Released objects by kind (``dicom``, ``raster``, ``slide``).
    dropped, quarantined : mapping
        Objects that were not released, by rule id.
    options : tuple of (code, meaning)
        De-identification methods of CID 7050 that were used.
    edition : str
        Edition of PS3.15 whose tables were applied.
    treatment : Treatment
        What the policy decides about attributes, for the conformance statement.
    gates : tuple of GateSummary
        All gates, including those not run.
    checks : mapping
        For each check of the manifest (``pixels``, ...): result -> number of released objects.
    duplicates_dropped, pixel_equal_flagged, pixel_regions_cleaned : int
        Dropped duplicates, released objects with equal pixels in another object, blanked regions.
    times : mapping
        Objects by their times of day. ``stated``: the source states a time; ``before``, ``after``: modality
        and times single the object out among all objects, in the source and in the release; ``found``: the
        released times are still those of one source object.
    supersedes : str or None
        Version of the same release that this one replaces.
    public_prior : tuple of str
        ``name version`` of overlapping earlier releases that the policy lists as public.
    tables : tuple of TableSummary
        Accompanying tables.
    guidelines : tuple of Guideline
        The checklist of Holub et al. 2023, in its order; empty if it was not evaluated.
    synthetic : SyntheticSummary or None
        Synthetic images; None if no image was replaced.
    card : DatasetCard or None
        Numbers of patients with differential privacy; None without a card.
    distributions : mapping of str to mapping of str to int
        Patients by age, sex, body part and manufacturer, as the released headers state them; empty with a
        card.
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
    edition: str = ""
    treatment: Treatment = Treatment()
    gates: tuple[GateSummary, ...] = ()
    checks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    duplicates_dropped: int = 0
    pixel_equal_flagged: int = 0
    pixel_regions_cleaned: int = 0
    times: Mapping[str, int] = field(default_factory=dict)
    supersedes: str | None = None
    public_prior: tuple[str, ...] = ()
    tables: tuple[TableSummary, ...] = ()
    guidelines: tuple[Guideline, ...] = ()
    synthetic: SyntheticSummary | None = None
    card: DatasetCard | None = None
    distributions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def missing_metadata(self) -> tuple[str, ...]:
        """Return the public fields that the policy leaves empty, in the policy's order."""
        names = ("date", "description", "creator", "license", "contact", "ethics")
        return tuple(name for name in names if getattr(self.release, name) is None)


@dataclass(frozen=True, slots=True)
class SynthesisStatement:
    """A sentence stating that a release contains synthetic images, and the SHA-256 of their generator."""

    sentence: str
    generator: str


def synthesis_statement(summary: Summary) -> SynthesisStatement | None:
    """Return the statement about the synthetic images of a release; None if it has none."""
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
    """Describe the upper bounds of matches and copies."""
    if made.bound is None:
        return ""
    sentence = f", at most {made.bound:.3%} of its images match a training patient"
    if made.copy_rate is None or made.residual is None:
        return sentence
    return (
        f"{sentence}, at most {made.copy_rate:.3%} are copies, and at most {made.residual:.4%}"
        " after matches are removed"
    )
