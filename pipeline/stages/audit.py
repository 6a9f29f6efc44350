"""The stage audit: an independent second reading of every staged file, as an attacker would read it.

Uncompressed pixels are digested in the same pass, so that each file is read and parsed once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.engines.base import WorkerCrashed, batches
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.audit_gate import Exceptions, identifiers_gate
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.excerpts import (
    SealedExcerpt,
    count_chance_findings,
    count_in_pixels,
    judged_chance,
    seal_excerpt,
)
from medsanitize.pipeline.state.findings import (
    Audited,
    ObjectToAudit,
    any_slide_to_audit,
    count_to_audit,
    objects_to_audit,
    staged_bytes,
    store_audit,
    without_chance,
)
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.pipeline.state.patients import all_known, known_of, patient_of
from medsanitize.pipeline.state.records import open_record
from medsanitize.pipeline.state.reset import remove_findings
from medsanitize.pipeline.storage.named_files import named_files
from medsanitize.pipeline.storage.sources import SourceProblem, open_source_files
from medsanitize.policies.model import Dates, Dicom, Options, Policy
from medsanitize.policies.site_lists import read_site_lists
from medsanitize.release import layout
from medsanitize.release.summary import GateSummary
from medsanitize.sanitize.context import KnownValue
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import FilePart, SlideRecord

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.dicom_conformance import Expected
    from medsanitize.verifiers.leaks.excerpts import Excerpt
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

BATCH = 64
_NO_SCANS = (0.0, 0.0, 0.0, 0.0)
"""Region of a macro image that is kept if the policy drops macros: none; the image is black."""


@dataclass(frozen=True, slots=True, repr=False)
class Subject:
    """Expectations for the files of one study: pseudonym, identifiers to search for, allowed dates."""

    pseudonym: str
    own: frozenset[KnownValue]
    allowed_dates: frozenset[str]

    def __repr__(self) -> str:
        return "Subject(...)"


@dataclass(frozen=True, slots=True, repr=False)
class SlideTarget:
    """Expectations for a staged slide: its record, and its source files with their stamp."""

    stated: SlideRecord
    parts: tuple[FilePart, ...]
    sources: tuple[bytes, ...]
    stamp: bytes

    def __repr__(self) -> str:
        return "SlideTarget(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A staged file to audit; ``native`` is True for uncompressed pixels, None without pixels."""

    id: int
    path: str
    sha256: str
    native: bool | None
    subject: Subject
    slide: SlideTarget | None = None
    parts: tuple[FilePart, ...] = ()

    def __repr__(self) -> str:
        return f"Target({self.id})"


@dataclass(frozen=True, slots=True)
class AuditStage(Stage):
    """Read every staged file again and search it for the identifiers of the run."""

    options: Options
    dates: Dates
    never_words: tuple[KnownValue, ...] = field(default=(), repr=False)
    in_pixels: Literal["quarantine", "refuse"] = "quarantine"

    name: ClassVar = "audit"
    phase: ClassVar[Phase] = "set"
    invalidated_by: ClassVar = frozenset({"sanitize", "conflicts"})

    def pending(self, state: State) -> int | None:
        """Return the number of files not yet audited; never 0, because later stages need the search."""
        return count_to_audit(state) or None

    def run(self, context: RunContext, advance: Advance) -> None:
        """Audit the files, and store the identifier search in the context."""
        context.search = audit_objects(self, context, advance)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the findings on objects that are sanitized again."""
        remove_findings(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gate ``residual identifiers``."""
        state = judged.state
        exceptions = Exceptions(count_in_pixels(state), count_chance_findings(state))
        return (
            identifiers_gate(judged.findings, judged.search, exceptions, judged.tally.checks["identifiers"]),
        )


def removed_categories(options: Options) -> frozenset[str]:
    """Return the categories of known identifiers that the policy removes from every object."""
    removed = {"name", "id", "date", "address", "phone", "institution", "uid", "text"}
    if options.retain_institution_identity:
        removed -= {"institution", "address", "phone"}
    if options.retain_uids:
        removed -= {"uid"}
    if options.retain_longitudinal_full_dates:
        removed -= {"date"}
    return frozenset(removed)


def searched_never_words(policy: Policy) -> tuple[KnownValue, ...]:
    """Return the never-words of the policy that the audit searches for.

    Long and distinctive entries only, since a hit prevents publication, and none that the release states
    about itself, such as the institution of its creator.
    """
    entries = read_site_lists(policy.text, policy.state).deny
    if not entries:
        return ()
    from medsanitize.sanitize.text.deny_list import distinctive_values
    from medsanitize.verifiers.leaks.identifier_encodings import words

    stated = "".join(words(policy.release.model_dump_json()))
    return tuple(value for value in distinctive_values(entries) if "".join(words(value.value)) not in stated)


def build_search(
    state: State, options: Options, never_words: Collection[KnownValue] = ()
) -> IdentifierSearch:
    """Build the search for the known identifiers of all patients and studies, and for never-words.

    An institution that is called like a manufacturer is searched in the objects of its own patient only:
    devices of other patients state it as their Manufacturer, which Table E.1-1 keeps.
    """
    from medsanitize.policies.tables.vocabulary import fold, manufacturers, words
    from medsanitize.verifiers.leaks.identifier_search import build_identifier_search

    removed, makers = removed_categories(options), manufacturers()
    named: set[str] = set()

    def searched() -> Iterator[KnownValue]:
        for one in all_known(state):
            if one.category == "institution" and (name := fold(" ".join(one.value.split()))) in makers:
                named.add(name)
            elif one.category in removed:
                yield one

    # The expected number of chance hits depends on how much is searched.
    search = build_identifier_search(chain(searched(), never_words), words(), staged_bytes(state))
    if named and "institution" in removed:
        counts = search.not_searched
        counts["institution"] = counts.get("institution", 0) + len(named)
    return search


def audit_objects(
    rules: AuditStage, context: RunContext, on_objects: Advance = lambda _: None
) -> IdentifierSearch:
    """Audit the staged files that were not audited yet, and store the findings.

    Parameters
    ----------
    rules : AuditStage
        Which identifiers and dates the policy retains, and its never-words.
    context : RunContext
        The context of the run.
    on_objects : callable
        Receives the number of objects of each batch.

    Returns
    -------
    IdentifierSearch
        The search for the identifiers of the run.

    Raises
    ------
    EnvironmentFailure
        Staged files are missing or unreadable. Objects with missing files are requeued first.
    """
    state, engine = context.state, context.engine
    search = build_search(state, rules.options, rules.never_words)
    engine.equip(search)
    # Slides are read with native libraries, which may crash: an isolated process keeps the run alive.
    gone: list[int] = []
    judged = judged_chance(state)
    apart = any_slide_to_audit(state)
    for result in engine.map(
        audit_batch, batches(_targets(rules, state, context.subkeys), BATCH), isolate=apart
    ):
        audited = [_worker_died(result.item)] if isinstance(result, WorkerCrashed) else result
        audited = [without_chance(one, judged) for one in audited]
        gone += [one.id for one in audited if one.gone]
        store_audit(state, audited, quarantine_pixels=rules.in_pixels == "quarantine")
        state.count_written(len(audited))
        on_objects(len(audited))
    state.commit()
    if gone:
        context.requeue(gone)
        raise EnvironmentFailure(
            f"Files of {len(gone)} objects are missing from the staging folder",
            "Find out what deletes files there, then run the same command again: it restores them",
        )
    return search


def _targets(rules: AuditStage, state: State, subkeys: SubKeys) -> Iterator[Target]:
    for (patient, study), group in groupby(objects_to_audit(state), key=_study_of):
        subject: Subject | None = None
        for one in group:
            if subject is None or subject.pseudonym != one.names[0]:
                subject = _subject(rules, state, subkeys, patient, study, one.names[0])
            slide, parts = None, tuple[FilePart, ...]()
            if one.kind == "raster":
                parts = open_record(state.seal, "released", one.names, one.payload).parts
            elif one.kind == "slide":
                record = open_record(state.seal, "released", one.names, one.payload)
                paths = open_paths(state.seal, one.source)
                slide = SlideTarget(record.slide, record.parts, paths, one.stamp) if record.slide else None
            yield Target(one.id, one.path, one.sha256.hex(), one.native, subject, slide, parts)


def _study_of(one: ObjectToAudit) -> tuple[bytes, bytes]:
    return one.patient, one.study


def _subject(
    rules: AuditStage, state: State, subkeys: SubKeys, patient: bytes, study: bytes, pseudonym: str
) -> Subject:
    known = known_of(state, patient, study)
    removed = removed_categories(rules.options)
    own = frozenset(one for one in known if one.category in removed)
    allowed = allowed_dates(rules.options, rules.dates, subkeys, patient_of(state, patient).key, known)
    return Subject(pseudonym, own, allowed)


def allowed_dates(
    options: Options, dates: Dates, subkeys: SubKeys, patient: str, known: Collection[KnownValue]
) -> frozenset[str]:
    """Return the known dates that may occur in a release because another known date is shifted to them.

    Parameters
    ----------
    options : Options
        The options of the profile.
    dates : Dates
        How dates are replaced.
    subkeys : SubKeys
        Keys of the date shift.
    patient : str
        Canonical key of the patient (`Context.patient`).
    known : collection of KnownValue
        The known identifiers of the patient.
    """
    from medsanitize.sanitize.dicom.dates import patient_shift, shift_date

    if "date" not in removed_categories(options):
        return frozenset()
    # Without this exception, a shifted date that equals another date of the patient would fail the audit.
    shift = patient_shift(subkeys, patient, dates)
    stated = {one.value.strip()[:8] for one in known if one.category == "date"}
    # A time of day that moves past midnight takes its date to the next day.
    days = {shift.days, shift.days + 1} if shift.seconds else {shift.days}
    moved = {shift_date(date, number) for date in stated for number in days}
    first = {f"{date[:4]}0101" for date in stated} if dates.method == "year" else set()
    return frozenset(date for date in moved | first if date)


def _worker_died(target: Target) -> Audited:
    # A file that crashes the reader was not audited, so it counts as a finding.
    return Audited(target.id, (("file", "audit:worker-died"),), -1, None)


# -- in the workers -----------------------------------------------------------------------


def audit_batch(worker: Worker, batch: Sequence[Target]) -> list[Audited]:
    """Audit a batch of staged files."""
    return [_audit_one(worker, target) for target in batch]


def _audit_one(worker: Worker, target: Target) -> Audited:
    from medsanitize.verifiers.leaks.dicom_reader import MalformedFile, read
    from medsanitize.verifiers.leaks.excerpts import excerpts_of_object
    from medsanitize.verifiers.leaks.pixel_digest import pixel_digest
    from medsanitize.verifiers.leaks.scan_object import audit_parsed
    from medsanitize.verifiers.leaks.tile_digest import frames_digest

    search, staging = worker.search, worker.setup.staging
    if search is None or staging is None:
        raise RuntimeError("the audit was not equipped")
    if _is_missing(staging, target):
        return Audited(target.id, (), -1, None, gone=True)
    try:
        if target.slide is not None:
            return _audit_slide(worker, target, target.slide, staging, search)
        if not target.path.endswith(".dcm"):
            return _audit_raster(worker, target, staging, search)
        parsed = read(staging / target.path)
        own, expected = target.subject.own, _expected_values(worker, target)
        findings = audit_parsed(parsed, own=own, search=search, expected=expected)
        excerpts = _sealed(worker, excerpts_of_object(parsed, own, search, expected)) if findings else ()
        digest = pixel_digest(parsed) if target.native else None
        tiles = frames_digest(parsed) if target.native is False else None
    except MalformedFile as problem:
        return Audited(target.id, (("file", f"audit:malformed-{problem.rule}"),), -1, None)
    except OSError:
        raise EnvironmentFailure("A staged file cannot be read", "Run the same command again") from None
    except EnvironmentFailure:
        raise
    except Exception:  # noqa: BLE001  an audit that fails unexpectedly has not passed
        return Audited(target.id, (("file", "audit:internal-error"),), -1, None)
    check = 1 if target.native is None or digest else -1 if target.native else 0
    found = tuple((finding.location, finding.rule) for finding in findings)
    scans = (bytes.fromhex(tiles),) if tiles else ()
    pixels = bytes.fromhex(digest) if digest else None
    return Audited(target.id, found, check, pixels, scans, excerpts=excerpts)


def _sealed(worker: Worker, excerpts: Sequence[Excerpt]) -> tuple[SealedExcerpt, ...]:
    """Encrypt excerpts; an anonymous run keeps none."""
    if not worker.setup.keep_links:
        return ()
    return tuple(
        seal_excerpt(
            worker.seal,
            one.location,
            one.rule,
            one.place,
            one.value,
            one.surroundings,
            exact=one.exact,
        )
        for one in excerpts
    )


def _is_missing(staging: Path, target: Target) -> bool:
    """Whether a file of an object is missing from an existing staging folder."""
    parts = target.slide.parts if target.slide else target.parts
    stem = target.path.removesuffix(parts[0].name) if parts else target.path
    names = [stem + part.name for part in parts] or [target.path]
    return not all((staging / name).exists() for name in names) and staging.exists()


def _audit_raster(worker: Worker, target: Target, staging: Path, search: IdentifierSearch) -> Audited:
    """Audit a picture file; its pixels are decoded later, in an isolated process."""
    from medsanitize.verifiers.leaks.excerpts import excerpts_of_picture
    from medsanitize.verifiers.leaks.raster_files import audit_raster

    path = staging / target.path
    findings = audit_raster(path, search=search, digest=target.sha256, parts=target.parts)
    found = tuple((finding.location, finding.rule) for finding in findings)
    excerpts = excerpts_of_picture(path.read_bytes(), path.suffix, search) if found else ()
    return Audited(target.id, found, 0, None, excerpts=_sealed(worker, excerpts))


def _audit_slide(
    worker: Worker, target: Target, slide: SlideTarget, staging: Path, search: IdentifierSearch
) -> Audited:
    """Compare a staged slide with its source, which must not have changed since it was sanitized."""
    from medsanitize.verifiers.leaks.slide_audit import StagedSlide, read_slide

    rules = worker.setup.policy.wsi
    kept, part = rules.tile_metadata == "keep", _NO_SCANS if rules.macro == "drop" else rules.macro.keep
    try:
        with (
            open_source_files(slide.sources, worker.seal, slide.stamp) as contents,
            named_files(slide.sources, contents) as sources,
        ):
            staged = StagedSlide(
                staging / target.path, target.sha256, slide.stated, slide.parts, sources, kept, part
            )
            findings, tiles = read_slide(staged, search=search)
    except SourceProblem as problem:
        return Audited(target.id, (("file", problem.rule),), -1, None)
    found = tuple((finding.location, finding.rule) for finding in findings)
    whole, *scans = map(bytes.fromhex, tiles) if tiles else (None,)
    return Audited(target.id, found, 1 if tiles else -1, whole, tuple(scans))


def _expected_values(worker: Worker, target: Target) -> Expected:
    from medsanitize.verifiers.leaks.dicom_conformance import Expected

    policy = worker.setup.policy
    return Expected(
        sha256=target.sha256,
        pseudonym=target.subject.pseudonym,
        uid_prefix=uid_prefix(policy.dicom.options, policy.pseudonyms.uid_root),
        private_creators=private_creators(policy.dicom),
        allowed_dates=target.subject.allowed_dates,
        kept_attributes=worker.kept,
    )


def uid_prefix(options: Options, uid_root: str | None) -> str | None:
    """Return the prefix of every new UID; None if UIDs are retained."""
    if options.retain_uids:
        return None
    # 2.25 is the root of UIDs derived from a UUID (PS3.5 B.2).
    return f"{uid_root}." if uid_root else "2.25."


def private_creators(dicom: Dicom) -> frozenset[str]:
    """Return the private creators that the policy retains."""
    if not dicom.options.retain_safe_private:
        return frozenset()
    from medsanitize.policies.tables.safe_private import safe_private

    listed = {creator for _, creator, _ in safe_private()}
    return frozenset(listed | {row.creator for row in dicom.safe_private})


# -- findings -----------------------------------------------------------------------------


def audit_evidence(search: IdentifierSearch, staging: Path) -> list[tuple[str, str, str]]:
    """Search every staged file that is no object: (path in the release, location, rule)."""
    from medsanitize.verifiers.leaks.scan_object import audit_file

    found: list[tuple[str, str, str]] = []
    for top in sorted(set(layout.TOP_LEVEL) - {layout.DATA}):
        path = staging / top
        files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
        for file in files:
            if file.is_file():
                name = layout.release_path(file, staging)
                found.extend((name, finding.location, finding.rule) for finding in audit_file(file, search))
    return found
