"""The stage validate: released objects are compared with their sources by foreign readers.

dciodvfy and dicom-validator must find no error that the source has not, and pydicom and GDCM must decode the
pixels of the source where these were not to be changed. An object that fails is quarantined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.engines.base import WorkerCrashed, batches
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.pipeline.state.objects import rule_out
from medsanitize.pipeline.state.records import open_record, remove_unreleased
from medsanitize.pipeline.state.result_types import ValidityResult
from medsanitize.pipeline.state.stage_results import VALIDITY
from medsanitize.pipeline.state.validity import (
    MOST_SAMPLED,
    ObjectToValidate,
    any_compressed,
    count_released_dicom,
    objects_to_validate,
    rest_of_series,
)
from medsanitize.pipeline.storage.named_files import CannotName, named_files
from medsanitize.pipeline.storage.sources import SourceProblem, open_source_files
from medsanitize.policies.model import Validation
from medsanitize.release.layout import staged_path
from medsanitize.release.summary import GateSummary
from medsanitize.sanitize.result import ObjectRecord
from medsanitize.verifiers.validity.dciodvfy import compare_errors, find_dciodvfy
from medsanitize.verifiers.validity.dicom_validator import compare_modules, has_dicom_validator
from medsanitize.verifiers.validity.findings import Validity
from medsanitize.verifiers.validity.pixels import pixels_differ

BATCH = 8
ERROR, PIXELS = "introduced-error", "pixels-differ"
DCIODVFY, DICOM_VALIDATOR = "dciodvfy", "dicom-validator"
# Without pixel data an object lacks what its IOD requires: on purpose, as its record says.
_NO_PIXELS, _OF_PIXELS = "X:undecodable-pixels", ("/PixelData(", "/PixelPadding")
_DEFLATED = "1.2.840.10008.1.2.1.99"
# Changes of the record after which pixels differ from those of the source on purpose.
_PIXEL_CHANGES = frozenset(
    [
        *("C:burned-in-text", "C:bits-outside-bits-stored", "C:unused-colors", "D:number-of-frames"),
        *("X:surplus-frames", "X:undecodable-pixels", "face-defaced"),
    ]
)


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A staged file and its source.

    ``same_pixels`` if the pixels are to be those of the source, ``no_pixels`` if they were left out.
    """

    id: int
    sop_class: str
    deflated: bool
    same_pixels: bool
    no_pixels: bool
    path: str
    sources: tuple[bytes, ...]
    stamp: bytes

    def __repr__(self) -> str:
        return f"Target({self.id})"


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one object: errors by kind, and whether pixels differ (None: not compared).

    ``validators`` are those that read it and its source to the end.
    """

    id: int
    sop_class: str
    validators: tuple[str, ...] = ()
    introduced: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    pixels_differ: bool | None = None


@dataclass(frozen=True, slots=True)
class ValidateStage(Stage):
    """Compare released objects with their sources by foreign readers."""

    mode: Validation

    name: ClassVar = "validate"
    phase: ClassVar[Phase] = "set"
    invalidated_by: ClassVar = frozenset({"sanitize", "conflicts"})

    def pending(self, state: State) -> int | None:
        """Return 0 if the policy asks for nothing, or it is done."""
        if self.mode == "off" or VALIDITY.is_stored(state):
            return 0
        count = count_released_dicom(state)
        return min(count, MOST_SAMPLED) if self.mode == "sample" else count

    def run(self, context: RunContext, advance: Advance) -> None:
        """Compare the objects, and quarantine those with an error of ours."""
        state, sample = context.state, self.mode == "sample"
        concerned, tally = count_released_dicom(state), _Tally()
        _compare_all(context, objects_to_validate(state, sample=sample), tally, advance)
        if sample:
            # What one object of a series has, the others may have as well.
            failed = [*tally.erroneous, *tally.different]
            others = (one for number in failed for one in rest_of_series(state, number))
            _compare_all(context, others, tally, advance)
        with state.transaction():
            rule_out(state, tally.erroneous, "quarantined", ERROR)
            rule_out(state, tally.different, "quarantined", PIXELS)
            VALIDITY.store(state, tally.result(concerned))
        remove_unreleased(state, context.staged)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the result."""
        VALIDITY.remove(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gate ``valid DICOM``."""
        return (validity_gate(self.mode, None if judged.is_plan else VALIDITY.load(judged.state)),)


def validity_gate(mode: Validation, found: ValidityResult | None) -> GateSummary:
    """Decide the gate from the comparison."""
    name = "valid DICOM"
    if mode == "off":
        return GateSummary(name, "not_run", "No released object was compared with its source.")
    if found is None:
        return GateSummary(name, "not_run", "Nothing was written that could be compared.")
    if not found.concerned:
        return GateSummary(name, "not_applicable", "No DICOM object is released.")
    detail = (
        f"{found.pixels} of {found.concerned} objects were read by pydicom and GDCM before and after,"
        f" {_by_validators(found)}."
    )
    looked = (found.checked, found.concerned)
    if found.quarantined:
        detail += f" Changed wrongly and quarantined: {found.quarantined}."
        return GateSummary(name, "flagged", detail, *looked)
    # One validator alone looks at less than both: the detail says which did.
    if mode == "all" and any(0 < found.validators.get(one, 0) < found.concerned for one in _installed()):
        return GateSummary(name, "flagged", detail, *looked)
    return GateSummary(name, "passed" if found.checked else "not_run", detail, *looked)


def _installed() -> list[str]:
    """The validators that are installed."""
    has = {DCIODVFY: find_dciodvfy() is not None, DICOM_VALIDATOR: has_dicom_validator()}
    return [name for name, there in has.items() if there]


def _by_validators(found: ValidityResult) -> str:
    installed = _installed()
    return " and ".join(
        f"{found.validators.get(name, 0)} by {name}"
        + ("" if name in installed else ", which is not installed (extra validate)")
        for name in (DCIODVFY, DICOM_VALIDATOR)
    )


class _Tally:
    """Counts over the comparisons."""

    def __init__(self) -> None:
        self.checked = self.pixels = 0
        self.validators: Counter[str] = Counter()
        self.erroneous: list[int] = []
        self.different: list[int] = []
        self.introduced: dict[str, Counter[str]] = {}
        self.kept: dict[str, Counter[str]] = {}

    def add(self, one: Compared) -> None:
        self.checked += bool(one.validators)
        self.validators.update(one.validators)
        self.pixels += one.pixels_differ is not None
        if one.introduced:
            self.erroneous.append(one.id)
            self.introduced.setdefault(one.sop_class, Counter()).update(one.introduced)
        elif one.pixels_differ:
            self.different.append(one.id)
        if one.kept:
            self.kept.setdefault(one.sop_class, Counter()).update(one.kept)

    def result(self, concerned: int) -> ValidityResult:
        return ValidityResult(
            concerned,
            self.checked,
            self.pixels,
            dict(sorted(self.validators.items())),
            len(self.erroneous) + len(self.different),
            {name: dict(sorted(found.items())) for name, found in sorted(self.introduced.items())},
            {name: dict(sorted(found.items())) for name, found in sorted(self.kept.items())},
        )


def _compare_all(
    context: RunContext, objects: Iterable[ObjectToValidate], tally: _Tally, advance: Advance
) -> None:
    """Compare objects in the workers, apart if one of the release has compressed pixels, and count."""
    apart = any_compressed(context.state)
    chosen = batches(_targets(context.state, objects), BATCH)
    for result in context.engine.map(validate_batch, chosen, isolate=apart):
        done = [Compared(result.item.id, "")] if isinstance(result, WorkerCrashed) else result
        for one in done:
            tally.add(one)
        advance(len(done))


def _targets(state: State, objects: Iterable[ObjectToValidate]) -> Iterator[Target]:
    for one in objects:
        record = open_record(state.seal, "released", one.names[:4], one.payload)
        yield Target(
            one.id,
            record.sop_class,
            record.transfer_syntax == _DEFLATED,
            _keeps_pixels(record),
            _NO_PIXELS in record.rules,
            staged_path(*one.names),
            open_paths(state.seal, one.source),
            one.stamp,
        )


def _keeps_pixels(record: ObjectRecord) -> bool:
    return (
        record.rows is not None and not record.pixel_regions_cleaned and not _PIXEL_CHANGES & {*record.rules}
    )


# -- in the workers -----------------------------------------------------------------------


def validate_batch(worker: Worker, batch: Sequence[Target]) -> list[Compared]:
    """Compare a batch of staged files with their sources."""
    return [_compare(worker, target) for target in batch]


def _compare(worker: Worker, target: Target) -> Compared:
    if worker.setup.staging is None:
        raise RuntimeError("a plan has no staged files")
    released = worker.setup.staging / target.path
    try:
        with (
            open_source_files(target.sources, worker.seal, target.stamp) as contents,
            named_files(target.sources, contents) as (source, *_),
        ):
            differ = pixels_differ(source, released) if target.same_pixels else None
            found = {DICOM_VALIDATOR: compare_modules(source, released)}
            if not target.deflated:
                found[DCIODVFY] = compare_errors(source, released)
    except (SourceProblem, CannotName):
        # The source changed, which the run finds out elsewhere, or others cannot read it from a store.
        return Compared(target.id, target.sop_class)
    except EnvironmentFailure:
        raise
    except Exception:  # noqa: BLE001  a comparison that fails says nothing about the object
        return Compared(target.id, target.sop_class)
    introduced, kept = (_named(found, errors) for errors in ("introduced", "kept"))
    if target.no_pixels:
        introduced = {kind: n for kind, n in introduced.items() if not kind.startswith(_OF_PIXELS)}
    judged = tuple(name for name, one in found.items() if one.judged)
    return Compared(target.id, target.sop_class, judged, introduced, kept, differ)


def _named(found: Mapping[str, Validity], errors: Literal["introduced", "kept"]) -> dict[str, int]:
    """The errors of all validators, with the name of the one that found them."""
    return {
        f"{kind} ({name})": number
        for name, one in found.items()
        for kind, number in getattr(one, errors).items()
    }
