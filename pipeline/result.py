"""What a run hands back, counted in its state."""

from __future__ import annotations

from medsanitize.pipeline.evidence_stage import FOUND, outcome_counts, rule_counts
from medsanitize.pipeline.gates import HOLDER_REPORT
from medsanitize.pipeline.outcome import RunResult, StageTiming
from medsanitize.pipeline.state import State
from medsanitize.policies.model import Policy
from medsanitize.release.summary import Summary


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
    published = ending in ("published", "already published")
    return RunResult(
        ending=ending,
        objects=state.count(FOUND),
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
