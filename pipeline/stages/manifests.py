"""The stage manifests: one row per released object, streamed from the state in the order of pseudonyms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from medsanitize import __version__
from medsanitize.pipeline.stages.stage import Advance, Phase, RunContext, Stage
from medsanitize.pipeline.stages.tally import Tally, count_actions
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.records import open_record
from medsanitize.pipeline.state.released import released_objects
from medsanitize.pipeline.state.result_types import OverlapResult, RegistryResult
from medsanitize.pipeline.state.stage_results import OVERLAP, REGISTRY, SYNTHETIC
from medsanitize.policies.tables.standard import edition
from medsanitize.release.canonical_json import canonical_json
from medsanitize.release.layout import staged_path
from medsanitize.release.manifest import ObjectRow, count_patients, read_rows, write_objects, write_patients
from medsanitize.release.multi_file_objects import parts_to_json
from medsanitize.release.research_index import Row, index_row, write_index
from medsanitize.release.summary import SyntheticSummary
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac
from medsanitize.sanitize.result import CheckResult, ObjectRecord


@dataclass(frozen=True, slots=True)
class ManifestsStage(Stage):
    """Write the manifests of objects and patients and the research index, and count over their rows."""

    policy_digest: str
    compares_registry: bool

    name: ClassVar = "manifests"
    phase: ClassVar[Phase] = "documents"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"sanitize", "deduplicate", "overlap", "synthesize"})

    def run(self, context: RunContext, advance: Advance) -> None:
        """Write the manifests; a plan only counts their rows."""
        if context.staging is None:
            for _ in object_rows(self, context.state, context.subkeys, context.tally):
                pass
        else:
            context.tally = write_manifests(self, context.state, context.subkeys, context.staging)


def object_rows(rules: ManifestsStage, state: State, subkeys: SubKeys, tally: Tally) -> Iterator[ObjectRow]:
    """Yield the rows of the object manifest, in the order of pseudonyms.

    Parameters
    ----------
    rules : ManifestsStage
        Says whether objects were compared with the registry.
    state : State
        The state of the run.
    subkeys : SubKeys
        Keys of the object IDs.
    tally : Tally
        Counts every row that is yielded.
    """
    synthetic, overlap = SYNTHETIC.load(state), OVERLAP.load(state)
    registry = REGISTRY.load(state) or RegistryResult()
    for row in released_objects(state):
        record = open_record(state.seal, "released", row.names, row.payload)
        found = set(row.flags.split(","))
        actions = count_actions(record.rules)
        out = ObjectRow(
            object_id=keyed_mac(subkeys.uid, "object id", record.instance)[:16].hex(),
            path=staged_path(record.patient, record.study, record.series, record.instance, row.suffix),
            kind=record.kind,
            modality=record.modality,
            sop_class=record.sop_class,
            transfer_syntax=record.transfer_syntax,
            patient=record.patient,
            study=record.study,
            series=record.series,
            instance=record.instance,
            bytes=row.size,
            sha256=row.sha256.hex(),
            parts=parts_to_json(record.parts),
            # Tiles of a slide are copied unchanged, so their digest would identify the source file.
            pixels_sha256=row.pixels.hex() if row.pixels and not record.slide else None,
            rows=record.rows,
            columns=record.columns,
            frames=record.frames,
            rules=canonical_json(dict(record.rules)),
            pixel_regions_cleaned=record.pixel_regions_cleaned,
            check_pixels=record.pixels,
            check_faces=record.faces,
            check_identifiers=CheckResult.PASSED if row.audited else CheckResult.NOT_RUN,
            check_duplicates=_duplicate_check(found, row.pixels_check == 1),
            check_registry=_registry_check(found, rules.compares_registry, registry),
            check_overlap=_overlap_check(found, row.problem, overlap),
            actions_replaced=actions["replaced"],
            actions_emptied=actions["emptied"],
            actions_removed=actions["removed"],
            actions_cleaned=actions["cleaned"],
            actions_uid=actions["uid"],
            actions_kept=actions["kept"],
            **_slide_columns(record),
        )
        if row.label is not None and synthetic is not None:
            out = _as_synthetic(out, state.seal.open(row.label, b"label").decode(), synthetic)
        tally.add(out, record.rules, record.times, record.research)
        yield out


def _as_synthetic(row: ObjectRow, label: str, facts: SyntheticSummary) -> ObjectRow:
    """Complete the row of a synthetic image; the privacy gate replaces the comparisons with other objects."""
    return replace(
        row,
        check_duplicates=CheckResult.NOT_APPLICABLE,
        check_registry=CheckResult.NOT_APPLICABLE,
        check_overlap=CheckResult.NOT_APPLICABLE,
        synthetic=True,
        model_digest=facts.model,
        match_bound=facts.bound,
        residual_bound=facts.residual,
        gate_verdict=facts.state,
        synthetic_label=label or None,
    )


def synthetic_of(state: State) -> SyntheticSummary | None:
    """Return the public facts about synthetic images; None if no image was replaced."""
    return SYNTHETIC.load(state)


def _slide_columns(record: ObjectRecord) -> dict[str, Any]:
    slide = record.slide
    if slide is None:
        return {}
    return {
        "slide_vendor": slide.vendor,
        "slide_levels": ",".join(f"{width}x{height}" for width, height in slide.levels),
        "slide_mpp": slide.mpp,
        "slide_objective": slide.objective,
        "slide_stain": slide.stain or None,
        "slide_sample": slide.sample or None,
        "slide_block": slide.block or None,
        "slide_section": slide.section or None,
        "slide_scanner": slide.scanner or None,
        "slide_macros": slide.macros or None,
    }


def _duplicate_check(found: set[str], looked: bool) -> CheckResult:
    if found & {"bytes", "pixels"}:
        return CheckResult.FLAGGED
    return CheckResult.PASSED if looked else CheckResult.NOT_RUN


def _registry_check(found: set[str], made: bool, registry: RegistryResult) -> CheckResult:
    if not made:
        return CheckResult.NOT_RUN
    if not registry.compared:
        return CheckResult.NOT_APPLICABLE
    return CheckResult.FLAGGED if "registry" in found else CheckResult.PASSED


def _overlap_check(found: set[str], problem: object, compared: OverlapResult | None) -> CheckResult:
    """Return the overlap check of an object: passed only if it was compared with a conclusive result."""
    if "overlap" in found:
        return CheckResult.FLAGGED
    if compared is None or not compared.releases or problem is None:
        return CheckResult.NOT_RUN
    if problem == "no-image":
        return CheckResult.NOT_APPLICABLE
    return CheckResult.PASSED if problem == "" and not compared.unclear else CheckResult.NOT_RUN


def write_manifests(rules: ManifestsStage, state: State, subkeys: SubKeys, staging: Path) -> Tally:
    """Write the manifests and the research index to the staging folder, and return the counts."""
    metadata = {
        "policy_digest": rules.policy_digest,
        "ps3.15": edition(),
        "tool_version": __version__,
    }
    tally = Tally()
    # In this order: patients and index are made from the object manifest that was just written.
    write_objects(object_rows(rules, state, subkeys, tally), staging, metadata=metadata)
    write_patients(count_patients(staging), staging, metadata=metadata)
    write_index(_index_rows(state, staging), staging, metadata=metadata)
    return tally


def _index_rows(state: State, staging: Path) -> Iterator[Row]:
    """Yield the rows of the research index, in the order of the object manifest that was just written."""
    for row, stored in zip(read_rows(staging), released_objects(state), strict=True):
        record = open_record(state.seal, "released", stored.names, stored.payload)
        yield index_row(row, record.research)
