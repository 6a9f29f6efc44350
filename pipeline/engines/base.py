"""The protocol of every engine, and the engine of local processes.

A stage passes batches of rows to a task, a plain function ``task(worker, batch) -> result``. Results come
back in the order of the batches, so the output does not depend on which worker finishes first; or, for a
stage whose output does not depend on their order, as they are finished. If a worker crashes, its items are
tried again one at a time. On cancellation, workers leave their batch after the current item. The local engine
is this process, or a pool of forkserver processes.
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
from medsanitize.pipeline.runtime.signals import SIGNALS
from medsanitize.pipeline.storage.local import Root, pin_inputs
from medsanitize.progress import Cancellation

if TYPE_CHECKING:
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

Item = TypeVar("Item")
Result = TypeVar("Result")

Task = Callable[[Any, Sequence[Item]], Result]

# A crash of one item in a row of good ones is the item's fault; ten in a row are not.
MAX_CONSECUTIVE_CRASHES = 10
# Seconds between two checks for cancellation while a result is awaited.
_POLL_SECONDS = 0.5
_worker: Any = None
_abandoned = False


class WorkerFactory(Protocol):
    """Creates the worker of a process; it is pickled and sent to every process."""

    def worker(self) -> Any:
        """Create this process's worker."""


class WorkerCrashed(Generic[Item]):
    """Stands for a result: the worker crashed twice on this item."""

    def __init__(self, item: Item) -> None:
        self.item = item


def batches(items: Iterator[Item], size: int) -> Iterator[Sequence[Item]]:
    """Split a stream into lists of ``size``, the last one shorter."""
    while batch := list(islice(items, size)):
        yield batch


class _BatchAbandoned(BaseException):
    """The batch is no longer needed; a BaseException, so that no task handles it as a failure of an item."""


class _CancellableBatch(list[Item]):
    """A batch whose iteration ends between two items when ``check`` raises."""

    def __init__(self, items: Iterable[Item], check: Callable[[], None]) -> None:
        super().__init__(items)
        self._check = check

    def __iter__(self) -> Iterator[Item]:
        for item in super().__iter__():
            self._check()
            yield item


def _start(setup: WorkerFactory, inputs: Sequence[Root], wanted: Connection) -> None:
    """Set up a worker process, which ignores the run's signals and exits with its parent."""
    global _worker
    for number in SIGNALS:
        # The parent handles the signals; a worker that died of Ctrl-C would look like a crash.
        signal.signal(number, signal.SIG_IGN)
    silence_output()
    pin_inputs(inputs)
    _worker = setup.worker()
    gc.set_threshold(GC_THRESHOLD)
    gc.freeze()  # imported objects are permanent; scanning them costs more than it frees
    # A daemon thread: it must not keep a finished worker alive.
    threading.Thread(target=_watch_parent, args=(wanted,), daemon=True).start()


def silence_output() -> None:
    """Discard output and logs, because decoders and libraries may quote element values in them."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # dup2, because native libraries write to the descriptors, not to sys.stdout.
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _watch_parent(wanted: Connection) -> None:
    """Watch for the parent closing its end of the pipe (no more work needed) or exiting."""
    global _abandoned
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel, wanted])
        _abandoned = True
        wait([parent.sentinel])
        # Not sys.exit: the main thread may be inside a decoder.
        os._exit(1)


def _raise_if_abandoned() -> None:
    if _abandoned:
        raise _BatchAbandoned


@dataclass(frozen=True, slots=True)
class _Answer(Generic[Result]):
    """The result of a batch, and what it took: CPU and wall seconds of the worker."""

    result: Result
    cpu: float
    wall: float


def _call(task: Task[Any, Any], batch: Sequence[Any]) -> _Answer[Any]:
    if _worker is None:
        raise RuntimeError("worker was not set up")
    cpu, wall = time.process_time(), time.monotonic()
    result = task(_worker, _CancellableBatch(batch, _raise_if_abandoned))
    return _Answer(result, time.process_time() - cpu, time.monotonic() - wall)


class Engine(Protocol):
    """Runs tasks on workers; leaving its context ends the workers and releases their resources.

    ``cpu_seconds`` is the CPU time of the worker processes within tasks, without this process, and
    ``busy_seconds`` their wall time.
    """

    workers: int
    cpu_seconds: float
    busy_seconds: float

    def __enter__(self) -> Engine: ...

    def __exit__(self, *_: object) -> None: ...

    def equip(self, search: IdentifierSearch) -> None:
        """Give every worker the identifier search of the audit."""

    def map(
        self,
        task: Task[Item, Result],
        batches: Iterable[Sequence[Item]],
        *,
        isolate: bool = False,
        ordered: bool = True,
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        """Yield one result per batch; if a batch's workers crashed, one result per item.

        Parameters
        ----------
        task : callable
            A module-level function; called with the worker (in a run, a ``Worker``) and one batch.
        batches : iterable of sequences
            Consumed only a few batches ahead.
        isolate : bool
            Never run the task in this process, for native decoders that may crash.
        ordered : bool
            Yield results in the order of the batches. Otherwise they are yielded as they are finished, so
            that no worker waits for a slow batch of another one; those of one worker stay in order.
        """
        ...


class LocalEngine:
    """Runs tasks in ``workers`` processes; one worker means this process itself.

    Worker processes require ``inputs`` to be unchanged; for reads in this process, the caller does so.
    """

    def __init__(
        self, setup: WorkerFactory, workers: int, cancellation: Cancellation, inputs: Sequence[Root] = ()
    ) -> None:
        self.workers = workers
        self.cpu_seconds = self.busy_seconds = 0.0
        self._setup = setup
        self._stop = cancellation
        self._inputs = tuple(inputs)
        self._local = setup.worker()
        self._pool: ProcessPoolExecutor | None = None
        self._wanted: tuple[Connection, ...] = ()
        self._crashes_in_a_row = 0

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._shut_down()
        del self._setup, self._local

    def equip(self, search: IdentifierSearch) -> None:
        """Give every worker the identifier search; running workers are replaced."""
        self._shut_down()
        if not isinstance(self._setup, Setup):
            raise TypeError("only a run's workers have an audit's net")
        self._setup = replace(self._setup, search=search)
        self._local = self._setup.worker()

    def map(
        self,
        task: Task[Item, Result],
        batches: Iterable[Sequence[Item]],
        *,
        isolate: bool = False,
        ordered: bool = True,
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        """Yield one result per batch; see ``Engine.map``."""
        # In process only if a crash is not to be expected: it would end the run.
        if self.workers == 1 and not isolate:
            for batch in batches:
                self._stop.check()
                yield task(self._local, _CancellableBatch(batch, self._stop.check))
            return
        yield from self._in_pool(task, iter(batches), ordered=ordered)

    def _in_pool(
        self, task: Task[Item, Result], batches: Iterator[Sequence[Item]], *, ordered: bool
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        running: deque[tuple[Sequence[Item], Future[_Answer[Result]]]] = deque()
        more = True
        while more or running:
            self._stop.check()
            # One batch ahead per worker keeps workers busy while the results are stored.
            while more and len(running) < 2 * self.workers + 1:
                batch = next(batches, None)
                if batch is None:
                    more = False
                else:
                    running.append((batch, self._submit(task, batch)))
            if not running:
                return
            index = 0 if ordered else self._wait_for_any([future for _, future in running])
            batch, future = running[index]
            del running[index]
            try:
                result = self._wait_for_result(future)
            except BrokenProcessPool:
                # The pool does not report which worker crashed, so every submitted batch is suspect.
                self._shut_down()
                waiting = [batch, *(later for later, _ in running)]
                running.clear()
                for one in waiting:
                    yield from self._one_at_a_time(task, one)
                continue
            yield result

    def _one_at_a_time(
        self, task: Task[Item, Result], batch: Sequence[Item]
    ) -> Iterator[Result | WorkerCrashed[Item]]:
        for item in batch:
            self._stop.check()
            # Twice, since the first crash may have had another cause, such as memory.
            for attempt in (1, 2):
                try:
                    result = self._wait_for_result(self._submit(task, [item]))
                except BrokenProcessPool:
                    # A broken pool takes no more work; workers that do not crash are kept for the next item.
                    self._shut_down()
                    if attempt == 2:
                        self._count_crash()
                        yield WorkerCrashed(item)
                    continue
                self._crashes_in_a_row = 0
                yield result
                break

    def _wait_for_result(self, future: Future[_Answer[Result]]) -> Result:
        """Wait for a batch's result."""
        self._wait_for_any([future])
        answer = future.result()
        self.cpu_seconds += answer.cpu
        self.busy_seconds += answer.wall
        return answer.result

    def _wait_for_any(self, submitted: Sequence[Future[_Answer[Result]]]) -> int:
        """Wait for a batch to end, checking for cancellation; return the index of the first that has."""
        ended = False
        # One look at all of them: a worker's results are then taken in the order in which it made them.
        while not (done := futures.wait(submitted, _POLL_SECONDS, futures.FIRST_COMPLETED).done):
            self._stop.check()
            if self._pool is not None:
                kept = _pool_internals(self._pool)
                # A pool reports a dead worker at once, unless it is reading that worker's message.
                if ended:
                    kept.end()
                ended = bool(wait([process.sentinel for process in kept.processes()], 0))
        return next(index for index, future in enumerate(submitted) if future in done)

    def _count_crash(self) -> None:
        """Give up after many crashes in a row: then memory is the likely cause, not the items."""
        self._crashes_in_a_row += 1
        if self._crashes_in_a_row == MAX_CONSECUTIVE_CRASHES:
            raise EnvironmentFailure(
                "Worker processes keep crashing",
                "Use fewer workers or more memory, then run the same command again",
            )

    def _submit(self, task: Task[Item, Result], batch: Sequence[Item]) -> Future[_Answer[Result]]:
        try:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool.submit(_call, task, batch)
        # The pool broke before the batch was sent; handled like a crash during it.
        except BrokenProcessPool as error:
            broken: Future[_Answer[Result]] = Future()
            broken.set_exception(error)
            return broken
        except (EOFError, OSError):
            # The forkserver may have been killed.
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

    def _shut_down(self) -> None:
        """End the workers; each may finish its current item."""
        if self._pool is None:
            return
        # Closing this end is how workers learn that nothing more is wanted.
        self._wanted[1].close()
        # shutdown(wait=True) would close the same resources concurrently; they are closed here.
        kept = _pool_internals(self._pool)
        # From Python 3.12 on, shutdown waits for a lock that a broken pool holds until its workers end.
        quietly = {"wait": False, "cancel_futures": True}
        asking = threading.Thread(target=self._pool.shutdown, kwargs=quietly)
        asking.start()
        for one in (asking, kept.manager):
            while one is not None and one.is_alive():
                if self._pool._broken or any(process.exitcode for process in kept.processes()):
                    kept.end()
                one.join(_POLL_SECONDS)
        kept.answers.close()
        self._wanted[0].close()
        self._pool = None


@dataclass(frozen=True, slots=True)
class _PoolInternals:
    """Private parts of a pool that its API does not expose and that it drops on shutdown.

    ``workers`` are its processes by PID, ``answers`` is its result queue, and ``manager`` the thread that
    reads it.
    """

    workers: Mapping[int, BaseProcess]
    answers: Any
    manager: threading.Thread | None

    def processes(self) -> Sequence[BaseProcess]:
        """List the current workers; exit code 0 is a regular end, any other a kill or crash."""
        return tuple(self.workers.values())

    def end(self) -> None:
        """Kill the remaining workers of a pool, which misses a crash while it reads a partial message."""
        # A worker that waits for a lock held by a killed one would wait forever.
        for process in self.processes():
            if process.is_alive():
                process.kill()
        self.answers._writer.close()  # ends the wait for the rest of a partial message


def _pool_internals(pool: Any) -> _PoolInternals:
    """Return the private parts of a ``ProcessPoolExecutor`` that was not shut down."""
    return _PoolInternals(pool._processes, pool._result_queue, pool._executor_manager_thread)
