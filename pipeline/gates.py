"""The gates of a run, and what the holder is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from medsanitize.pipeline.stages.audit import count_by_rule
from medsanitize.pipeline.stages.evidence import Tally, synthetic_of
from medsanitize.pipeline.stages.linkage_attack import attacks_of
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.decisions import decision_counts
from medsanitize.pipeline.state.duplicates import count_not_compared, equal_pixels, equal_tiles
from medsanitize.pipeline.state.objects import count_flagged, count_released, rule_counts
from medsanitize.pipeline.state.records import quarantined_places
from medsanitize.pipeline.state.result_types import OverlapResult, RegistryResult
from medsanitize.pipeline.state.stage_results import (
    EXCLUDED,
    FAILED_BYTES,
    FAILED_OVERLAP,
    FAILED_PIXELS,
    FAILED_REGISTRY,
    GROUPS,
    OVERLAP,
    REGISTRY,
    REVIEWED,
    TABLE_NOTES,
)
from medsanitize.pipeline.synthesis.replaced_objects import read_replaced
from medsanitize.policies.model import Policy
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.release.report import ObjectRelation, write_controller_report
from medsanitize.release.summary import GateResult, GateSummary, Summary
from medsanitize.verifiers.reid.linkage.holub_guidelines import MOST_LINKED

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

HOLDER_REPORT = "report.html"
AUDIT_FILE = "audit.json"
_LINKS_SHOWN = 1000
_FAILED = {"bytes": FAILED_BYTES, "pixels": FAILED_PIXELS, "registry": FAILED_REGISTRY}
Finding3 = tuple[str, str, str]
NOT_RUN = (
    GateSummary(
        "linkage attack",
        "not_run",
        "No attack on the released images was made. The policy's section overlap or the command"
        " attack linkage makes one.",
    ),
    GateSummary("small groups", "not_run", "Disclosure risk by rare combinations was not measured."),
)
"""Gates as they stand where nothing was measured."""
_NOBODY = GateSummary(
    "linkage attack",
    "not_run",
    "There is nobody to link: no patient has two images that were looked at, or is in an earlier release that"
    " calls patients the same.",
)


def gates_of(
    state: State, policy: Policy, findings: Sequence[Finding3], search: IdentifierSearch, tally: Tally
) -> tuple[GateSummary, ...]:
    """Every gate of the run, those not run included; details are public sentences."""
    return (
        _identifiers(findings, search),
        _released_something(state),
        duplicate_gate(state, "bytes", "duplicates by bytes", policy.deduplicate.bytes),
        duplicate_gate(state, "pixels", "duplicates by pixels", policy.deduplicate.pixels),
        duplicate_gate(state, "registry", "earlier releases", policy.deduplicate.registry),
        _burned_in(policy, tally),
        _review(state),
        overlap_gate(state, policy),
        synthetic_gate(state, policy),
        attack_gate(state),
        groups_gate(state, policy),
    )


def groups_gate(state: State, policy: Policy) -> GateSummary:
    """How many patients share what the tables beside the images say of them."""
    found, rules = GROUPS.load(state), policy.small_groups
    if found is None or not found.patients:
        return NOT_RUN[1]
    detail = (
        f"{found.patients} patients in {found.groups} groups by all that the tables say of them, the smallest"
        f" of {found.smallest}; {found.few} patients are in groups of fewer than {rules.least}."
        " Moved dates in tables, headers and images were not measured."
    )
    if not found.few:
        return GateSummary("small groups", "passed", detail)
    if rules.action == "fail":
        return GateSummary("small groups", "failed", f"{detail} The policy allows none.")
    return GateSummary("small groups", "flagged", detail)


def overlap_gate(state: State, policy: Policy) -> GateSummary:
    """Whether patients of this release are in earlier ones, in public words: no sizes of other releases."""
    name, section = "overlap", policy.overlap
    if section is None:
        return GateSummary(name, "not_run", "Other releases were not searched for the same patients.")
    compared = OVERLAP.load(state)
    if compared is None or not compared.releases:
        return GateSummary(name, "not_run", "The registry holds no release of another name to compare with.")
    found = f"Compared with {compared.releases} earlier releases: {compared.patients} patients match"
    if compared.patients:
        found += f", if only possibly ({section.action}, {compared.objects} objects)"
    found += "."
    if compared.miss is not None and not compared.patients:
        found += f" One who is in both would be overlooked with a chance of at most {compared.miss:.1%}."
    if compared.unclear:
        found += " It cannot be told for certain: images, model or calibration do not bear a conclusion."
    if FAILED_OVERLAP.is_set(state):
        return GateSummary(name, "failed", found)
    settled = section.action in ("drop", "quarantine") and not compared.unclear
    passed = settled or (compared.result == "exclusive" and not compared.patients)
    return GateSummary(name, "passed" if passed else "flagged", found)


def attack_gate(state: State) -> GateSummary:
    """Whom the look of the released images gives away, as far as the run attacked them."""
    found = attacks_of(state)
    if not found.made:
        return _NOBODY if found.images else NOT_RUN[0]
    bounded = all(not one.rate.errors and one.rate.upper <= MOST_LINKED for one in found.made)
    told, left = [one.told for one in found.made], found.left({one.modality for one in found.made})
    told += [f"Images that took part in no attack: {left:,}."] if left else []
    told.append("Another attack may link more.")
    return GateSummary("linkage attack", "passed" if bounded and not left else "flagged", " ".join(told))


def synthetic_gate(state: State, policy: Policy) -> GateSummary:
    """What stands in place of originals that were dropped. Without a verdict in its favour, nothing does."""
    name, facts = "synthetic images", synthetic_of(state)
    if policy.synthesize is None or policy.synthesize.replace == "none":
        return GateSummary(name, "not_applicable", "No image is replaced by a synthetic one.")
    unlabelled = _unlabelled(state)
    if facts is None:
        nothing = "The policy replaces images, and there was none to replace."
        return GateSummary(name, "flagged" if unlabelled else "passed", unlabelled or nothing)
    told, sound = [f"{facts.replaced} images were dropped."], not unlabelled
    if facts.state == "passed":
        promised = f"{facts.label} ({facts.bound:.3%} at 95 %)"
        told.append(f"{facts.released} synthetic images are released: {promised}.")
    else:
        told.append(f"No synthetic image is released: the verdict is {facts.state}.")
        sound = False
    if facts.state == "passed" and facts.released < facts.asked:
        told.append(f"{facts.asked - facts.released} are missing of those asked for.")
        sound = False
    told += [unlabelled] if unlabelled else []
    return GateSummary(name, "passed" if sound else "flagged", " ".join(told))


def _unlabelled(state: State) -> str:
    """What is said of images whose label, by which they would be replaced, the table does not give."""
    replaced = read_replaced(state)
    if not replaced.unlabelled:
        return ""
    if not replaced.named:
        return (
            "No file of the table is an image of this release: none of the"
            f" {replaced.unlabelled} images could be replaced by its label."
        )
    return f"The table gives no label to {replaced.unlabelled} images, and they were not replaced."


def _review(state: State) -> GateSummary:
    """Whether a person looked, and decided what; by whom is not said."""
    if not REVIEWED.is_set(state):
        return GateSummary(
            "review by a person", "not_run", "Nobody looked at a sample or at what was in doubt."
        )
    found = decision_counts(state)
    made = f"{found.decisions} decisions on {found.objects} objects."
    detail = f"A person looked at what was in doubt and at a sample: {made}"
    return GateSummary("review by a person", "passed", detail)


def _burned_in(policy: Policy, tally: Tally) -> GateSummary:
    """Whether the pixels of what is released were read for text, as far as they had to be."""
    name, unread = "burned-in text", tally.checks["pixels"]["not_run"]
    if not policy.dicom.options.clean_pixel_data:
        return GateSummary(
            name, "not_run", f"Pixels were not read for text: {unread} released objects may show some."
        )
    detail = f"{tally.checks['pixels']['passed']} objects were read for text, {tally.regions} areas blanked."
    if unread:
        return GateSummary(
            name, "flagged", f"{detail} {unread} released objects that may show text were not read."
        )
    return GateSummary(name, "passed", detail)


def _identifiers(findings: Sequence[Finding3], search: IdentifierSearch) -> GateSummary:
    if findings:
        rules = ", ".join(f"{rule} ({count})" for rule, count in count_by_rule(findings).items())
        return GateSummary("residual identifiers", "failed", f"The audit of the staged files found: {rules}.")
    skipped = sum(search.not_searched.values())
    detail = "Every file was read again by an independent reader and searched for the identifiers of the run."
    if skipped:
        detail += (
            f" {skipped} values are too short or common for that: they were sought in their own patient."
        )
    return GateSummary("residual identifiers", "passed", detail)


def _released_something(state: State) -> GateSummary:
    if count_released(state):
        return GateSummary("objects to release", "passed")
    return GateSummary("objects to release", "failed", "No object is left to release.")


def duplicate_gate(state: State, flag: str, name: str, verdict: str) -> GateSummary:
    """The gate of one sort of duplicates, by the flags that the verdict left."""
    if verdict == "ignore":
        return GateSummary(name, "not_run", "The policy ignores them.")
    flagged = count_flagged(state, flag)
    if _FAILED[flag].is_set(state):
        return GateSummary(name, "failed", "The policy allows none, and there are some.")
    undecoded = count_not_compared(state) if flag == "pixels" else 0
    note = f" The pixels of {undecoded} objects could not be compared." if undecoded else ""
    result: GateResult = "flagged" if flagged else "passed"
    return GateSummary(name, result, (f"{flagged} objects are flagged." if flagged else "") + note)


def write_holder_files(state: State, policy: Policy, summary: Summary, findings: Sequence[Finding3]) -> None:
    """Write report and audit for the holder: places, rules and pseudonyms, no values and no file names."""
    registry = REGISTRY.load(state) or RegistryResult()
    excluded, tables = EXCLUDED.load(state), TABLE_NOTES.load(state) or {}
    facts = {
        "findings": [{"file": file, "place": place, "rule": rule} for file, place, rule in findings],
        "gates": [
            {"name": gate.name, "result": gate.result, "detail": gate.detail} for gate in summary.gates
        ],
        "dropped": rule_counts(state, "dropped"),
        "quarantined": rule_counts(state, "quarantined"),
        "quarantined_places": quarantined_places(state),
        "excluded": asdict(excluded) if excluded else {},
        "tables": {name: asdict(one) for name, one in tables.items()},
        "earlier_releases": dict(registry.links),
        "overlap": _overlap_facts(OVERLAP.load(state)),
    }
    path = policy.state / AUDIT_FILE
    write_atomic(path, document_json(facts))
    report = policy.state / HOLDER_REPORT
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
    # A scan in two forms: DICOM and a vendor's file, or one channel by itself.
    links += [
        ObjectRelation(one, "has the same tiles as", other) for one, other in equal_tiles(state, _LINKS_SHOWN)
    ]
    return links
