"""A run: the stages of `pipeline.sequence` in order, then publication.

A run can be interrupted at any point; the same command resumes it and produces the same bytes. The state
records which stages are done, and an unfinished stage continues with the rows that have no result yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from medsanitize.errors import IntegrityError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.base import Engine
from medsanitize.pipeline.engines.open_engine import open_engine
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
from medsanitize.pipeline.reporting.progress_file import recorded_progress
from medsanitize.pipeline.requeue import release_requeued, requeue
from medsanitize.pipeline.resume import open_shared, open_state, release_keys, remove_pages
from medsanitize.pipeline.runtime.optional_dependencies import check_extras
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.resume_hint import restart_hint
from medsanitize.pipeline.runtime.workspace import Workspace, card_budget, workspace_of
from medsanitize.pipeline.sequence import check_stages, earlier_releases, in_phase, stages_of
from medsanitize.pipeline.stages.overlap import register_embeddings
from medsanitize.pipeline.stages.second_review import is_approved
from medsanitize.pipeline.stages.stage import Advance, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State, translated_errors
from medsanitize.pipeline.state.duplicates import tiles_of_slides
from medsanitize.pipeline.state.findings import clear_audit
from medsanitize.pipeline.state.objects import count_found, outcome_counts, rule_counts
from medsanitize.pipeline.state.result_types import Judgment, Publication, RegistryResult
from medsanitize.pipeline.state.shards import Shard, copy_shard, merge_shards
from medsanitize.pipeline.state.stage_results import (
    JUDGED,
    PARTIAL_WALK,
    PUBLICATION,
    PUBLISHED,
    REGISTRY,
    REVIEW,
    SUSPECTED,
    WITHDRAWN,
)
from medsanitize.pipeline.storage.containers.reader import remove_unpacked, set_container_folder
from medsanitize.pipeline.storage.local import Root, pinned_inputs, require_not_empty
from medsanitize.pipeline.storage.named_files import remove_links
from medsanitize.pipeline.storage.open_store import target_of
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import with_site_lists
from medsanitize.progress import Cancellation, NoProgress, Progress, StageTiming
from medsanitize.release.attestation import load_signing_key
from medsanitize.release.publish import evidence_digests, publish, require_unchanged
from medsanitize.release.summary import Summary
from medsanitize.sanitize.pseudonyms import SubKeys


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line, in addition to the policy."""

    workers: int | None = None
    approve: str | None = None
    inventory_only: bool = False
    shard: Shard | None = None


@dataclass(slots=True)
class Run:
    """A run in progress: its policy, its stages, and the context they share."""

    policy: Policy
    stages: tuple[Stage, ...]
    context: RunContext
    timings: list[StageTiming] = field(default_factory=list)

    def do(self, *phases: Phase) -> None:
        """Run the stages of these phases, in order; skip stages with nothing pending."""
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

        # Between stages the state is consistent: the cheapest point to honor a signal.
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
    release_key: bytes | None = None,
    progress: Progress | None = None,
    cancellation: Cancellation | None = None,
    exit_report: ExitReport | None = None,
) -> RunResult:
    """Run a policy: produce a release, or report why there is none.

    Parameters
    ----------
    policy : Policy
        The validated policy.
    options : Options
        Options of the command line.
    release_key : bytes or None
        The release key, for tests that compare anonymous runs. By default it is read from the source that
        the policy names, or generated for this run only (anonymous mode).
    progress : Progress or None
        Receives the progress of each stage; None discards it.
    cancellation : Cancellation or None
        Checked between stages and between objects.
    exit_report : ExitReport or None
        Filled with the counts, timings and ending that are written to the state folder.

    Returns
    -------
    RunResult
        The ending, the counts by outcome and rule, and the gates.

    Raises
    ------
    UsageError, KeyMaterialError
        The policy, the folders or the key cannot be used; raised before an input is read.
    EnvironmentFailure
        The disk or a store failed; the same command may be run again.
    IntegrityError
        The state is damaged, or a staged file changed after it was audited.
    Cancelled
        A signal was received; the same command resumes the run.
    """
    progress, cancellation, report = (
        progress or NoProgress(),
        cancellation or Cancellation(),
        exit_report or ExitReport(),
    )
    workspace = workspace_of(policy)
    # Read once: all stages and workers must use the same entries.
    policy = with_site_lists(policy)
    require_reachable(policy.inputs)
    preflight.check_paths(policy.inputs, workspace)
    # Pinned here: a file system mounted at one of these paths later was never checked.
    inputs = inputs_of(policy.inputs)
    preflight.prepare_folders(workspace)
    name = options.shard.name if options.shard else ""
    with (
        preflight.locked(workspace, shared=options.shard is not None, name=name),
        # Inside the lock: a run that is refused must not overwrite the report of the run that holds it.
        exit_report_in_state(report, workspace, options.shard),
        # Of a whole run only: the processes of shards each have a part.
        nullcontext(progress) if options.shard else recorded_progress(workspace, progress) as progress,
        # Outside `translated_errors`, so that the hints of translated OS errors are adapted as well.
        restart_hint(workspace),
        translated_errors(),
        pinned_inputs(inputs),
    ):
        stages = stages_of(policy)
        subkeys = _check_before_reading(policy, stages, options, release_key)
        job = _Job(policy, stages, options, subkeys, progress, cancellation, report)
        report.result = _run_shard(job, options.shard) if options.shard else _run_whole(job, inputs)
        return report.result


def _check_before_reading(
    policy: Policy, stages: tuple[Stage, ...], options: Options, release_key: bytes | None
) -> SubKeys:
    """Make every check that needs no input; return the sub-keys of the run."""
    split = options.shard is not None or options.inventory_only
    subkeys = release_keys(policy, release_key, split=split)
    check_extras(policy)
    check_stages(stages)
    if policy.keys.signing is not None and not split:  # only the process that publishes signs
        load_signing_key(policy.keys.signing)
    return subkeys


@dataclass(frozen=True, slots=True, repr=False)
class _Job:
    """The checked arguments of a run."""

    policy: Policy
    stages: tuple[Stage, ...]
    options: Options
    subkeys: SubKeys
    progress: Progress
    cancellation: Cancellation
    report: ExitReport

    @contextmanager
    def open(self, state: State, inputs: tuple[Root, ...], *, keep_links: bool) -> Iterator[Run]:
        """Open the engine and yield a run on this state."""
        workspace = workspace_of(self.policy)
        unpacked = workspace.unpacked
        set_container_folder(unpacked, self.policy.containers.limits)
        setup = Setup(self.policy, self.subkeys, workspace.staging, keep_links, unpacked=unpacked)
        with open_engine(setup, self.options.workers, self.cancellation, inputs) as engine:
            yield self.start(state, engine, workspace)

    def start(self, state: State, engine: Engine, workspace: Workspace) -> Run:
        """Return a run on this state and engine."""
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
    keep_unpacked = False
    state = open_state(policy, job.subkeys, job.progress, inputs)
    try:
        # Before the inputs are required: they may be removed once the release is published.
        if PUBLISHED.is_set(state) and preflight.is_finished(workspace):
            return _already_published(state, policy)
        require_not_empty(inputs)
        if not PARTIAL_WALK.is_stored(state):
            # A killed run may have unpacked them under other limits.
            remove_unpacked(workspace.unpacked)
        with job.open(state, inputs, keep_links=not workspace.anonymous) as run:
            # Interrupted while publishing: the gates and the approval stand, so only publication is repeated.
            if PUBLICATION.is_stored(state):
                _require_unchanged(run)
                return _publish(run, _stored_summary(run))
            run.do("inventory")
            publish_input_snapshot(state, inputs, workspace.staging)
            release_requeued(state, workspace.staging)
            merge_shards(state)
            if options.inventory_only:
                keep_unpacked = True  # for the shards that follow
                return _result(run, "inventory_done")
            run.do("objects")
            _close_objects(run)
            run.do("set")
        run.do("documents")
        with run.timed("evidence", None):
            summary, digest = give_evidence(policy, run.stages, run.context)
        run.context.search = None  # its memory grows with the number of patients
        return _conclude(run, options, summary, digest)
    finally:
        job.report.count(state)
        state.close()
        if not keep_unpacked:
            remove_unpacked(workspace.unpacked)


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
        # Shards run at the same time and never write the main state; the publishing run merges their copies.
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
    """Close the phase ``objects``: every object has an outcome, so shards may no longer start."""
    remove_input_snapshot(run.context.state, run.context.staged)
    remove_partial_folder(run.context.staged)
    # Staged files may have changed since an earlier process audited them: the publishing process audits all.
    clear_audit(run.context.state)


def _conclude(run: Run, options: Options, summary: Summary, digest: str) -> RunResult:
    """Publish the staged release, unless a gate failed or approval is missing."""
    state = run.context.state
    ending = _ending(run, options, summary, digest)
    with state.transaction():
        JUDGED.store(state, Judgment(ending, digest))
        review = REVIEW.load(state)
        # Review pages of another digest show files that are no longer staged.
        if review is None or review.digest != digest:
            REVIEW.remove(state)
            remove_pages(run.context.workspace)
    if ending == "refused":
        result = _result(run, ending, summary, digest)
        _withdraw(run)
        return result
    if ending == "awaiting_approval":
        messages: tuple[str, ...] = ()
        if options.approve == digest:
            messages = ("The policy requires further approvals, or a sample that is not judged.",)
        elif options.approve:
            messages = ("The digest given with --approve is not that of the staged release.",)
        return _result(run, ending, summary, digest, messages)
    digests = evidence_digests(run.context.staged)
    with state.transaction():
        PUBLICATION.store(state, Publication(summary_to_json(summary), digest, digests))
    return _publish(run, summary)


def _ending(run: Run, options: Options, summary: Summary, digest: str) -> str:
    """Return the ending: ``refused``, ``awaiting_approval`` or ``published``."""
    if any(gate.result == "failed" for gate in summary.gates):
        return "refused"
    approval = run.policy.release.approval
    if approval is None or is_approved(run.context.state, approval, digest, options.approve):
        return "published"
    return "awaiting_approval"


def _withdraw(run: Run) -> None:
    """Remove a release that may not be published from the output; a rerun sanitizes again."""
    WITHDRAWN.set(run.context.state)
    # Committed before the files are removed: a state that claims staged files must not outlive them.
    run.context.state.commit()
    preflight.remove_staging(run.context.workspace)


def _require_unchanged(run: Run) -> None:
    """Verify that the staged files are, byte for byte, those that an earlier process approved."""
    state, workspace = run.context.state, run.context.workspace
    try:
        require_unchanged(run.context.staged, workspace.release, _publication(state).vouchers)
    except IntegrityError:
        if not preflight.is_finished(workspace):
            _withdraw(run)
        raise


def _publish(run: Run, summary: Summary) -> RunResult:
    policy, state, workspace = run.policy, run.context.state, run.context.workspace
    if summary.card is not None:
        # Before anyone can see it: a spending that is recorded too late is not counted after a kill.
        card_budget(policy).publish(summary.card)
    with run.timed("publish", None) as advance:
        publish(run.context.staged, workspace.release, summary)
        if not isinstance(policy.output, Path):
            target_of(policy.output).put(workspace.release, run.context.cancellation, advance)
        # Nothing that links to patients may outlive an anonymous run, so it is not registered.
        if not workspace.anonymous:
            _register(policy, state, workspace)
        # Set last: an interrupted run repeats every step that is not known to be complete.
        PUBLISHED.set(state)
        state.commit()
        remove_pages(workspace)
        preflight.remove_local_copy(workspace)
    return _result(run, "published", summary, _publication(state).digest)


def _register(policy: Policy, state: State, workspace: Workspace) -> None:
    """Add the release to the registry, so that later releases are compared with it."""
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


def _stored_summary(run: Run) -> Summary:
    """Return the summary that the evidence was written from, after an interruption before RELEASE.json."""
    return summary_from_json(_publication(run.context.state).summary, run.policy)


def _already_published(state: State, policy: Policy) -> RunResult:
    preflight.remove_local_copy(workspace_of(policy))
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
    messages += _double_patients(run)
    return result_of(run.context.state, run.policy, ending, tuple(run.timings), summary, digest, messages)


def _double_patients(run: Run) -> tuple[str, ...]:
    """Say that patients may be one person; which ones only the command shows."""
    suspected = SUSPECTED.load(run.context.state)
    if not suspected or run.context.workspace.anonymous:
        return ()
    pairs = "1 pair of patients" if suspected == 1 else f"{suspected:,} pairs of patients"
    return (f"{pairs} may be one person. Decide: medsanitize identities POLICY --suspects FILE",)


def result_of(
    state: State,
    policy: Policy,
    ending: str,
    stages: tuple[StageTiming, ...],
    summary: Summary | None,
    digest: str | None,
    messages: tuple[str, ...],
) -> RunResult:
    """Build the result of a run.

    Parameters
    ----------
    state : State
        Where objects are counted.
    policy : Policy
        Gives the paths of release and report.
    ending : str
        How the run ended, such as ``published`` or ``refused``.
    stages : tuple of StageTiming
        Timings of the stages that ran.
    summary : Summary or None
        The public summary; None before the gates are decided.
    digest : str or None
        Digest of the staged release; None before the gates are decided.
    messages : tuple of str
        Further sentences for the user.
    """
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
