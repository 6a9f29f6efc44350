"""Who calls a stage: the protocol of every engine, and the engine of this machine.

A stage hands batches of rows to a task, a plain function ``task(worker, batch) -> result``. Results
come back in the order of the batches, so what is written does not depend on who finished first.
A worker that dies takes nobody with it: its objects are tried again one at a time. When a run is stopped,
workers leave their batches after the item that they are at. The engine of this machine is this process, or a
pool of forkserver processes.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.engines.forkserver import GC_THRESHOLD, fork_context
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.runtime.signals import SIGNALS, Cancellation
from medsanitize.pipeline.storage.local import Root, pin_inputs

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

Item = TypeVar("Item")
Result = TypeVar("Result")

Task = Callable[[Any, Sequence[Item]], Result]

MAX_CONSECUTIVE_CRASHES = 10
_PULSE = 0.5
_worker: Any = None
_unwanted = False


class WorkerFactory(Protocol):
    """What every process is given; it travels pickled, and makes the worker that tasks are called with."""

    def worker(self) -> Any:
        """Make this process's worker."""


class WorkerCrashed(Generic[Item]):
    """In place of a result: the worker died of this one item, twice."""

    def __init__(self, item: Item) -> None:
        self.item = item


def batches(items: Iterator[Item], size: int) -> Iterator[Sequence[Item]]:
    """Cut a stream into what one task takes: lists of ``size``, the last one shorter."""
    while batch := list(islice(items, size)):
        yield batch


class _BatchAbandoned(BaseException):
    """Nobody waits for this batch any more. No task can take it for a failure of its own."""


class _CancellableBatch(list[Item]):
    """A batch that is left between two items when ``check`` raises."""

    def __init__(self, items: Iterable[Item], check: Callable[[], None]) -> None:
        super().__init__(items)
        self._check = check

    def __iter__(self) -> Iterator[Item]:
        for item in super().__iter__():
            self._check()
            yield item


def _start(setup: WorkerFactory, inputs: Sequence[Root], wanted: Connection) -> None:
    """Set up a worker process: the run's signals are the parent's business, its death ours."""
    global _worker
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    silence_output()
    pin_inputs(inputs)
    _worker = setup.worker()
    gc.set_threshold(GC_THRESHOLD)
    gc.freeze()  # what was imported stays: looking through it again and again would cost more than it frees
    threading.Thread(target=_watch_parent, args=(wanted,), daemon=True).start()


def silence_output() -> None:
    """Decoders and libraries may quote element values in what they print, so workers print nothing."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _watch_parent(wanted: Connection) -> None:
    """Notice that the parent wants nothing more, which it says by closing its end; leave with the parent."""
    global _unwanted
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel, wanted])
        _unwanted = True
        wait([parent.sentinel])
        os._exit(1)


def _require_wanted() -> None:
    if _unwanted:
        raise _BatchAbandoned


def _call(task: Task[Any, Any], batch: Sequence[Any]) -> tuple[Any, float]:
    if _worker is None:
        raise RuntimeError("worker was not set up")
    before = time.process_time()
    result = task(_worker, _CancellableBatch(batch, _require_wanted))
    return result, time.process_time() - before


class Engine(Protocol):
    """What stages ask of an engine; leaving its context ends its workers and lets go of all they had.

    ``cpu_seconds`` is what the worker processes used (not counting this process).
    """

    workers: int
    cpu_seconds: float

    def __enter__(self) -> Engine: ...

    def __exit__(self, *_: object) -> None: ...

    def equip(self, search: IdentifierSearch) -> None:
        """Give every worker the audit's net."""

    def map(
        self, task: Task[Item, Result], batches: Iterable[Sequence[Item]], *, isolate: bool = False
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        """Yield one result a batch, in order; of a batch whose workers died, one result an item.

        Parameters
        ----------
        task : callable
            A module-level function; runs with what the setup makes (a run: a Worker) and one batch.
        batches : iterable of sequences
            Consumed only a few batches ahead.
        isolate : bool
            Never run it in this process (for native decoders that may crash).
        """
        ...


class LocalEngine:
    """Runs tasks over batches with ``workers`` processes; one worker means this very process.

    What other processes read is held to ``inputs``; what this one reads is its caller's to hold.
    """

    def __init__(
        self, setup: WorkerFactory, workers: int, stop: Cancellation, inputs: Sequence[Root] = ()
    ) -> None:
        self.workers = workers
        self.cpu_seconds = 0.0
        self._setup = setup
        self._stop = stop
        self._inputs = tuple(inputs)
        self._local = setup.worker()
        self._pool: ProcessPoolExecutor | None = None
        self._wanted: tuple[Connection, ...] = ()
        self._deaths = 0

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._shut()
        del self._setup, self._local

    def equip(self, search: IdentifierSearch) -> None:
        """Give every worker the audit's net; running workers are replaced."""
        self._shut()
        if not isinstance(self._setup, Setup):
            raise TypeError("only a run's workers have an audit's net")
        self._setup = replace(self._setup, search=search)
        self._local = self._setup.worker()

    def map(
        self, task: Task[Item, Result], batches: Iterable[Sequence[Item]], *, isolate: bool = False
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        """Yield one result a batch, in order; see `Engine.map`."""
        if self.workers == 1 and not isolate:
            for batch in batches:
                self._stop.check()
                yield task(self._local, _CancellableBatch(batch, self._stop.check))
            return
        yield from self._in_pool(task, iter(batches))

    def _in_pool(
        self, task: Task[Item, Result], batches: Iterator[Sequence[Item]]
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        running: deque[tuple[Sequence[Item], Future[tuple[Result, float]]]] = deque()
        more = True
        while more or running:
            self._stop.check()
            while more and len(running) < 2 * self.workers + 1:
                batch = next(batches, None)
                if batch is None:
                    more = False
                else:
                    running.append((batch, self._submit(task, batch)))
            if not running:
                return
            batch, future = running.popleft()
            try:
                result, cpu = self._awaited(future)
            except BrokenProcessPool:
                waiting = [batch, *(later for later, _ in running)]
                running.clear()
                for one in waiting:
                    yield from self._one_at_a_time(task, one)
                continue
            self.cpu_seconds += cpu
            yield result

    def _one_at_a_time(
        self, task: Task[Item, Result], batch: Sequence[Item]
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        for item in batch:
            self._stop.check()
            for attempt in (1, 2):
                self._shut()
                try:
                    result, cpu = self._awaited(self._submit(task, [item]))
                except BrokenProcessPool:
                    if attempt == 2:
                        self._shut()
                        self._note_death()
                        yield WorkerCrashed(item)
                    continue
                self.cpu_seconds += cpu
                self._deaths = 0
                yield result
                break

    def _awaited(self, future: Future[tuple[Result, float]]) -> tuple[Result, float]:
        """What a batch gave; a stop is heard while it is waited for."""
        ended = False
        while not futures.wait([future], _PULSE).done:
            self._stop.check()
            if self._pool is not None:
                kept = _pool_internals(self._pool)
                # A pool notices at once that a worker has ended, unless it waits for the rest of its message.
                if ended:
                    kept.end()
                ended = bool(wait([process.sentinel for process in kept.processes()], 0))
        return future.result()

    def _note_death(self) -> None:
        """Many items in a row are not to blame for the death of their workers: memory may be."""
        self._deaths += 1
        if self._deaths == MAX_CONSECUTIVE_CRASHES:
            raise EnvironmentFailure(
                "Worker processes keep dying",
                "Use fewer workers or more memory, then run the same command again",
            )

    def _submit(self, task: Task[Item, Result], batch: Sequence[Item]) -> Future[tuple[Result, float]]:
        try:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool.submit(_call, task, batch)
        except BrokenProcessPool as error:
            broken: Future[tuple[Result, float]] = Future()
            broken.set_exception(error)
            return broken
        except (EOFError, OSError):
            # What workers are forked from may have been killed.
            self._stop.check()
            raise EnvironmentFailure(
                "A worker process could not be started",
                "Free some memory or raise the limit of open files (ulimit -n), then run the same again",
            ) from None

    def _new_pool(self) -> ProcessPoolExecutor:
        self._wanted = multiprocessing.Pipe(duplex=False)
        return ProcessPoolExecutor(
            self.workers,
            mp_context=fork_context(),
            initializer=_start,
            initargs=(self._setup, self._inputs, self._wanted[0]),
        )

    def _shut(self) -> None:
        """End the workers; what they are at is not waited for to its end, only to the end of an item."""
        if self._pool is None:
            return
        self._wanted[1].close()
        # A pool that waits itself closes what is closed here, at the same moment: it lets go of all it has.
        kept = _pool_internals(self._pool)
        # From Python 3.12 on it waits for a lock that a pool which broke holds until its workers have ended.
        quietly = {"wait": False, "cancel_futures": True}
        asking = threading.Thread(target=self._pool.shutdown, kwargs=quietly)
        asking.start()
        for one in (asking, kept.manager):
            while one is not None and one.is_alive():
                if self._pool._broken or any(process.exitcode for process in kept.processes()):
                    kept.end()
                one.join(_PULSE)
        kept.answers.close()
        self._wanted[0].close()
        self._pool = None


@dataclass(frozen=True, slots=True)
class _PoolInternals:
    """What a pool has, which it tells of in no other way and lets go of when it is shut.

    ``workers`` are its processes by number, ``answers`` the queue of their results, which ``manager`` takes.
    """

    workers: Mapping[int, BaseProcess]
    answers: Any
    manager: threading.Thread | None

    def processes(self) -> Sequence[BaseProcess]:
        """The workers as they are now. Those that were told to end say 0, killed ones another number."""
        return tuple(self.workers.values())

    def end(self) -> None:
        """Kill what is left of a pool, which may not see that it broke while it reads half a message.

        Who waits for a lock that a killed worker held would wait for ever.
        """
        for process in self.processes():
            if process.is_alive():
                process.kill()
        self.answers._writer.close()  # or the rest of half a message is waited for as long as this lives


def _pool_internals(pool: Any) -> _PoolInternals:
    """What a `ProcessPoolExecutor` that was not shut has."""
    return _PoolInternals(pool._processes, pool._result_queue, pool._executor_manager_thread)
