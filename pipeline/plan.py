"""The plan: what a run would do, measured by running the stages that write no file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.open_engine import open_engine
from medsanitize.pipeline.engines.shared_storage import inputs_of, require_reachable
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.resume import release_keys
from medsanitize.pipeline.run import Options, Run
from medsanitize.pipeline.runtime.optional_dependencies import check_extras
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.sequence import check_stages, gates_of, stages_of
from medsanitize.pipeline.stages.stage import GateInput, RunContext, Stage
from medsanitize.pipeline.state.database import State, translated_errors
from medsanitize.pipeline.state.objects import count_objects, outcome_counts, rule_counts
from medsanitize.pipeline.storage.containers.reader import PREFIX, set_container_folder
from medsanitize.pipeline.storage.local import pinned_inputs, require_not_empty
from medsanitize.pipeline.storage.spool import set_spool_folder, spool_folder
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import with_site_lists
from medsanitize.progress import Cancellation, NoProgress, Progress


@translated_errors()
def plan(
    policy: Policy,
    options: Options = Options(),  # noqa: B008  immutable
    *,
    progress: Progress | None = None,
    cancellation: Cancellation | None = None,
) -> RunResult:
    """Run the stages that need no staged file; write nothing to output, state or any other folder.

    Parameters
    ----------
    policy : Policy
        The validated policy.
    options : Options
        Only ``workers`` is used.
    progress : Progress or None
        Receives the progress of each stage; None discards it.
    cancellation : Cancellation or None
        Checked between objects.

    Returns
    -------
    RunResult
        With the ending ``planned``; gates on staged files have the result ``not_run``.
    """
    policy = with_site_lists(policy)
    subkeys, stages = release_keys(policy), stages_of(policy)
    check_extras(policy)
    require_reachable(policy.inputs)
    preflight.check_paths(policy.inputs, workspace_of(policy))
    inputs = inputs_of(policy.inputs)
    check_stages(stages)
    require_not_empty(inputs)
    # An unnamed database: a plan must not create, change or invalidate the state of a run.
    state, cancellation = State(None, subkeys), cancellation or Cancellation()
    # Files of containers are unpacked for the plan only.
    set_spool_folder(policy.state)
    with TemporaryDirectory(prefix=PREFIX, dir=spool_folder()) as unpacked, closing(state):
        folder = Path(unpacked)
        set_container_folder(folder, policy.containers.limits)
        setup = Setup(policy, subkeys, staging=None, keep_links=False, unpacked=folder)
        with pinned_inputs(inputs), open_engine(setup, options.workers, cancellation, inputs) as engine:
            context = RunContext(
                state=state,
                engine=engine,
                subkeys=subkeys,
                workspace=workspace_of(policy),
                staging=None,
                progress=progress or NoProgress(),
                cancellation=cancellation,
                requeue=_reject_requeue,
            )
            run = Run(policy, tuple(stage for stage in stages if stage.in_plan), context)
            run.do("inventory", "objects", "set", "documents")
            return _result(run, stages)


def _reject_requeue(_numbers: object) -> None:
    raise RuntimeError("a plan stages no file that could be missing")


def _result(run: Run, stages: Sequence[Stage]) -> RunResult:
    state, tally = run.context.state, run.context.tally
    return RunResult(
        ending="planned",
        objects=count_objects(state),
        outcomes=outcome_counts(state),
        dropped=rule_counts(state, "dropped"),
        quarantined=rule_counts(state, "quarantined"),
        actions=tally.actions,
        rules=dict(sorted(tally.rules.items())),
        gates=gates_of(stages, GateInput(state, tally)),
        stages=tuple(run.timings),
    )
