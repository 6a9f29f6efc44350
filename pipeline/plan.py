"""The plan: what a run would do, found out by doing it without writing anything."""

from __future__ import annotations

from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.open import open_engine
from medsanitize.pipeline.engines.shared_storage import inputs_of, require_reachable
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.gates import NOT_RUN, duplicate_gate
from medsanitize.pipeline.resume import release_keys
from medsanitize.pipeline.run import Options, Run, judge_run_faces
from medsanitize.pipeline.runtime.optional_dependencies import check_extras
from medsanitize.pipeline.runtime.progress import NoProgress, Progress, StageTiming
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.signals import Cancellation
from medsanitize.pipeline.runtime.workspace import release_folder
from medsanitize.pipeline.stages.deduplicate import judge_duplicates, settle_contests
from medsanitize.pipeline.stages.evidence import Tally, object_rows
from medsanitize.pipeline.stages.inventory import take_inventory
from medsanitize.pipeline.stages.overlap import check_overlap
from medsanitize.pipeline.stages.resolve import check_pseudonyms, read_excluded, read_pseudonyms, resolve
from medsanitize.pipeline.stages.sanitize import sanitize_objects
from medsanitize.pipeline.stages.slides import check_places, check_slide_extra, place_slides
from medsanitize.pipeline.stages.tables import check_tables
from medsanitize.pipeline.state.database import State, translated
from medsanitize.pipeline.state.objects import count_objects, count_pending, outcome_counts, rule_counts
from medsanitize.pipeline.storage.local import pinned_inputs, require_not_empty
from medsanitize.pipeline.storage.pacs.check import check_pacs
from medsanitize.policies.model import Policy
from medsanitize.release.summary import GateSummary


@translated()
def plan(
    policy: Policy,
    options: Options = Options(),  # noqa: B008  immutable
    *,
    progress: Progress | None = None,
    stop: Cancellation | None = None,
) -> RunResult:
    """Take inventory and sanitise on the fly; nothing is written, in output, state or elsewhere.

    Files are not staged, so the audit and the comparison of pixels are reported as not run.
    """
    subkeys = release_keys(policy)
    check_extras(policy)
    check_pacs(policy)
    require_reachable(policy)
    preflight.check_paths(policy)
    inputs = inputs_of(policy)
    read_pseudonyms(policy.pseudonyms.table)
    read_excluded(policy.exclude)
    check_tables(policy)
    check_places(policy)
    check_overlap(policy)
    require_not_empty(inputs)
    state = State(None, subkeys)
    try:
        setup = Setup(policy, subkeys, staging=None, keep_links=False)
        engine = open_engine(setup, options.workers, stop or Cancellation(), inputs)
        with pinned_inputs(inputs), engine:
            run = Run(policy, subkeys, state, engine, progress or NoProgress(), release_folder(policy))
            tally = _look(run)
            return _result(state, policy, tally, tuple(run.stages))
    finally:
        state.close()


def _look(run: Run) -> Tally:
    state, policy = run.state, run.policy
    with run.stage("inventory", None) as advance:
        take_inventory(state, policy, run.engine, advance)
        check_slide_extra(state)
        place_slides(state, policy)
        check_pseudonyms(state, policy)
        resolve(state, policy)
    judge_run_faces(run)
    with run.stage("sanitize", count_pending(state)) as advance:
        sanitize_objects(state, policy, run.engine, advance)
    with run.stage("deduplicate", None):
        settle_contests(state, policy, None)
        judge_duplicates(state, policy, None)
        tally = Tally()
        for _ in object_rows(state, run.subkeys, policy, tally):
            pass
    return tally


def _overlap(policy: Policy) -> GateSummary:
    detail = "The policy does not ask for it." if policy.overlap is None else "A plan embeds no images."
    return GateSummary("overlap", "not_run", detail)


def _result(state: State, policy: Policy, tally: Tally, stages: tuple[StageTiming, ...]) -> RunResult:
    return RunResult(
        ending="planned",
        objects=count_objects(state),
        outcomes=outcome_counts(state),
        dropped=rule_counts(state, "dropped"),
        quarantined=rule_counts(state, "quarantined"),
        actions=tally.actions,
        rules=dict(sorted(tally.rules.items())),
        gates=(
            GateSummary("residual identifiers", "not_run", "A plan writes no files that could be audited."),
            duplicate_gate(state, "bytes", "duplicates by bytes", policy.deduplicate.bytes),
            GateSummary("duplicates by pixels", "not_run", "A plan decodes no pixels."),
            duplicate_gate(state, "registry", "earlier releases", policy.deduplicate.registry),
            _overlap(policy),
            *NOT_RUN,
        ),
        stages=stages,
    )
