"""Previews of objects in a process of their own: a picture that crashes a decoder does not end the desk."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

from medsanitize import Previewer, UsageError, staged_frame, staged_header

_SECONDS: Final = 120.0
_MOST_MEMORY: Final = 12 * 2**30
_KEPT: Final = 16

# Of the worker: the previewer of the policy that was used last, models and all.
_previewers: dict[tuple[str, int], Previewer] = {}


def make_preview(policy: str, changed: int, file: str) -> Any:
    """Preview one file, in the worker."""
    if (policy, changed) not in _previewers:
        _previewers.clear()
        _previewers[policy, changed] = Previewer(policy)
    return _previewers[policy, changed](file)


def _limit_memory() -> None:
    # A bomb ends the worker before it fills the machine.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))


@dataclass(slots=True, repr=False)
class Previews:
    """The worker that makes previews, and the last of them in memory."""

    _pool: ProcessPoolExecutor | None = None
    _made: OrderedDict[tuple[Path, int, Path], Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, policy: Path, file: Path) -> Any:
        """Return the preview of a file under a policy.

        Raises
        ------
        UsageError
            The worker crashed on it, or took too long.
        """
        key = (policy, policy.stat().st_mtime_ns, file)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(*key)
                while len(self._made) > _KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]

    def _make(self, policy: Path, changed: int, file: Path) -> Any:
        return self._call(make_preview, str(policy), changed, os.fspath(file))

    def frame(self, file: Path, frame: int | None, edge: int) -> Any:
        """Return a frame of a staged file.

        Raises
        ------
        UsageError
            It has no image, or the worker crashed on it.
        """
        with self._lock:
            return self._call(staged_frame, file, frame, edge=edge)

    def header(self, file: Path) -> Any:
        """Return the header of a staged file; empty for a picture file."""
        with self._lock:
            return self._call(staged_header, file)

    def _call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self._pool is None:
            context = multiprocessing.get_context("forkserver")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_limit_memory)
        try:
            return self._pool.submit(function, *arguments, **named).result(_SECONDS)
        except (BrokenProcessPool, TimeoutError, MemoryError):
            self.close()
            raise UsageError(
                "The object cannot be previewed: its process crashed or took too long",
                "A run quarantines such an object and goes on",
            ) from None

    def close(self) -> None:
        """End the worker."""
        pool, self._pool = self._pool, None
        if pool is not None:
            processes = list(pool._processes.values())
            pool.shutdown(wait=False, cancel_futures=True)
            # One that hangs does not end by itself.
            for process in processes:
                process.kill()
