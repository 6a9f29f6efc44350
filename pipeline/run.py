"""The run: the stages in order, each a plain function from state to state.

Whatever happens between two commits, the same command ends with the same bytes: a stage that is
done says so in the state, and a stage that is not picks up the rows that have no result yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import IntegrityError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.base import Engine
from medsanitize.pipeline.engines.open import open_engine
from medsanitize.pipeline.engines.partial_files import remove_partial_folder
from medsanitize.pipeline.engines.shared_storage import (
    inputs_of,
    publish_input_snapshot,
    remove_input_snapshot,
    require_reachable,
    require_same_storage,
)
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.gates import HOLDER_REPORT, gates_of, write_holder_files
from medsanitize.pipeline.reporting.exit_report import ExitReport, exit_report_in_state
from medsanitize.pipeline.resume import open_shared, open_state, release_keys, remove_pages
from medsanitize.pipeline.runtime.optional_dependencies import check_extras
from medsanitize.pipeline.runtime.progress import NoProgress, Progress, StageTiming
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.resume_hint import restart_hint
from medsanitize.pipeline.runtime.signals import Cancellation
from medsanitize.pipeline.runtime.workspace import release_folder, staging_folder
from medsanitize.pipeline.stages.audit import audit_evidence, audit_objects
from medsanitize.pipeline.stages.deduplicate import (
    digest_compressed,
    judge_duplicates,
    registry_of,
    settle_contests,
)
from medsanitize.pipeline.stages.evidence import (
    summarize,
    summary_from_json,
    summary_to_json,
    write_manifests,
)
from medsanitize.pipeline.stages.faces import judge_faces, looks_at_faces
from medsanitize.pipeline.stages.inventory import take_inventory
from medsanitize.pipeline.stages.linkage_attack import attack_release, guidelines_by
from medsanitize.pipeline.stages.overlap import (
    check_overlap,
    judge_overlap,
    look_at_staged,
    register_embeddings,
)
from medsanitize.pipeline.stages.resolve import check_pseudonyms, read_excluded, read_pseudonyms, resolve
from medsanitize.pipeline.stages.sanitize import sanitize_objects
from medsanitize.pipeline.stages.slides import check_places, check_slide_extra, place_slides
from medsanitize.pipeline.stages.tables import check_tables, write_tables
from medsanitize.pipeline.state.database import State, translated
from medsanitize.pipeline.state.duplicates import tiles_of_slides
from medsanitize.pipeline.state.findings import clear_audit, count_to_audit, object_findings
from medsanitize.pipeline.state.objects import count_found, count_pending, outcome_counts, rule_counts
from medsanitize.pipeline.state.reset import release_requeued
from medsanitize.pipeline.state.result_types import Judgement, Publication, RegistryResult
from medsanitize.pipeline.state.series import count_slices
from medsanitize.pipeline.state.shards import Shard, copy_shard, merge_shards
from medsanitize.pipeline.state.stage_results import (
    APPROVED,
    JUDGED,
    PUBLICATION,
    PUBLISHED,
    REGISTRY,
    REVIEW,
    WALK,
    WITHDRAWN,
)
from medsanitize.pipeline.state.staged_objects import count_to_decode, count_to_fingerprint
from medsanitize.pipeline.storage.local import Root, pinned_inputs, require_not_empty
from medsanitize.pipeline.storage.named_files import remove_links
from medsanitize.pipeline.storage.open import target_of
from medsanitize.pipeline.storage.pacs.check import check_pacs
from medsanitize.pipeline.synthesis.stage import check_synthesize, replace_images
from medsanitize.policies.model import Policy
from medsanitize.release.attestation import load_signing_key
from medsanitize.release.build import write_evidence
from medsanitize.release.publish import evidence_digests, publish, require_unchanged, staged_digest
from medsanitize.release.summary import Summary
from medsanitize.sanitize.pseudonyms import SubKeys

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to a policy."""

    workers: int | None = None
    approve: str | None = None
    inventory_only: bool = False
    shard: Shard | None = None


@dataclass(slots=True)
class Run:
    """One run at work: its parts, and the timings of the stages it went through."""

    policy: Policy
    subkeys: SubKeys
    state: State
    engine: Engine
    progress: Progress
    staging: Path
    stop: Cancellation = field(default_factory=Cancellation)
    stages: list[StageTiming] = field(default_factory=list)
    inputs: tuple[Root, ...] = ()

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Time a stage and tell of its progress."""
        done = 0

        def advance(objects: int) -> None:
            nonlocal done
            done += objects
            self.progress.advance(objects)

        self.stop.check()
        self.progress.stage(name, total)
        cpu = time.process_time() + self.engine.cpu_seconds
        wall = time.monotonic()
        try:
            yield advance
        finally:
            cpu = time.process_time() + self.engine.cpu_seconds - cpu
            self.stages.append(StageTiming(name, round(cpu, 4), round(time.monotonic() - wall, 4), done))
        self.progress.finished(self.stages[-1])


def run(
    policy: Policy,
    options: Options = Options(),
    *,
    material: bytes | None = None,
    progress: Progress | None = None,
    stop: Cancellation | None = None,
    account: ExitReport | None = None,
) -> RunResult:
    """Turn a policy into a release, or say why there is none.

    Parameters
    ----------
    policy : Policy
    options : Options
    material : bytes or None
        The release key, given by tests that compare anonymous runs; otherwise it is read from where
        the policy says, or made for this run alone (anonymous mode).
    account : ExitReport or None
        What is told of the run in the state folder, however it ends, is kept here as well.

    Raises
    ------
    UsageError, KeyMaterialError
        Refused before anything was read.
    EnvironmentFailure
        Disk or store failed; the same command may be run again.
    IntegrityError
        The state is damaged, or a staged file is not what was judged.
    Stopped
        A signal; the same command resumes.
    """
    progress, stop, account = progress or NoProgress(), stop or Cancellation(), account or ExitReport()
    require_reachable(policy)
    preflight.check_paths(policy)
    inputs = inputs_of(policy)  # once: whatever is mounted in their place from now on is not them
    preflight.prepare_folders(policy)
    shared = options.shard is not None
    name = options.shard.name if options.shard else ""
    with (
        preflight.locked(policy, shared=shared, name=name),
        exit_report_in_state(account, policy, options.shard),
        restart_hint(policy),
        translated(),
        pinned_inputs(inputs),
    ):
        subkeys = _checked(policy, options, material)
        if options.shard is not None:
            account.result = _run_shard(policy, options, options.shard, subkeys, progress, stop, account)
        else:
            account.result = _run_whole(policy, options, subkeys, inputs, progress, stop, account)
        return account.result


def _checked(policy: Policy, options: Options, material: bytes | None) -> SubKeys:
    """Refuse what can be refused before a source is opened; returns the keys of the run."""
    split = options.shard is not None or options.inventory_only
    subkeys = release_keys(policy, material, split=split)
    check_extras(policy)
    check_pacs(policy)
    read_pseudonyms(policy.pseudonyms.table)
    read_excluded(policy.exclude)
    check_tables(policy)
    check_places(policy)
    check_overlap(policy)
    check_synthesize(policy)
    if policy.keys.signing is not None and not split:  # only who publishes signs
        load_signing_key(policy.keys.signing)
    return subkeys


# -- the stages ---------------------------------------------------------------------------


def _run_whole(
    policy: Policy,
    options: Options,
    subkeys: SubKeys,
    inputs: tuple[Root, ...],
    progress: Progress,
    stop: Cancellation,
    account: ExitReport,
) -> RunResult:
    remove_links(policy.state)
    state = open_state(policy, subkeys, progress, inputs)
    try:
        if PUBLISHED.is_set(state) and preflight.is_finished(policy):
            return _already_published(state, policy)
        require_not_empty(inputs)
        keep_links = policy.release.mode == "pseudonymous"
        setup = Setup(policy, subkeys, staging_folder(policy), keep_links)
        with open_engine(setup, options.workers, stop, inputs) as engine:
            staging = staging_folder(policy)
            run = Run(policy, subkeys, state, engine, progress, staging, stop, account.stages, inputs)
            if PUBLICATION.is_stored(state):
                _require_unchanged(run)
                return _publish(run, _summary_again(run))
            _inventory(run)
            release_requeued(state, run.staging)
            merge_shards(state)
            if options.inventory_only:
                return _result(run, "inventory_done")
            _sanitize(run)
            search = _look(run)
        summary, digest = _give_evidence(run, search)
        del search  # what finds everybody takes as much memory as there are patients
        return _conclude(run, options, summary, digest)
    finally:
        account.count(state)
        state.close()


def _run_shard(
    policy: Policy,
    options: Options,
    shard: Shard,
    subkeys: SubKeys,
    progress: Progress,
    stop: Cancellation,
    account: ExitReport,
) -> RunResult:
    main = open_shared(policy, subkeys)
    if PUBLISHED.is_set(main) and preflight.is_finished(policy):
        try:
            return _already_published(main, policy)
        finally:
            main.close()
    try:
        inputs = require_same_storage(main, staging_folder(policy))
        state = copy_shard(main, shard, subkeys)
    finally:
        main.close()
    try:
        setup = Setup(policy, subkeys, staging_folder(policy), keep_links=True)
        with open_engine(setup, options.workers, stop, inputs) as engine:
            staging = staging_folder(policy)
            run = Run(policy, subkeys, state, engine, progress, staging, stop, account.stages, inputs)
            _sanitize(run)
            return _result(run, "shard_done")
    finally:
        account.count(state)
        state.close()


def _inventory(run: Run) -> None:
    with run.stage("inventory", None) as advance:
        if not WALK.is_stored(run.state):
            take_inventory(run.state, run.policy, run.engine, advance)
        check_slide_extra(run.state)
        place_slides(run.state, run.policy)
        check_pseudonyms(run.state, run.policy)
        resolve(run.state, run.policy)
    judge_run_faces(run)
    publish_input_snapshot(run.state, run.inputs, run.staging)


def judge_run_faces(run: Run) -> None:
    """Judge which series may show a face, unless the policy ignores faces."""
    if looks_at_faces(run.policy):
        with run.stage("faces", count_slices(run.state)) as advance:
            judge_faces(run.state, run.policy, run.engine, advance)


def _sanitize(run: Run) -> None:
    with run.stage("sanitize", count_pending(run.state)) as advance:
        sanitize_objects(run.state, run.policy, run.engine, advance, staging=run.staging)


def _look(run: Run) -> IdentifierSearch:
    """Everything for which the staged files are read; returns the net that they were searched with."""
    policy, state, staging = run.policy, run.state, run.staging
    remove_input_snapshot(state, staging)
    remove_partial_folder(staging)
    # Whoever publishes audits: files staged and audited by an earlier process may have changed since.
    clear_audit(state)
    with run.stage("audit", count_to_audit(state)) as advance:
        settle_contests(state, policy, staging)
        search = audit_objects(state, policy, run.subkeys, run.engine, advance)
    with run.stage("decode", count_to_decode(state)) as advance:
        digest_compressed(state, policy, run.engine, advance)
    with run.stage("deduplicate", None):
        judge_duplicates(state, policy, staging)
    with run.stage("overlap", count_to_fingerprint(state) if policy.overlap else None) as advance:
        look_at_staged(state, policy, run.engine, advance)
        judge_overlap(state, policy, staging)
    with run.stage("synthesize", None):
        hears = (run.progress, run.stop)
        search = replace_images(state, policy, run.subkeys, run.engine, staging, hears, search)
    with run.stage("attack", None):
        attack_release(state, policy)
    return search


def _give_evidence(run: Run, search: IdentifierSearch) -> tuple[Summary, str]:
    """All that is released beside the objects; returns what is said of the run, and the staged digest."""
    policy, state, staging = run.policy, run.state, run.staging
    with run.stage("tables", None):
        tables = write_tables(state, policy, run.subkeys, staging)
    with run.stage("evidence", None):
        findings = object_findings(state)
        tally = write_manifests(state, run.subkeys, policy, staging)
        gates = gates_of(state, policy, findings, search, tally)
        summary = summarize(state, policy, tally, gates, tables, guidelines_by(state, policy, staging))
        write_evidence(staging, summary, signing_key=policy.keys.signing)
        findings += audit_evidence(search, staging)
        digest = staged_digest(staging)
        summary = replace(summary, gates=gates_of(state, policy, findings, search, tally))
        write_holder_files(state, policy, summary, findings)
    return summary, digest


def _conclude(run: Run, options: Options, summary: Summary, digest: str) -> RunResult:
    """Publish the staged set, or say why not."""
    policy, state, staging = run.policy, run.state, run.staging
    ending = _ending(run, options, summary, digest)
    with state.transaction():
        JUDGED.store(state, Judgement(ending, digest))
        review = REVIEW.load(state)
        if review is None or review.digest != digest:
            REVIEW.remove(state)
            remove_pages(policy)
    if ending == "refused":
        result = _result(run, ending, summary, digest)
        _withdraw(run)
        return result
    if ending == "awaiting_approval":
        told = ("--approve gives a digest that is not the staged release's.",) if options.approve else ()
        return _result(run, ending, summary, digest, told)
    with state.transaction():
        PUBLICATION.store(state, Publication(summary_to_json(summary), digest, evidence_digests(staging)))
    return _publish(run, summary)


def _ending(run: Run, options: Options, summary: Summary, digest: str) -> str:
    """Whether this release is refused, waits for somebody's approval, or may be published."""
    if any(gate.result == "failed" for gate in summary.gates):
        return "refused"
    approved = digest in (options.approve, APPROVED.load(run.state))
    return "published" if run.policy.release.approve != "required" or approved else "awaiting_approval"


def _withdraw(run: Run) -> None:
    """Leave nothing in output of a release that may not be published; a rerun sanitises again."""
    WITHDRAWN.set(run.state)
    run.state.commit()
    preflight.remove_staging(run.policy)


def _require_unchanged(run: Run) -> None:
    """An earlier process judged what is published now: it must be the same, byte for byte."""
    state, policy = run.state, run.policy
    try:
        require_unchanged(run.staging, release_folder(policy), _publication(state).vouchers)
    except IntegrityError:
        if not preflight.is_finished(policy):
            _withdraw(run)
        raise


def _publish(run: Run, summary: Summary) -> RunResult:
    policy, state, folder = run.policy, run.state, release_folder(run.policy)
    with run.stage("publish", None) as advance:
        publish(run.staging, folder, summary)
        if not isinstance(policy.output, Path):
            target_of(policy.output).put(folder, run.stop, advance)
        if policy.release.mode == "pseudonymous":
            registry = REGISTRY.load(state) or RegistryResult()
            entry = registry_of(policy).add(
                folder,
                relies_on=registry.relies_on,
                verified=True,
                tiles=tiles_of_slides(state),
            )
            register_embeddings(state, policy, entry)
        PUBLISHED.set(state)
        state.commit()
        remove_pages(policy)
        preflight.remove_put_away(policy)
    return _result(run, "published", summary, _publication(state).digest)


def _publication(state: State) -> Publication:
    found = PUBLICATION.load(state)
    if found is None:
        raise RuntimeError("nothing is being published")
    return found


def _summary_again(run: Run) -> Summary:
    """The summary the evidence was written from, when a kill came between evidence and RELEASE.json."""
    return summary_from_json(_publication(run.state).summary, run.policy)


def _already_published(state: State, policy: Policy) -> RunResult:
    preflight.remove_put_away(policy)
    publication = _publication(state)
    summary = summary_from_json(publication.summary, policy)
    messages = ("This release is finished; nothing was done.",)
    return result_of(state, policy, "already_published", (), summary, publication.digest, messages)


def _result(
    run: Run,
    ending: str,
    summary: Summary | None = None,
    digest: str | None = None,
    messages: tuple[str, ...] = (),
) -> RunResult:
    return result_of(run.state, run.policy, ending, tuple(run.stages), summary, digest, messages)


def result_of(
    state: State,
    policy: Policy,
    ending: str,
    stages: tuple[StageTiming, ...],
    summary: Summary | None,
    digest: str | None,
    messages: tuple[str, ...],
) -> RunResult:
    """The result of a run with this ending; ``summary`` is there once the set was judged."""
    published = ending in ("published", "already_published")
    return RunResult(
        ending=ending,
        objects=count_found(state),
        outcomes=outcome_counts(state),
        dropped=rule_counts(state, "dropped"),
        quarantined=rule_counts(state, "quarantined"),
        actions=summary.actions if summary else {},
        rules=summary.rules if summary else {},
        gates=summary.gates if summary else (),
        stages=stages,
        release=policy.output if published else None,
        report=policy.state / HOLDER_REPORT if summary else None,
        digest=digest,
        messages=messages,
    )
