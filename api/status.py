"""How far the release of a policy is, and stopping its run: `status` and `stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medsanitize.api.policy import PolicySource, load_policy

if TYPE_CHECKING:
    from medsanitize.pipeline.reporting.status import ReleaseStatus


def status(policy: PolicySource) -> ReleaseStatus:
    """Return how far the release of a policy is, from the policy's folders alone.

    No key is needed, and a run in progress is not disturbed.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.

    Returns
    -------
    ReleaseStatus
        ``state`` is ``new``, ``planned``, ``running``, ``awaiting_review``, ``published``, ``refused`` or
        ``stopped``; ``reason`` and ``next_step`` are sentences.

    Raises
    ------
    PolicyError, UsageError
        The policy is invalid.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.status("policy.yaml").state  # doctest: +SKIP
    'awaiting_review'
    """
    from medsanitize.pipeline.reporting.status import status_of

    return status_of(load_policy(policy))


def stop(policy: PolicySource) -> bool:
    """Ask the run of a policy to stop; `run` resumes it.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.

    Returns
    -------
    bool
        Whether a run was at work on this machine; it stops between two objects.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.stop("policy.yaml")  # doctest: +SKIP
    True
    """
    from medsanitize.pipeline.reporting.status import stop_run

    return stop_run(load_policy(policy))
