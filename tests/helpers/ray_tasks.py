"""Drivers of a test cluster, each run in its own process, and tasks that the nodes can import.

Called as ``python ray_tasks.py NAME ARGUMENTS``; prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline.engines import ray
from medsanitize.pipeline.engines.base import WorkerCrashed
from medsanitize.pipeline.engines.ray import RayEngine
from medsanitize.pipeline.engines.shared_storage import inputs_of
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.stages import sanitize
from medsanitize.policies.load import load
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation
from medsanitize.sanitize.pseudonyms import derive_sub_keys

SANITIZE = sanitize.sanitize_batch


def same(_: Worker, batch: Sequence[int]) -> list[int]:
    return list(batch)


def die_of_seven(_: Worker, batch: Sequence[int]) -> list[int]:
    if 7 in batch:
        os._exit(3)
    return list(batch)


def die(_: Worker, batch: Sequence[int]) -> list[int]:
    os._exit(len(batch))


def quote_a_value(_: Worker, batch: Sequence[int]) -> list[int]:
    print("QUIXLEYVANE printed", file=sys.stderr)
    raise ValueError(f"QUIXLEYVANE raised over {len(batch)}")


def slowly(worker: Worker, batch: Sequence[Any]) -> list[Any]:
    """Sanitize a batch slowly, and record the worker next to the policy."""
    with open(worker.setup.policy.output.parent / "at-work", "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(0.5)
    return SANITIZE(worker, batch)


def linger(_: Worker, batch: Sequence[Path]) -> list[int]:
    (batch[0] / "at-work").touch()
    time.sleep(1)
    return []


def who(_: Worker, batch: Sequence[int]) -> list[str]:
    time.sleep(0.3 * len(batch))
    return [str(os.getpid()), os.environ.get("CUDA_VISIBLE_DEVICES", "none")]


def one_at_a_time(items: Iterable[Any], *_: object) -> Iterator[list[Any]]:
    """Replaces the batch plan of the stage."""
    return ([item] for item in items)


def release(policy: Policy) -> dict[str, Any]:
    """A whole run, in small slow batches."""
    sanitize.sanitize_batch = slowly
    sanitize.plan_batches = one_at_a_time
    result = run(policy, Options(workers=2))
    return {"ending": result.ending, "outcomes": result.outcomes}


def calls(policy: Policy) -> dict[str, Any]:
    """Results of tasks that succeed, of one that kills its worker, and of one that raises."""
    raised = ""
    with RayEngine(setup_of(policy), 2, Cancellation()) as engine:
        ordered = [one for (one,) in engine.map(same, ([number] for number in range(12)))]
        after = list(engine.map(die_of_seven, ([number, number + 1] for number in range(0, 12, 2))))
        try:
            list(engine.map(quote_a_value, [[1]]))
        except RuntimeError as error:
            raised = str(error)
    died = [one.item for one in after if isinstance(one, WorkerCrashed)]
    lived = [number for one in after if not isinstance(one, WorkerCrashed) for number in one]
    return {"ordered": ordered, "died": died, "lived": lived, "raised": raised}


def loses_answers(policy: Policy) -> dict[str, Any]:
    """After three results a worker dies before the last is received, as if the next item had killed it."""
    handle = RayEngine._handle_answer

    def lost(engine: RayEngine, worker: Any, answer: Any) -> None:
        if len(worker.slots) > 1 and 3 in worker.slots[0].batch:
            engine._handle_crash(worker)
        else:
            handle(engine, worker, answer)

    RayEngine._handle_answer = lost  # type: ignore[method-assign]
    with RayEngine(setup_of(policy), 1, Cancellation()) as engine:
        answers = list(engine.map(same, ([number] for number in range(6))))
    return {"died": [one.item for one in answers if isinstance(one, WorkerCrashed)], "answers": len(answers)}


def shares(policy: Policy) -> dict[str, Any]:
    """Record the workers when each holds a part of a GPU."""
    with RayEngine(setup_of(policy), None, Cancellation()) as engine:
        told = [
            one
            for one in engine.map(who, ([number] for number in range(8)))
            if not isinstance(one, WorkerCrashed)
        ]
    return {"workers": len({pid for pid, _ in told}), "gpus": sorted({gpu for _, gpu in told})}


def dies(policy: Policy) -> dict[str, Any]:
    """Every item kills its worker, and two are too many."""
    ray.MAX_CONSECUTIVE_CRASHES = 2  # type: ignore[misc]
    with RayEngine(setup_of(policy), 2, Cancellation()) as engine:
        return {"results": len(list(engine.map(die, ([number] for number in range(99)))))}


def lingers(policy: Policy) -> dict[str, Any]:
    """Tasks that take longer than the caller waits."""
    with RayEngine(setup_of(policy), 1, Cancellation()) as engine:
        return {"results": len(list(engine.map(linger, ([policy.output.parent] for _ in range(999)))))}


def finds_another_input(policy: Policy) -> dict[str, Any]:
    """Workers start after the input was replaced."""
    inputs, export = inputs_of(policy.inputs), policy.output.parent / "export"
    with RayEngine(setup_of(policy), 1, Cancellation(), inputs) as engine:
        export.rename(export.with_name("hidden"))
        export.mkdir()
        (export / "below").touch()
        return {"results": len(list(engine.map(same, [[1]])))}


def setup_of(policy: Policy) -> Setup:
    return Setup(policy, derive_sub_keys(bytes(range(64)), scope="project"), None, keep_links=False)


def main() -> None:
    name, policy = sys.argv[1:]
    import ray_tasks  # by its name on the nodes

    try:
        told = getattr(ray_tasks, name)(load(Path(policy)))
    except MedsanitizeError as error:
        told = {"error": str(error), "exit_code": error.exit_code}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
