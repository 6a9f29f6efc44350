"""From the state to manifests, summary and evidence: streamed by pseudonym, page by page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from medsanitize import __version__
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.objects import count_flagged, outcome_counts, rule_counts
from medsanitize.pipeline.state.records import open_record
from medsanitize.pipeline.state.released import released_objects
from medsanitize.pipeline.state.result_types import OverlapResult, RegistryResult
from medsanitize.pipeline.state.stage_results import OVERLAP, REGISTRY, SYNTHETIC, decode_synthetic
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.model import OPTION_CODES, Policy
from medsanitize.release.canonical_json import canonical_json
from medsanitize.release.layout import staged_path
from medsanitize.release.manifest import ObjectRow, count_patients, write_objects, write_patients
from medsanitize.release.multi_file_objects import parts_to_json
from medsanitize.release.summary import GateSummary, Guideline, Summary, SyntheticSummary, TableSummary
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac
from medsanitize.sanitize.result import CheckResult, ObjectRecord

ACTIONS = {"D": "replaced", "Z": "emptied", "X": "removed", "C": "cleaned", "U": "uid", "K": "kept"}
_CHECKS = ("pixels", "faces", "identifiers", "duplicates", "registry", "overlap")


@dataclass(slots=True)
class Tally:
    """Counts taken while the rows of the manifest stream by in order."""

    objects: int = 0
    patients: int = 0
    studies: int = 0
    series: int = 0
    bytes: int = 0
    regions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    modalities: Counter[str] = field(default_factory=Counter)
    sop_classes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    checks: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in _CHECKS})
    _last: tuple[str, str, str] = ("", "", "")

    def add(self, row: ObjectRow, rules: Mapping[str, int]) -> None:
        """Count one row; rows come ordered by patient, study and series."""
        patient, study, series = self._last
        new_patient = self.objects == 0 or row.patient != patient
        new_study = new_patient or row.study != study
        self.patients += new_patient
        self.studies += new_study
        self.series += new_study or row.series != series
        self._last = (row.patient, row.study, row.series)
        self.objects += 1
        self.bytes += row.bytes
        self.regions += row.pixel_regions_cleaned
        self.modalities[row.modality or "none"] += 1
        self.kinds[row.kind] += 1
        if row.sop_class:
            self.sop_classes[row.sop_class] += 1
        self.rules.update(rules)
        for name in _CHECKS:
            self.checks[name][str(getattr(row, f"check_{name}"))] += 1

    @property
    def actions(self) -> dict[str, int]:
        """Changes to attributes by kind of action."""
        return count_actions(self.rules)


def count_actions(rules: Mapping[str, int]) -> dict[str, int]:
    """Add up rule counts by the action each rule id begins with; unchanged values are no action."""
    counts = dict.fromkeys(ACTIONS.values(), 0)
    for rule, count in rules.items():
        if rule[:1] in ACTIONS and rule[1:2] == ":" and rule != "K:unchanged":
            counts[ACTIONS[rule[0]]] += count
    return counts


def object_rows(state: State, subkeys: SubKeys, policy: Policy, tally: Tally) -> Iterator[ObjectRow]:
    """Yield the rows of the manifest, counting them on the way."""
    synthetic, overlap = SYNTHETIC.load(state), OVERLAP.load(state)
    registry_made = policy.deduplicate.registry != "ignore"
    for row in released_objects(state):
        record = open_record(state, "released", row.names, row.payload)
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
            # What tiles a slide is made of is for the holder alone: copies of the source have the same.
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
            check_registry=_registry_check(found, registry_made),
            check_overlap=_overlap_check(found, row.trouble, overlap),
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
        tally.add(out, record.rules)
        yield out


def _as_synthetic(row: ObjectRow, label: str, facts: SyntheticSummary) -> ObjectRow:
    """A synthetic image's row: no object or patient can be found twice by it, the gate saw to that."""
    return replace(
        row,
        check_duplicates=CheckResult.NOT_APPLICABLE,
        check_registry=CheckResult.NOT_APPLICABLE,
        check_overlap=CheckResult.NOT_APPLICABLE,
        synthetic=True,
        model_digest=facts.model,
        match_bound=facts.bound,
        gate_verdict=facts.state,
        synthetic_label=label or None,
    )


def synthetic_of(state: State) -> SyntheticSummary | None:
    """What is said of the synthetic images, in public; None where no image was replaced."""
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


def _registry_check(found: set[str], made: bool) -> CheckResult:
    if not made:
        return CheckResult.NOT_RUN
    return CheckResult.FLAGGED if "registry" in found else CheckResult.PASSED


def _overlap_check(found: set[str], trouble: object, compared: OverlapResult | None) -> CheckResult:
    """Passed only where the image was compared and the comparison bears that conclusion."""
    if "overlap" in found:
        return CheckResult.FLAGGED
    if compared is None or not compared.releases or trouble is None:
        return CheckResult.NOT_RUN
    if trouble == "no-image":
        return CheckResult.NOT_APPLICABLE
    return CheckResult.PASSED if trouble == "" and not compared.unclear else CheckResult.NOT_RUN


def write_manifests(state: State, subkeys: SubKeys, policy: Policy, staging: Path) -> Tally:
    """Write both manifests into the staging folder."""
    metadata = {"policy_digest": policy_digest(policy), "tool_version": __version__}
    tally = Tally()
    write_objects(object_rows(state, subkeys, policy, tally), staging, metadata=metadata)
    write_patients(count_patients(staging), staging, metadata=metadata)
    return tally


def summarize(
    state: State,
    policy: Policy,
    tally: Tally,
    gates: tuple[GateSummary, ...],
    tables: tuple[TableSummary, ...],
    guidelines: tuple[Guideline, ...] = (),
) -> Summary:
    """The public account of the run."""
    counts = outcome_counts(state)
    dropped, quarantined = rule_counts(state, "dropped"), rule_counts(state, "quarantined")
    registry = REGISTRY.load(state) or RegistryResult()
    return Summary(
        release=policy.release,
        preset=policy.preset,
        policy_digest=policy_digest(policy),
        tool_version=__version__,
        outcomes=counts,
        modalities=dict(sorted(tally.modalities.items())),
        sop_classes=dict(sorted(tally.sop_classes.items())),
        patients=tally.patients,
        studies=tally.studies,
        series=tally.series,
        objects=tally.objects,
        bytes=tally.bytes,
        actions=tally.actions,
        rules=dict(sorted(tally.rules.items())),
        kinds=dict(sorted(tally.kinds.items())),
        dropped=dropped,
        quarantined=quarantined,
        options=stated_options(policy),
        gates=gates,
        checks={name: dict(sorted(counts.items())) for name, counts in tally.checks.items()},
        duplicates_dropped=sum(count for rule, count in dropped.items() if rule.startswith("duplicate-")),
        pixel_equal_flagged=count_flagged(state, "pixels"),
        pixel_regions_cleaned=tally.regions,
        supersedes=registry.supersedes,
        public_prior=registry.public_prior,
        tables=tables,
        guidelines=guidelines,
        synthetic=synthetic_of(state),
    )


def summary_to_json(summary: Summary) -> str:
    """The summary as the state keeps it, less what the policy says anyway."""
    facts = asdict(replace(summary, release=None))  # type: ignore[arg-type]
    return json.dumps(facts, sort_keys=True, default=dict)


def summary_from_json(text: str, policy: Policy) -> Summary:
    """Rebuild what ``summary_to_json`` kept."""
    facts = json.loads(text)
    facts["release"] = policy.release
    facts["options"] = tuple((code, meaning) for code, meaning in facts["options"])
    facts["gates"] = tuple(GateSummary(**gate) for gate in facts["gates"])
    facts["tables"] = tuple(
        TableSummary(**{**table, "columns": tuple(table["columns"])}) for table in facts["tables"]
    )
    facts["public_prior"] = tuple(facts["public_prior"])
    facts["guidelines"] = tuple(Guideline(**guideline) for guideline in facts.get("guidelines", ()))
    facts["synthetic"] = decode_synthetic(facts["synthetic"]) if facts.get("synthetic") else None
    return Summary(**facts)


def stated_options(policy: Policy) -> tuple[tuple[str, str], ...]:
    """Codes and meanings (CID 7050) of the profile and of every option that is carried out."""
    chosen = policy.dicom.options.model_dump()
    # Quarantine alone cleans no face: only cutting it off is the option's work, whoever asked for it.
    chosen["clean_recognizable_visual_features"] = policy.pixels.faces == "deface"
    return (
        ("113100", "Basic Application Confidentiality Profile"),
        *(stated for name, stated in OPTION_CODES.items() if chosen[name]),
    )
