"""The stages of a run, in order, and the section of the policy that each stage receives.

`STAGES` is the only definition of the order: `run`, `plan`, `resume` and the documentation read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from medsanitize.pipeline.runtime.workspace import card_budget, identity_ledger, tries_record
from medsanitize.pipeline.stages.audit import AuditStage, searched_never_words
from medsanitize.pipeline.stages.batch_plan import cost_weights
from medsanitize.pipeline.stages.conflicts import ConflictsStage
from medsanitize.pipeline.stages.dataset_card import DatasetCardStage
from medsanitize.pipeline.stages.deduplicate import DecodeStage, DuplicatesStage
from medsanitize.pipeline.stages.dicomdirs import DicomdirsStage
from medsanitize.pipeline.stages.earlier_releases import EarlierReleases
from medsanitize.pipeline.stages.faces import FacesStage
from medsanitize.pipeline.stages.inventory import InventoryStage
from medsanitize.pipeline.stages.linkage_attack import LinkageAttackStage
from medsanitize.pipeline.stages.manifests import ManifestsStage
from medsanitize.pipeline.stages.overlap import OverlapStage
from medsanitize.pipeline.stages.partners import PartnersStage
from medsanitize.pipeline.stages.resolve import ResolveStage
from medsanitize.pipeline.stages.sanitize import SanitizeStage
from medsanitize.pipeline.stages.slides import SpecimensStage
from medsanitize.pipeline.stages.stage import GateInput, Phase, Stage
from medsanitize.pipeline.stages.tables import TablesStage
from medsanitize.pipeline.stages.validate import ValidateStage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.synthesis.synthesize_stage import SynthesizeStage
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.model import Policy
from medsanitize.release.summary import GateSummary

STAGES: Final[tuple[type[Stage], ...]] = (
    InventoryStage,
    DicomdirsStage,
    SpecimensStage,
    ResolveStage,
    FacesStage,
    SanitizeStage,
    ConflictsStage,
    AuditStage,
    ValidateStage,
    DecodeStage,
    DuplicatesStage,
    OverlapStage,
    SynthesizeStage,
    LinkageAttackStage,
    PartnersStage,
    TablesStage,
    ManifestsStage,
    DatasetCardStage,
)
"""Every stage, in the order of a run."""


def stages_of(policy: Policy) -> tuple[Stage, ...]:
    """Build `STAGES` for a policy, each stage with the section that it needs."""
    dicom, earlier = policy.dicom, earlier_releases(policy)
    audit = AuditStage(dicom.options, dicom.dates, searched_never_words(policy), policy.audit.in_pixels)
    decode = DecodeStage(policy.deduplicate)
    sanitize = SanitizeStage(
        policy.pseudonyms.table,
        dicom.options.clean_pixel_data,
        policy.pixels.faces,
        cost_weights(policy),
        policy.documents.pdf == "rebuild",
        policy.pixels.readers,
    )
    return (
        InventoryStage(policy.inputs),
        DicomdirsStage(),
        SpecimensStage(policy.wsi.specimens, policy.inputs),
        ResolveStage(policy.exclude, policy.pseudonyms.table, policy.identities, identity_ledger(policy)),
        FacesStage(policy.pixels.faces),
        sanitize,
        ConflictsStage(policy.deduplicate, sanitize),
        audit,
        ValidateStage(policy.validation),
        decode,
        DuplicatesStage(policy.deduplicate, earlier),
        OverlapStage(policy.overlap, earlier),
        SynthesizeStage(policy.synthesize, tries_record(policy), audit, decode),
        LinkageAttackStage(policy.overlap, earlier),
        PartnersStage(policy.partners, manifests_stage(policy)),
        TablesStage(
            policy.tables,
            dicom.options,
            dicom.dates,
            policy.pseudonyms.uid_root,
            policy.k_anonymity,
            policy.text,
        ),
        manifests_stage(policy),
        dataset_card_stage(policy),
    )


def dataset_card_stage(policy: Policy) -> DatasetCardStage:
    """Build the stage that makes the dataset card."""
    release = policy.release
    return DatasetCardStage(release.card, policy.tables, release.name, release.version, card_budget(policy))


def manifests_stage(policy: Policy) -> ManifestsStage:
    """Build the stage that writes the manifests; Spark executors use it without the other stages."""
    return ManifestsStage(policy_digest(policy), policy.deduplicate.registry != "ignore")


def earlier_releases(policy: Policy) -> EarlierReleases:
    """Return the earlier releases in the policy's registry, or in the registry of its state folder."""
    registry, release = policy.registry, policy.release
    folder = registry.path or policy.state / "registry"
    return EarlierReleases(folder, release.name, release.version, registry.public, registry.key)


def accompanying_files(policy: Policy) -> list[Path]:
    """Return the files that the policy names in addition to the images: lists and tables."""
    specimens = policy.wsi.specimens
    lists = (policy.exclude, policy.identities, policy.pseudonyms.table)
    named = (*lists, *(table.file for table in policy.tables))
    return [path for path in (*named, specimens.file if specimens else None) if path is not None]


def check_stages(stages: Iterable[Stage]) -> None:
    """Call `Stage.check` of every stage, before an input is read."""
    for stage in stages:
        stage.check()


def in_phase(stages: Iterable[Stage], *phases: Phase) -> list[Stage]:
    """Return the stages of these phases, in order."""
    return [stage for stage in stages if stage.phase in phases]


def is_done(stages: Iterable[Stage], state: State) -> bool:
    """Whether no stage has pending work."""
    return all(stage.pending(state) == 0 for stage in stages)


def reset_after(state: State, name: str) -> None:
    """Reset the stages that a new result of stage ``name`` invalidates, within the open transaction."""
    for stage in STAGES:
        if name in stage.invalidated_by:
            stage.reset(state)


def gates_of(stages: Iterable[Stage], judged: GateInput) -> tuple[GateSummary, ...]:
    """Return the gates of every stage, including those with the result ``not_run``."""
    return tuple(gate for stage in stages for gate in stage.gates(judged))
