"""The Ray actor: holds one worker and answers encrypted calls.

Its methods raise nothing, because the cluster would log it: answers contain the exception instead.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize import __version__
from medsanitize.errors import EnvironmentFailure, MedsanitizeError
from medsanitize.pipeline.engines.encrypted_channel import EncryptedChannel, WorkerKeyPair
from medsanitize.pipeline.engines.shared_storage import require_inputs, write_probe
from medsanitize.pipeline.storage.local import Root

if TYPE_CHECKING:
    from medsanitize.pipeline.engines.worker import Setup


@dataclass(frozen=True, slots=True, repr=False)
class WorkerPayload:
    """What a worker receives: the setup, and the local inputs as recorded by the run."""

    setup: Setup
    inputs: tuple[Root, ...]
    home: str | None = None
    """The user's home, if our own cluster was started with another one."""

    def __repr__(self) -> str:
        return "WorkerPayload(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The result of a call, or the exception that it raised, and its CPU and wall seconds."""

    result: Any = None
    raised: BaseException | None = None
    cpu: float = 0.0
    wall: float = 0.0

    def __repr__(self) -> str:
        return "Answer(...)"


class RayWorker:
    """One worker process; its methods are called remotely, one at a time."""

    def __init__(self) -> None:
        from medsanitize.pipeline.engines.base import silence_output

        silence_output()
        self._invitation = WorkerKeyPair()
        self._channel: EncryptedChannel | None = None
        self._worker: Any = None

    def hello(self) -> tuple[bytes, str]:
        """Return the public key of this process, and its version of medsanitize."""
        return self._invitation.public, __version__

    def equip(self, wrapped: bytes, kit: bytes, mark: str) -> bytes:
        """Receive session key and setup, create the worker, and write the probe file ``mark`` to staging."""
        self._channel = self._invitation.channel(wrapped)
        given: WorkerPayload = self._channel.open(kit)
        if given.home is not None:
            os.environ["HOME"] = given.home  # credentials of stores are read from it

        def settle() -> None:
            _require_same_environment(given)
            if mark and given.setup.staging is not None:
                write_probe(given.setup.staging, mark)
            self._worker = given.setup.worker()
            gc.freeze()  # imported objects are permanent; scanning them costs more than it frees

        return self._answer(settle)

    def call(self, sealed: bytes) -> bytes:
        """Run a task on a batch."""
        if self._channel is None:
            raise RuntimeError("a worker was called before it was equipped")
        task, batch = self._channel.open(sealed)
        return self._answer(lambda: task(self._worker, batch))

    def _answer(self, work: Callable[[], Any]) -> bytes:
        assert self._channel is not None  # noqa: S101
        cpu, wall = time.process_time(), time.monotonic()
        try:
            result = work()
            answer = Answer(result, cpu=time.process_time() - cpu, wall=time.monotonic() - wall)
        except MedsanitizeError as error:
            answer = Answer(raised=error)
        except MemoryError:
            # A new exception, without the traceback and arguments of the original.
            answer = Answer(raised=MemoryError())
        except Exception as error:  # noqa: BLE001  its text could quote a value: only the type is passed on
            answer = Answer(raised=RuntimeError(f"a task raised {type(error).__name__}"))
        return self._channel.close(answer)


def _require_same_environment(kit: WorkerPayload) -> None:
    """Check that the node has the libraries of the run and sees the same inputs."""
    from medsanitize.pipeline.runtime.optional_dependencies import check_extras

    try:
        check_extras(kit.setup.policy)
    except MedsanitizeError as error:
        raise EnvironmentFailure(
            f"A node of the cluster differs from this machine: {error.what}", error.remedy
        ) from None
    require_inputs(kit.inputs)
