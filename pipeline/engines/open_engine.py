"""Selection of the engine of a run."""

from __future__ import annotations

from collections.abc import Sequence

from medsanitize.pipeline.engines.base import Engine, LocalEngine
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.runtime.machine import usable_cores
from medsanitize.pipeline.storage.local import Root
from medsanitize.progress import Cancellation


def open_engine(
    setup: Setup, workers: int | None, cancellation: Cancellation, inputs: Sequence[Root]
) -> Engine:
    """Open the engine of the policy.

    Parameters
    ----------
    setup : Setup
        Creates the workers.
    workers : int or None
        Number of workers; None for the number in the policy.
    cancellation : Cancellation
        Checked between batches.
    inputs : sequence of Root
        The recorded inputs, which must be unchanged for every worker.

    Raises
    ------
    EnvironmentFailure
        The cluster is unreachable; the command can be repeated.
    """
    section = setup.policy.engine
    workers = workers or section.workers
    if section.kind == "ray":
        # Imported here: Ray is an optional dependency.
        from medsanitize.pipeline.engines.ray import RayEngine

        return RayEngine(setup, workers, cancellation, inputs)
    return LocalEngine(setup, workers or usable_cores(), cancellation, inputs)
