"""What an export contains, before anything is decided: `inventory` and `stored_inventory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medsanitize.api.jobs import Listener, as_progress
from medsanitize.api.policy import PolicySource, load_policy

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.count_inputs import InputCounts


def inventory(
    policy: PolicySource, *, workers: int | None = None, progress: Listener | None = None
) -> InputCounts:
    """Count what the inputs of a policy contain, and store the counts in its state folder.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`. No key is needed.
    workers : int, optional
        Number of worker processes; by default that of the policy, or one per core.
    progress : callable or Progress, optional
        See `run`.

    Returns
    -------
    InputCounts
        ``files``, ``patients``, ``studies``, ``series``, ``kinds``, ``modalities``, ``makers``, ``formats``,
        ``problems``, ``bytes`` and ``estimate`` (seconds of a run).

    Raises
    ------
    UsageError
        The folders cannot be used, or are empty.
    EnvironmentFailure
        A run is at work, or the disk failed.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.inventory("policy.yaml", workers=1).patients  # doctest: +SKIP
    6
    """
    from medsanitize.pipeline.jobs.count_inputs import count_inputs

    return count_inputs(load_policy(policy), workers=workers, progress=as_progress(progress))


def stored_inventory(policy: PolicySource) -> InputCounts | None:
    """Return the counts that `inventory` stored last, or None.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.
    """
    from medsanitize.pipeline.jobs.count_inputs import stored_counts
    from medsanitize.pipeline.runtime.workspace import workspace_of

    return stored_counts(workspace_of(load_policy(policy)))
