"""Who decided what in the reviews of a policy."""

from __future__ import annotations

from medsanitize.errors import UsageError
from medsanitize.pipeline.resume import open_for_reading
from medsanitize.pipeline.state.database import translated_errors
from medsanitize.pipeline.state.judgments import LoggedDecision, logged_decisions
from medsanitize.policies.model import Policy


@translated_errors()
def decision_log(policy: Policy) -> list[LoggedDecision]:
    """Return who decided what, in the order of the decisions.

    Raises
    ------
    UsageError
        The release is anonymous, or there was no run.
    EnvironmentFailure, IntegrityError
        Another process holds the state, or it is damaged.
    """
    if policy.release.mode == "anonymous":
        raise UsageError("An anonymous run cannot be reviewed", "Review a pseudonymous run first")
    state = open_for_reading(policy)
    try:
        return list(logged_decisions(state))
    finally:
        state.close()
