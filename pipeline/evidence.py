"""The evidence of a release, its public summary, and the report for the data controller."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from medsanitize import __version__
from medsanitize.pipeline.runtime.workspace import identity_ledger
from medsanitize.pipeline.sequence import gates_of
from medsanitize.pipeline.stages.audit import audit_evidence
from medsanitize.pipeline.stages.double_patients import suspicions
from medsanitize.pipeline.stages.linkage_attack import worst_links
from medsanitize.pipeline.stages.resolve import identities_of
from medsanitize.pipeline.stages.second_review import second_review_gate
from medsanitize.pipeline.stages.stage import GateInput, RunContext, Stage, StagedFinding
from medsanitize.pipeline.stages.tally import Tally, count_by_times
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.duplicates import equal_pixels, equal_tiles
from medsanitize.pipeline.state.findings import object_findings
from medsanitize.pipeline.state.listed_files import count_listed
from medsanitize.pipeline.state.objects import count_flagged, outcome_counts, rule_counts
from medsanitize.pipeline.state.records import quarantined_places
from medsanitize.pipeline.state.result_types import OverlapResult, RegistryResult
from medsanitize.pipeline.state.stage_results import (
    CARD,
    EXCLUDED,
    OVERLAP,
    REGISTRY,
    SUSPECTED,
    SYNTHETIC,
    TABLE_NOTES,
    VALIDITY,
    decode_synthetic,
)
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.model import BASIC_PROFILE_CODE, OPTION_CODES, Policy
from medsanitize.policies.tables.standard import edition
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.build import write_evidence
from medsanitize.release.canonical_json import document_json
from medsanitize.release.conformance import treatment_of
from medsanitize.release.dataset_card.noisy_tables import card_from_facts
from medsanitize.release.publish import staged_digest
from medsanitize.release.report import ObjectRelation, write_controller_report
from medsanitize.release.summary import GateSummary, Guideline, Summary, TableSummary, Treatment
from medsanitize.verifiers.reid.linkage.holub_guidelines import guidelines_of

CONTROLLER_REPORT = "report.html"
AUDIT_FILE = "audit.json"
_LINKS_SHOWN = 1000


def give_evidence(policy: Policy, stages: Sequence[Stage], context: RunContext) -> tuple[Summary, str]:
    """Write the evidence of the staged release, and audit the evidence files as well.

    Parameters
    ----------
    policy : Policy
        The policy of the run.
    stages : sequence of Stage
        The stages whose gates are decided.
    context : RunContext
        The context after the last stage; it contains the identifier search of the audit.

    Returns
    -------
    summary : Summary
        The public summary; its gates include findings in the evidence itself.
    digest : str
        Digest of all staged files.
    """
    state, staging, search = context.state, context.staged, context.search
    if search is None:
        raise RuntimeError("the staged files were not audited")
    # Once more, since the run has compared pixels meanwhile.
    identities = identities_of(state, policy.identities, identity_ledger(policy))
    SUSPECTED.store(state, len(suspicions(state, identities)))
    findings = object_findings(state)
    reviewed = second_review_gate(state, policy.release.approval)
    gates = (*gates_of(stages, GateInput(state, context.tally, findings, search)), *reviewed)
    others, slides, left = worst_links(state)
    guidelines = guidelines_of(policy, staging, others, slides, left=left)
    summary = summarize(state, policy, context.tally, gates, context.tables, guidelines)
    write_evidence(staging, summary, signing_key=policy.keys.signing)
    # Evidence is written from released data: it is searched like every other file, and may fail the gate.
    findings += audit_evidence(search, staging)
    # After the last write to the staging folder: an approval is bound to this digest.
    digest = staged_digest(staging)
    again = gates_of(stages, GateInput(state, context.tally, findings, search))
    summary = replace(summary, gates=(*again, *reviewed))
    write_controller_files(state, policy, summary, findings)
    return summary, digest


def summarize(
    state: State,
    policy: Policy,
    tally: Tally,
    gates: tuple[GateSummary, ...],
    tables: tuple[TableSummary, ...],
    guidelines: tuple[Guideline, ...] = (),
) -> Summary:
    """Build the public summary of the run from the state, the policy and the tally of the manifest."""
    counts = outcome_counts(state)
    dropped, quarantined = rule_counts(state, "dropped"), rule_counts(state, "quarantined")
    registry, card = REGISTRY.load(state) or RegistryResult(), CARD.load(state)
    # Exact numbers of patients would defeat the noise of a dataset card.
    described = {} if card else {title: dict(found) for title, found in tally.distributions.items() if found}
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
        options=stated_options(policy, tally),
        edition=edition(),
        treatment=treatment_of(policy),
        gates=gates,
        checks={name: dict(sorted(counts.items())) for name, counts in tally.checks.items()},
        duplicates_dropped=sum(count for rule, count in dropped.items() if rule.startswith("duplicate-")),
        pixel_equal_flagged=count_flagged(state, "pixels"),
        pixel_regions_cleaned=tally.regions,
        times=count_by_times(tally.times),
        supersedes=registry.supersedes,
        public_prior=registry.public_prior,
        tables=tables,
        guidelines=guidelines,
        synthetic=SYNTHETIC.load(state),
        card=card,
        distributions=described,
    )


def summary_to_json(summary: Summary) -> str:
    """Serialize a summary for the state, without the section that the policy already contains."""
    facts = asdict(replace(summary, release=None))  # type: ignore[arg-type]
    return json.dumps(facts, sort_keys=True, default=dict)


def summary_from_json(text: str, policy: Policy) -> Summary:
    """Rebuild a summary from the output of ``summary_to_json``."""
    facts = json.loads(text)
    facts["release"] = policy.release
    facts["options"] = tuple((code, meaning) for code, meaning in facts["options"])
    facts["treatment"] = _treatment(facts["treatment"])
    facts["gates"] = tuple(GateSummary(**gate) for gate in facts["gates"])
    facts["tables"] = tuple(
        TableSummary(**{**table, "columns": tuple(table["columns"])}) for table in facts["tables"]
    )
    facts["public_prior"] = tuple(facts["public_prior"])
    facts["guidelines"] = tuple(Guideline(**guideline) for guideline in facts.get("guidelines", ()))
    facts["synthetic"] = decode_synthetic(facts["synthetic"]) if facts.get("synthetic") else None
    facts["card"] = card_from_facts(facts["card"]) if facts.get("card") else None
    return Summary(**facts)


def _treatment(facts: dict[str, Any]) -> Treatment:
    actions = tuple((code, tuple(names)) for code, names in facts["actions"])
    return Treatment(**{**facts, "enabled": tuple(facts["enabled"]), "actions": actions})


def stated_options(policy: Policy, tally: Tally) -> tuple[tuple[str, str], ...]:
    """Return code and meaning (PS3.16 CID 7050) of the profile and of each option that was applied.

    Options of the pixels count only if pixels of a released object were read, or a face was removed.
    """
    chosen = policy.dicom.options.model_dump()
    chosen["clean_pixel_data"] &= tally.checks["pixels"]["passed"] > 0
    chosen["clean_recognizable_visual_features"] = tally.rules["face-defaced"] > 0
    return (BASIC_PROFILE_CODE, *(stated for name, stated in OPTION_CODES.items() if chosen[name]))


def write_controller_files(
    state: State, policy: Policy, summary: Summary, findings: Sequence[StagedFinding]
) -> None:
    """Write report and audit for the data controller, with locations, rules and pseudonyms but no values."""
    registry = REGISTRY.load(state) or RegistryResult()
    excluded, tables = EXCLUDED.load(state), TABLE_NOTES.load(state) or {}
    facts = {
        "findings": [{"file": file, "location": location, "rule": rule} for file, location, rule in findings],
        "gates": [asdict(gate) for gate in summary.gates],
        "dropped": rule_counts(state, "dropped"),
        "quarantined": rule_counts(state, "quarantined"),
        "quarantined_places": quarantined_places(state),
        "dicomdirs": dict(zip(("dicomdirs", "listed", "missing"), count_listed(state), strict=True)),
        "excluded": asdict(excluded) if excluded else {},
        "suspected_double_patients": SUSPECTED.load(state) or 0,
        "tables": {name: asdict(one) for name, one in tables.items()},
        "earlier_releases": dict(registry.links),
        "overlap": _overlap_facts(OVERLAP.load(state)),
        "validity": asdict(validity) if (validity := VALIDITY.load(state)) else {},
    }
    path = policy.state / AUDIT_FILE
    write_atomic(path, document_json(facts))
    report = policy.state / CONTROLLER_REPORT
    write_controller_report(report, summary, links=_links(state, registry))
    with storage_errors():
        path.chmod(0o600)
        report.chmod(0o600)


def _overlap_facts(overlap: OverlapResult | None) -> dict[str, Any]:
    if overlap is None:
        return {}
    return asdict(overlap) if overlap.releases else {"releases": 0}


def _links(state: State, registry: RegistryResult) -> list[ObjectRelation]:
    links = [
        ObjectRelation("this release", f"{count} objects are also in", release)
        for release, count in sorted(registry.links.items())
    ]
    links += [
        ObjectRelation(one, "has the same pixels as", other)
        for one, other in equal_pixels(state, _LINKS_SHOWN)
    ]
    # One scan may be present in two forms: DICOM and a vendor file, or a single channel of it.
    links += [
        ObjectRelation(one, "has the same tiles as", other) for one, other in equal_tiles(state, _LINKS_SHOWN)
    ]
    return links
