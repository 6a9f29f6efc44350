"""A run: the stages of `pipeline.sequence` in order, then publication.

Whatever happens between two commits, the same command ends with the same bytes: a stage that is done says so
in the state, and a stage that is not continues with the rows that have no result yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

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
from medsanitize.pipeline.evidence import (
    CONTROLLER_REPORT,
    give_evidence,
    summary_from_json,
    summary_to_json,
)
from medsanitize.pipeline.reporting.exit_report import ExitReport, exit_report_in_state
from medsanitize.pipeline.requeue import release_requeued, requeue
from medsanitize.pipeline.resume import open_shared, open_state, release_keys, remove_pages
from medsanitize.pipeline.runtime.optional_dependencies import check_extras
from medsanitize.pipeline.runtime.progress import NoProgress, Progress, StageTiming
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.resume_hint import restart_hint
from medsanitize.pipeline.runtime.signals import Cancellation
from medsanitize.pipeline.runtime.workspace import Workspace, workspace_of
from medsanitize.pipeline.sequence import check_stages, earlier_releases, in_phase, stages_of
from medsanitize.pipeline.stages.overlap import register_embeddings
from medsanitize.pipeline.stages.stage import Advance, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State, translated
from medsanitize.pipeline.state.duplicates import tiles_of_slides
from medsanitize.pipeline.state.findings import clear_audit
from medsanitize.pipeline.state.objects import count_found, outcome_counts, rule_counts
from medsanitize.pipeline.state.result_types import Judgement, Publication, RegistryResult
from medsanitize.pipeline.state.shards import Shard, copy_shard, merge_shards
from medsanitize.pipeline.state.stage_results import (
    APPROVED,
    JUDGED,
    PUBLICATION,
    PUBLISHED,
    REGISTRY,
    REVIEW,
    WITHDRAWN,
)
from medsanitize.pipeline.storage.local import Root, pinned_inputs, require_not_empty
from medsanitize.pipeline.storage.named_files import remove_links
from medsanitize.pipeline.storage.open import target_of
from medsanitize.policies.model import Policy
from medsanitize.release.attestation import load_signing_key
from medsanitize.release.publish import evidence_digests, publish, require_unchanged
from medsanitize.release.summary import Summary
from medsanitize.sanitize.pseudonyms import SubKeys


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to a policy."""

    workers: int | None = None
    approve: str | None = None
    inventory_only: bool = False
    shard: Shard | None = None


@dataclass(slots=True)
class Run:
    """One run at work: its policy, its stages, and what they share."""

    policy: Policy
    stages: tuple[Stage, ...]
    context: RunContext
    timings: list[StageTiming] = field(default_factory=list)

    def do(self, *phases: Phase) -> None:
        """Run the stages of these phases, in order; those with nothing pending are passed over."""
        for stage in in_phase(self.stages, *phases):
            pending = stage.pending(self.context.state)
            if pending != 0:
                with self.timed(stage.name, pending) as advance:
                    stage.run(self.context, advance)

    @contextmanager
    def timed(self, name: str, total: int | None) -> Iterator[Advance]:
        """Time a step and report its progress."""
        done, engine, progress = 0, self.context.engine, self.context.progress

        def advance(objects: int) -> None:
            nonlocal done
            done += objects
            progress.advance(objects)

        self.context.cancellation.check()
        progress.stage(name, total)
        cpu = time.process_time() + engine.cpu_seconds
        wall = time.monotonic()
        try:
            yield advance
        finally:
            cpu = time.process_time() + engine.cpu_seconds - cpu
            self.timings.append(StageTiming(name, round(cpu, 4), round(time.monotonic() - wall, 4), done))
        progress.finished(self.timings[-1])


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
    progress, stop, report = progress or NoProgress(), stop or Cancellation(), account or ExitReport()
    workspace = workspace_of(policy)
    require_reachable(policy.inputs)
    preflight.check_paths(policy.inputs, workspace)
    # Pinned once: whatever is mounted at these paths later is not what was checked.
    inputs = inputs_of(policy.inputs)
    preflight.prepare_folders(workspace)
    name = options.shard.name if options.shard else ""
    with (
        preflight.locked(workspace, shared=options.shard is not None, name=name),
        exit_report_in_state(report, workspace, options.shard),
        restart_hint(workspace),
        translated(),
        pinned_inputs(inputs),
    ):
        stages = stages_of(policy)
        subkeys = _checked(policy, stages, options, material)
        job = _Job(policy, stages, options, subkeys, progress, stop, report)
        report.result = _run_shard(job, options.shard) if options.shard else _run_whole(job, inputs)
        return report.result


def _checked(policy: Policy, stages: tuple[Stage, ...], options: Options, material: bytes | None) -> SubKeys:
    """Refuse what can be refused before an input is opened; return the keys of the run."""
    split = options.shard is not None or options.inventory_only
    subkeys = release_keys(policy, material, split=split)
    check_extras(policy)
    check_stages(stages)
    if policy.keys.signing is not None and not split:  # only the process that publishes signs
        load_signing_key(policy.keys.signing)
    return subkeys


@dataclass(frozen=True, slots=True, repr=False)
class _Job:
    """What a run is started with, once it is checked."""

    policy: Policy
    stages: tuple[Stage, ...]
    options: Options
    subkeys: SubKeys
    progress: Progress
    cancellation: Cancellation
    report: ExitReport

    @contextmanager
    def open(self, state: State, inputs: tuple[Root, ...], *, keep_links: bool) -> Iterator[Run]:
        """Open the engine, and with it a run on this state."""
        workspace = workspace_of(self.policy)
        setup = Setup(self.policy, self.subkeys, workspace.staging, keep_links)
        with open_engine(setup, self.options.workers, self.cancellation, inputs) as engine:
            yield self.start(state, engine, workspace)

    def start(self, state: State, engine: Engine, workspace: Workspace) -> Run:
        """A run on this state and engine."""
        staging = workspace.staging
        context = RunContext(
            state,
            engine,
            self.subkeys,
            workspace,
            staging,
            self.progress,
            self.cancellation,
            partial(requeue, state, staging=staging),
        )
        return Run(self.policy, self.stages, context, self.report.stages)


# -- the stages ---------------------------------------------------------------------------


def _run_whole(job: _Job, inputs: tuple[Root, ...]) -> RunResult:
    policy, options, workspace = job.policy, job.options, workspace_of(job.policy)
    remove_links(policy.state)
    state = open_state(policy, job.subkeys, job.progress, inputs)
    try:
        if PUBLISHED.is_set(state) and preflight.is_finished(workspace):
            return _already_published(state, policy)
        require_not_empty(inputs)
        with job.open(state, inputs, keep_links=not workspace.anonymous) as run:
            if PUBLICATION.is_stored(state):
                _require_unchanged(run)
                return _publish(run, _summary_again(run))
            run.do("inventory")
            publish_input_snapshot(state, inputs, workspace.staging)
            release_requeued(state, workspace.staging)
            merge_shards(state)
            if options.inventory_only:
                return _result(run, "inventory_done")
            run.do("objects")
            _close_objects(run)
            run.do("set")
        run.do("documents")
        with run.timed("evidence", None):
            summary, digest = give_evidence(policy, run.stages, run.context)
        run.context.search = None  # it takes memory in proportion to the number of patients
        return _conclude(run, options, summary, digest)
    finally:
        job.report.count(state)
        state.close()


def _run_shard(job: _Job, shard: Shard) -> RunResult:
    policy, workspace = job.policy, workspace_of(job.policy)
    main = open_shared(policy, job.stages, job.subkeys)
    if PUBLISHED.is_set(main) and preflight.is_finished(workspace):
        try:
            return _already_published(main, policy)
        finally:
            main.close()
    try:
        inputs = require_same_storage(main, workspace.staging)
        state = copy_shard(main, shard, job.subkeys)
    finally:
        main.close()
    try:
        with job.open(state, inputs, keep_links=True) as run:
            run.do("objects")
            return _result(run, "shard_done")
    finally:
        job.report.count(state)
        state.close()


def _close_objects(run: Run) -> None:
    """Every object has an outcome: shards and partial files have nothing left to do."""
    remove_input_snapshot(run.context.state, run.context.staged)
    remove_partial_folder(run.context.staged)
    # Files staged and audited by an earlier process may have changed since: whoever publishes audits.
    clear_audit(run.context.state)


def _conclude(run: Run, options: Options, summary: Summary, digest: str) -> RunResult:
    """Publish the staged set, or say why not."""
    state = run.context.state
    ending = _ending(run, options, summary, digest)
    with state.transaction():
        JUDGED.store(state, Judgement(ending, digest))
        review = REVIEW.load(state)
        if review is None or review.digest != digest:
            REVIEW.remove(state)
            remove_pages(run.context.workspace)
    if ending == "refused":
        result = _result(run, ending, summary, digest)
        _withdraw(run)
        return result
    if ending == "awaiting_approval":
        messages = ("--approve gives a digest that is not the staged release's.",) if options.approve else ()
        return _result(run, ending, summary, digest, messages)
    digests = evidence_digests(run.context.staged)
    with state.transaction():
        PUBLICATION.store(state, Publication(summary_to_json(summary), digest, digests))
    return _publish(run, summary)


def _ending(run: Run, options: Options, summary: Summary, digest: str) -> str:
    """Whether this release is refused, awaits approval, or may be published."""
    if any(gate.result == "failed" for gate in summary.gates):
        return "refused"
    approved = digest in (options.approve, APPROVED.load(run.context.state))
    return "published" if run.policy.release.approve != "required" or approved else "awaiting_approval"


def _withdraw(run: Run) -> None:
    """Leave nothing in output of a release that may not be published; a rerun sanitizes again."""
    WITHDRAWN.set(run.context.state)
    run.context.state.commit()
    preflight.remove_staging(run.context.workspace)


def _require_unchanged(run: Run) -> None:
    """An earlier process judged what is published now: it must be the same, byte for byte."""
    state, workspace = run.context.state, run.context.workspace
    try:
        require_unchanged(run.context.staged, workspace.release, _publication(state).vouchers)
    except IntegrityError:
        if not preflight.is_finished(workspace):
            _withdraw(run)
        raise


def _publish(run: Run, summary: Summary) -> RunResult:
    policy, state, workspace = run.policy, run.context.state, run.context.workspace
    with run.timed("publish", None) as advance:
        publish(run.context.staged, workspace.release, summary)
        if not isinstance(policy.output, Path):
            target_of(policy.output).put(workspace.release, run.context.cancellation, advance)
        if not workspace.anonymous:
            _register(policy, state, workspace)
        PUBLISHED.set(state)
        state.commit()
        remove_pages(workspace)
        preflight.remove_put_away(workspace)
    return _result(run, "published", summary, _publication(state).digest)


def _register(policy: Policy, state: State, workspace: Workspace) -> None:
    """Add the release to the registry, so that later ones are compared with it."""
    earlier, found = earlier_releases(policy), REGISTRY.load(state) or RegistryResult()
    entry = earlier.registry.add(
        workspace.release, relies_on=found.relies_on, verified=True, tiles=tiles_of_slides(state)
    )
    if policy.overlap is not None:
        register_embeddings(state, workspace.state, earlier, entry)


def _publication(state: State) -> Publication:
    found = PUBLICATION.load(state)
    if found is None:
        raise RuntimeError("nothing is being published")
    return found


def _summary_again(run: Run) -> Summary:
    """The summary the evidence was written from, when a kill came between evidence and RELEASE.json."""
    return summary_from_json(_publication(run.context.state).summary, run.policy)


def _already_published(state: State, policy: Policy) -> RunResult:
    preflight.remove_put_away(workspace_of(policy))
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
    return result_of(run.context.state, run.policy, ending, tuple(run.timings), summary, digest, messages)


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
        report=policy.state / CONTROLLER_REPORT if summary else None,
        digest=digest,
        messages=messages,
    )
