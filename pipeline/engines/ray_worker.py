"""What runs in a worker of a cluster: it keeps one worker, models and all, and answers calls, sealed.

Nothing that it raises reaches the cluster, which would write it into its logs: answers say what was raised.
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
    """What a worker is given: the setup, and the local inputs as the run sees them."""

    setup: Setup
    inputs: tuple[Root, ...]
    home: str | None = None
    """The user's home, where a cluster of our own was started with another."""

    def __repr__(self) -> str:
        return "Kit(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """What a call gave, or what it raised, and the processor time that it took."""

    result: Any = None
    raised: BaseException | None = None
    cpu: float = 0.0

    def __repr__(self) -> str:
        return "Answer(...)"


class RayWorker:
    """One worker process. Its methods are called from afar, one at a time."""

    def __init__(self) -> None:
        from medsanitize.pipeline.engines.base import silence_output

        silence_output()
        self._invitation = WorkerKeyPair()
        self._channel: EncryptedChannel | None = None
        self._worker: Any = None

    def hello(self) -> tuple[bytes, str]:
        """The public half of this process's keys, and its version of medsanitize."""
        return self._invitation.public, __version__

    def equip(self, wrapped: bytes, kit: bytes, mark: str) -> bytes:
        """Take the session key and the kit; make the worker, and leave ``mark`` where files are staged."""
        self._channel = self._invitation.channel(wrapped)
        given: WorkerPayload = self._channel.open(kit)
        if given.home is not None:
            os.environ["HOME"] = given.home  # credentials of stores are in it

        def settle() -> None:
            _require_likeness(given)
            if mark and given.setup.staging is not None:
                write_probe(given.setup.staging, mark)
            self._worker = given.setup.worker()
            gc.freeze()  # what was imported stays: looking through it again would cost more than it frees

        return self._answer(settle)

    def call(self, sealed: bytes) -> bytes:
        """Run a task over a batch."""
        if self._channel is None:
            raise RuntimeError("a worker was called before it was equipped")
        task, batch = self._channel.open(sealed)
        return self._answer(lambda: task(self._worker, batch))

    def _answer(self, work: Callable[[], Any]) -> bytes:
        assert self._channel is not None  # noqa: S101
        before = time.process_time()
        try:
            answer = Answer(work(), cpu=time.process_time() - before)
        except MedsanitizeError as error:
            answer = Answer(raised=error)
        except MemoryError:
            answer = Answer(raised=MemoryError())
        except Exception as error:  # noqa: BLE001  what it says could quote a value, and goes no further
            answer = Answer(raised=RuntimeError(f"a task raised {type(error).__name__}"))
        return self._channel.close(answer)


def _require_likeness(kit: WorkerPayload) -> None:
    """Make sure that the node has and sees what the run has and sees."""
    from medsanitize.pipeline.runtime.optional_dependencies import check_extras

    try:
        check_extras(kit.setup.policy)
    except MedsanitizeError as error:
        raise EnvironmentFailure(
            f"A node of the cluster is not like this machine: {error.what}", error.remedy
        ) from None
    require_inputs(kit.inputs)
