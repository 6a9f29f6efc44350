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
from medsanitize.pipeline.storage.local import Root
from medsanitize.progress import Cancellation

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

_AHEAD = 2  # maximum number of batches at a worker
_WINDOW = 4  # batches per worker that are in progress or wait for their turn in the order
_DEATHS = 2  # crashes per batch, and per item
_PULSE = 1.0
_LOOK = 10.0
_PATIENCE = 600.0


@dataclass(slots=True, eq=False)
class _Slot:
    """A batch in progress; ``outcome`` contains the result once it exists."""

    batch: Sequence[Any]
    deaths: int = 0
    call: Any = None
    outcome: list[Any] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _RemoteWorker:
    """The local view of a worker; ``pending`` is the call it must answer before it takes batches."""

    actor: Any
    pending: Any
    public: bytes = b""
    mark: str = ""
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
        self.cpu_seconds = 0.0
        self._setup = setup
        self._stop = cancellation
        self._inputs = tuple(inputs)
        self._channel = EncryptedChannel.new()
        self._kit: Any = None
        self._crew: list[_RemoteWorker] = []
        self._line: deque[_Slot] = deque()
        self._todo: deque[_Slot] = deque()
        self._given_up = self._failed = 0
        self._looked = self._worked = 0.0
        self._leave = ExitStack()

    def __enter__(self) -> RayEngine:
        own = self.workers or len(os.sched_getaffinity(0))
        with ExitStack() as stack:
            stack.enter_context(connected(self._setup.policy.engine, own))
            stack.callback(self._dismiss)
            self.workers = self.workers or _fitting(self._setup.policy.engine.gpus)
            self._leave = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.close()
        del self._setup

    def equip(self, search: IdentifierSearch) -> None:
        """Give every worker the identifier search of the audit."""
        self._setup = replace(self._setup, search=search)
        self._kit = None
        for hand in self._crew:
            if hand.public:
                self._equip(hand)

    def map(
        self,
        task: Task[Item, Result],
        batches: Iterable[Sequence[Item]],
        *,
        isolate: bool = False,  # noqa: ARG002  no task runs in this process
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        """Yield one result per batch, in order; see ``Engine.map``."""
        line: deque[_Slot] = deque()
        todo: deque[_Slot] = deque()
        self._line, self._todo = line, todo
        coming = iter(batches)
        more = True
        self._worked = time.monotonic()
        while more or line:
            self._stop.check()
            while more and len(line) < _WINDOW * self.workers:
                batch = next(coming, None)
                if batch is None:
                    more = False
                else:
                    line.append(_Slot(batch))
                    todo.append(line[-1])
            if line:
                self._hand_out(task)
                self._hear()
            while line and line[0].outcome:
                yield line.popleft().outcome[0]
        while any(hand.mark for hand in self._crew):  # no probe file may remain in the staging folder
            self._stop.check()
            self._hear()

    # -- batches to workers, answers back -------------------------------------------------

    def _hand_out(self, task: Task[Any, Any]) -> None:
        while len(self._crew) < self.workers:
            self._hire()
        for load in range(_AHEAD):
            for hand in self._crew:
                if not self._todo or hand.pending is not None or len(hand.slots) != load:
                    continue
                # A worker's last answer can be lost with it: only a batch alone at it is surely the cause.
                if load == 0 or not (self._todo[0].deaths or hand.slots[0].deaths):
                    slot = self._todo.popleft()
                    slot.call = hand.actor.call.remote(self._channel.close((task, slot.batch)))
                    hand.slots.append(slot)

    def _hear(self) -> None:
        """Take the answers that have arrived, waiting a moment for them."""
        import ray

        awaited = {hand.awaited: hand for hand in self._crew if hand.awaited is not None}
        ready, _ = ray.wait(list(awaited), timeout=_PULSE)
        if ready:
            ready, _ = ray.wait(list(awaited), num_returns=len(awaited), timeout=0)
        for one in ready:
            try:
                said = ray.get(one)
            except ray.exceptions.RayError:
                self._lose(awaited[one])
            else:
                self._take(awaited[one], said)
        self._look_after()

    def _take(self, hand: _RemoteWorker, said: Any) -> None:
        if hand.pending is not None and not hand.public:
            hand.public, version = said
            # A worker with another version could write other bytes.
            if version != __version__:
                raise EnvironmentFailure(
                    "A node of the cluster has another version of medsanitize",
                    "Install the same version on every node, then run the same command again",
                )
            self._equip(hand)
            return
        answer: Answer = self._channel.open(said)
        slot = hand.slots.popleft() if hand.pending is None else None
        if answer.raised is not None:
            raise answer.raised
        self._worked = time.monotonic()
        self._failed = 0
        if slot is None:
            hand.pending = None
            self._require_mark(hand)
            return
        self.cpu_seconds += answer.cpu
        self._given_up = 0
        slot.outcome.append(answer.result)

    def _look_after(self) -> None:
        """Check the cluster: without a head Ray exits this process, without free CPUs it waits forever."""
        import ray

        now = time.monotonic()
        if now - self._looked > _LOOK:
            self._looked = now
            if not any(is_listening(ray.get_runtime_context().gcs_address) for _ in range(2)):
                raise EnvironmentFailure(
                    "The head of the Ray cluster no longer answers",
                    "Start the cluster, then run the same command again",
                )
        if now - self._worked > _PATIENCE and all(hand.pending is not None for hand in self._crew):
            raise EnvironmentFailure(
                "No worker started on the Ray cluster within ten minutes",
                "Provide free CPUs, and GPUs if the policy requests them, then run the same command again",
            )

    # -- workers come and go --------------------------------------------------------------

    def _hire(self) -> None:
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
        self._crew.append(_RemoteWorker(actor, actor.hello.remote()))

    def _equip(self, hand: _RemoteWorker) -> None:
        """Send a worker session key and setup; it proves that it writes to this machine's staging folder."""
        import ray

        if self._kit is None:
            own = self._setup.policy.engine.address == "local"
            home = os.environ.get("HOME") if own else None
            # Encrypted once and stored in the object store, since all workers receive the same.
            self._kit = ray.put(self._channel.close(WorkerPayload(self._setup, self._inputs, home)))
        hand.mark = new_probe_name() if self._setup.staging is not None else ""
        hand.pending = hand.actor.equip.remote(self._channel.key_for(hand.public), self._kit, hand.mark)

    def _require_mark(self, hand: _RemoteWorker) -> None:
        """Check that the worker's probe file is in this machine's staging folder."""
        if not hand.mark or self._setup.staging is None:
            return
        require_probe(self._setup.staging, hand.mark)
        (self._setup.staging / hand.mark).unlink()
        hand.mark = ""

    def _lose(self, hand: _RemoteWorker) -> None:
        """Handle a crashed worker: only the batch it was processing may be the cause."""
        self._crew.remove(hand)
        self._end(hand)
        if hand.pending is not None:
            self._failed += 1
            if self._failed == 3 * self.workers:
                raise EnvironmentFailure(
                    "Workers do not start on the Ray cluster",
                    "Install the same medsanitize on every node, then run the same command again",
                )
        elif hand.slots:
            hand.slots[0].deaths += 1
        for slot in reversed(hand.slots):
            if slot in self._line:
                self._again(slot)

    def _again(self, slot: _Slot) -> None:
        if slot.deaths < _DEATHS:
            # First in the queue again: results are yielded in order, so others wait for this one.
            self._todo.appendleft(slot)
        elif len(slot.batch) > 1:
            place = self._line.index(slot)
            parts = [_Slot([item]) for item in slot.batch]
            self._line.remove(slot)
            for part in reversed(parts):
                self._line.insert(place, part)
                self._todo.appendleft(part)
        else:
            slot.outcome.append(WorkerCrashed(slot.batch[0]))
            self._given_up += 1
            if self._given_up == MAX_CONSECUTIVE_CRASHES:
                raise EnvironmentFailure(
                    "Workers on the Ray cluster keep crashing",
                    "Give them more memory, or use fewer workers, then run the same command again",
                )

    def _end(self, hand: _RemoteWorker) -> None:
        import ray

        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(hand.actor, no_restart=True)
        if hand.mark and self._setup.staging is not None:
            (self._setup.staging / hand.mark).unlink(missing_ok=True)

    def _dismiss(self) -> None:
        for hand in self._crew:
            self._end(hand)
        self._crew.clear()
        self._kit = None


def _fitting(gpus: float) -> int:
    """Return the number of workers that the cluster has resources for."""
    import ray

    room = ray.cluster_resources()
    cpus = int(room.get("CPU", 0))
    return max(1, min(cpus, int(room.get("GPU", 0) / gpus)) if gpus else cpus)
