"""What ends an anonymous run says that the next one starts again: nothing of it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.signals import Cancelled
from medsanitize.policies.model import Policy

GOES_ON: Final = "it goes on where it stopped"
"""What the same command does after a failure, where the run keeps a state."""


@contextmanager
def restart_hint(policy: Policy) -> Iterator[None]:
    """Let what ends the block tell of a run that keeps nothing, where the policy is an anonymous one's."""
    if policy.release.mode != "anonymous":
        yield
        return
    told = "it starts again, as every anonymous run does"
    if not isinstance(policy.output, Path):
        told += ", and what was put into output must be removed before"
    try:
        yield
    except EnvironmentFailure as failure:
        remedy = failure.remedy
        failure.remedy = remedy.replace(GOES_ON, told) if GOES_ON in remedy else f"{remedy}: {told}"
        failure.args = (failure.what, failure.remedy)
        raise
    except Cancelled as stopped:
        stopped.remedy = f"Run the same command again: {told}"
        raise
