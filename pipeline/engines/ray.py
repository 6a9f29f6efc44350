"""The engine of a Ray cluster: each worker is an actor with its models; it receives rows, never files.

A batch whose worker crashed is given to another one; after two crashes its items are tried one by one, and an
item on which two more workers crash is given up. Everything that Ray transports is encrypted
(``encrypted_channel``), and actors raise nothing to Ray (``ray_worker``).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from medsanitize import __version__
from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.engines.base import MAX_CONSECUTIVE_CRASHES, Item, Result, Task, WorkerCrashed
from medsanitize.pipeline.engines.encrypted_channel import EncryptedChannel
from medsanitize.pipeline.engines.ray_connect import connected, is_listening
from medsanitize.pipeline.engines.ray_worker import Answer, RayWorker, WorkerPayload
from medsanitize.pipeline.engines.shared_storage import new_probe_name, require_probe
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.runtime.machine import usable_cores
from medsanitize.pipeline.storage.local import Root
from medsanitize.progress import Cancellation

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

_MAX_QUEUED = 2  # batches at a worker
_WINDOW = 4  # batches per worker that are in progress or wait for their turn in the order
_MAX_CRASHES = 2  # crashes per batch, and per item
_WAIT_SECONDS = 1.0
_CHECK_SECONDS = 10.0
_START_TIMEOUT = 600.0  # seconds


@dataclass(slots=True, eq=False)
class _Slot:
    """A batch in progress; ``outcome`` contains the result once it exists."""

    batch: Sequence[Any]
    crashes: int = 0
    call: Any = None
    outcome: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _RemoteWorker:
    """The local view of a worker; ``pending`` is the call it must answer before it takes batches."""

    actor: Any
    pending: Any
    public: bytes = b""
    probe: str = ""
    slots: deque[_Slot] = field(default_factory=deque)

    @property
    def awaited(self) -> Any:
        """The call that it answers next; calls are answered in order."""
        return self.pending or (self.slots[0].call if self.slots else None)


class RayEngine:
    """Runs tasks on ``workers`` actors, by default one per CPU; ``inputs`` must be unchanged for all."""

    def __init__(
        self, setup: Setup, workers: int | None, cancellation: Cancellation, inputs: Sequence[Root] = ()
    ) -> None:
        self.workers = workers or 0
        self.cpu_seconds = self.busy_seconds = 0.0
        self._setup = setup
        self._stop = cancellation
        self._inputs = tuple(inputs)
        self._channel = EncryptedChannel.new()
        self._payload: Any = None
        self._remote_workers: list[_RemoteWorker] = []
        self._in_order: deque[_Slot] = deque()
        self._waiting: deque[_Slot] = deque()
        self._answered: deque[_Slot] = deque()  # finished, in the order of the answers
        self._given_up = self._failed = 0
        self._checked_at = self._answered_at = 0.0
        self._exit_stack = ExitStack()

    def __enter__(self) -> RayEngine:
        own = self.workers or usable_cores()
        with ExitStack() as stack:
            stack.enter_context(connected(self._setup.policy.engine, own))
            stack.callback(self._end_workers)
            self.workers = self.workers or _available_workers(self._setup.policy.engine.gpus)
            self._exit_stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stack.close()
        del self._setup

    def equip(self, search: IdentifierSearch) -> None:
        """Give every worker the identifier search of the audit."""
        self._setup = replace(self._setup, search=search)
        self._payload = None
        for worker in self._remote_workers:
            if worker.public:
                self._equip(worker)

    def map(
        self,
        task: Task[Item, Result],
        batches: Iterable[Sequence[Item]],
        *,
        isolate: bool = False,  # noqa: ARG002  no task runs in this process
        ordered: bool = True,
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        """Yield one result per batch; see ``Engine.map``."""
        in_order: deque[_Slot] = deque()
        waiting: deque[_Slot] = deque()
        self._in_order, self._waiting = in_order, waiting
        self._answered.clear()
        remaining = iter(batches)
        more = True
        self._answered_at = time.monotonic()
        while more or in_order:
            self._stop.check()
            while more and len(in_order) < _WINDOW * self.workers:
                batch = next(remaining, None)
                if batch is None:
                    more = False
                else:
                    in_order.append(_Slot(batch))
                    waiting.append(in_order[-1])
            if in_order:
                self._hand_out(task)
                self._collect_answers()
            while self._answered and (not ordered or in_order[0].outcome):
                slot = in_order[0] if ordered else self._answered[0]
                in_order.remove(slot)
                self._answered.remove(slot)
                yield slot.outcome[0]
        # No probe file may remain in the staging folder.
        while any(worker.probe for worker in self._remote_workers):
            self._stop.check()
            self._collect_answers()

    # -- batches to workers, answers back -------------------------------------------------

    def _hand_out(self, task: Task[Any, Any]) -> None:
        while len(self._remote_workers) < self.workers:
            self._start_worker()
        for load in range(_MAX_QUEUED):
            for worker in self._remote_workers:
                if not self._waiting or worker.pending is not None or len(worker.slots) != load:
                    continue
                # A worker's last answer can be lost with it: only a batch alone at it is surely the cause.
                if load == 0 or not (self._waiting[0].crashes or worker.slots[0].crashes):
                    slot = self._waiting.popleft()
                    slot.call = worker.actor.call.remote(self._channel.close((task, slot.batch)))
                    worker.slots.append(slot)

    def _collect_answers(self) -> None:
        """Take the answers that have arrived, waiting a moment for them."""
        import ray

        awaited = {worker.awaited: worker for worker in self._remote_workers if worker.awaited is not None}
        ready, _ = ray.wait(list(awaited), timeout=_WAIT_SECONDS)
        if ready:
            ready, _ = ray.wait(list(awaited), num_returns=len(awaited), timeout=0)
        for one in ready:
            try:
                answer_data = ray.get(one)
            except ray.exceptions.RayError:
                self._handle_crash(awaited[one])
            else:
                self._handle_answer(awaited[one], answer_data)
        self._check_cluster()

    def _handle_answer(self, worker: _RemoteWorker, answer_data: Any) -> None:
        if worker.pending is not None and not worker.public:
            worker.public, version = answer_data
            # A worker with another version could write other bytes.
            if version != __version__:
                raise EnvironmentFailure(
                    "A node of the cluster has another version of medsanitize",
                    "Install the same version on every node, then run the same command again",
                )
            self._equip(worker)
            return
        answer: Answer = self._channel.open(answer_data)
        slot = worker.slots.popleft() if worker.pending is None else None
        if answer.raised is not None:
            raise answer.raised
        self._answered_at = time.monotonic()
        self._failed = 0
        if slot is None:
            worker.pending = None
            self._require_probe_file(worker)
            return
        self.cpu_seconds += answer.cpu
        self.busy_seconds += answer.wall
        self._given_up = 0
        slot.outcome.append(answer.result)
        if slot in self._in_order:  # else of an earlier map, whose caller took no more results
            self._answered.append(slot)

    def _check_cluster(self) -> None:
        """Check the cluster: without a head Ray exits this process, without free CPUs it waits forever."""
        import ray

        now = time.monotonic()
        if now - self._checked_at > _CHECK_SECONDS:
            self._checked_at = now
            if not any(is_listening(ray.get_runtime_context().gcs_address) for _ in range(2)):
                raise EnvironmentFailure(
                    "The head of the Ray cluster no longer answers",
                    "Start the cluster, then run the same command again",
                )
        starting = all(worker.pending is not None for worker in self._remote_workers)
        if starting and now - self._answered_at > _START_TIMEOUT:
            raise EnvironmentFailure(
                "No worker started on the Ray cluster within ten minutes",
                "Provide free CPUs, and GPUs if the policy requests them, then run the same command again",
            )

    # -- workers come and go --------------------------------------------------------------

    def _start_worker(self) -> None:
        import ray

        actor = (
            ray.remote(RayWorker)
            .options(
                num_cpus=1,
                num_gpus=self._setup.policy.engine.gpus,
                # Restarted actors would come up without session key and worker.
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy="SPREAD",
                # Task events are stored in the cluster and shown on its dashboard.
                enable_task_events=False,
            )
            .remote()
        )
        self._remote_workers.append(_RemoteWorker(actor, actor.hello.remote()))

    def _equip(self, worker: _RemoteWorker) -> None:
        """Send a worker session key and setup; it proves that it writes to this machine's staging folder."""
        import ray

        if self._payload is None:
            own = self._setup.policy.engine.address == "local"
            home = os.environ.get("HOME") if own else None
            # Encrypted once and stored in the object store, since all workers receive the same.
            self._payload = ray.put(self._channel.close(WorkerPayload(self._setup, self._inputs, home)))
        worker.probe = new_probe_name() if self._setup.staging is not None else ""
        key = self._channel.key_for(worker.public)
        worker.pending = worker.actor.equip.remote(key, self._payload, worker.probe)

    def _require_probe_file(self, worker: _RemoteWorker) -> None:
        """Check that the worker's probe file is in this machine's staging folder."""
        if not worker.probe or self._setup.staging is None:
            return
        require_probe(self._setup.staging, worker.probe)
        (self._setup.staging / worker.probe).unlink()
        worker.probe = ""

    def _handle_crash(self, worker: _RemoteWorker) -> None:
        """Handle a crashed worker: only the batch it was processing may be the cause."""
        self._remote_workers.remove(worker)
        self._end(worker)
        if worker.pending is not None:
            self._failed += 1
            if self._failed == 3 * self.workers:
                raise EnvironmentFailure(
                    "Workers do not start on the Ray cluster",
                    "Install the same medsanitize on every node, then run the same command again",
                )
        elif worker.slots:
            worker.slots[0].crashes += 1
        for slot in reversed(worker.slots):
            if slot in self._in_order:
                self._retry(slot)

    def _retry(self, slot: _Slot) -> None:
        if slot.crashes < _MAX_CRASHES:
            # First in the queue again: results are yielded in order, so others wait for this one.
            self._waiting.appendleft(slot)
        elif len(slot.batch) > 1:
            place = self._in_order.index(slot)
            parts = [_Slot([item]) for item in slot.batch]
            self._in_order.remove(slot)
            for part in reversed(parts):
                self._in_order.insert(place, part)
                self._waiting.appendleft(part)
        else:
            slot.outcome.append(WorkerCrashed(slot.batch[0]))
            self._answered.append(slot)
            self._given_up += 1
            if self._given_up == MAX_CONSECUTIVE_CRASHES:
                raise EnvironmentFailure(
                    "Workers on the Ray cluster keep crashing",
                    "Give them more memory, or use fewer workers, then run the same command again",
                )

    def _end(self, worker: _RemoteWorker) -> None:
        import ray

        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(worker.actor, no_restart=True)
        if worker.probe and self._setup.staging is not None:
            (self._setup.staging / worker.probe).unlink(missing_ok=True)

    def _end_workers(self) -> None:
        for worker in self._remote_workers:
            self._end(worker)
        self._remote_workers.clear()
        self._payload = None


def _available_workers(gpus: float) -> int:
    """Return the number of workers that the cluster has resources for."""
    import ray

    resources = ray.cluster_resources()
    cpus = int(resources.get("CPU", 0))
    return max(1, min(cpus, int(resources.get("GPU", 0) / gpus)) if gpus else cpus)
