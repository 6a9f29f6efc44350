"""Which engine a run works on."""

from __future__ import annotations

import os
from collections.abc import Sequence

from medsanitize.pipeline.engines.base import Engine, LocalEngine
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.runtime.signals import Cancellation
from medsanitize.pipeline.storage.local import Root


def open_engine(setup: Setup, workers: int | None, stop: Cancellation, inputs: Sequence[Root]) -> Engine:
    """Open the engine that the policy names, with ``workers`` in place of the policy's number.

    Every worker is held to ``inputs``, as the run took them.

    Raises
    ------
    EnvironmentFailure
        The cluster cannot be reached; the same command may be run again.
    """
    section = setup.policy.engine
    workers = workers or section.workers
    if section.kind == "ray":
        from medsanitize.pipeline.engines.ray import RayEngine

        return RayEngine(setup, workers, stop, inputs)
    return LocalEngine(setup, workers or len(os.sched_getaffinity(0)), stop, inputs)
