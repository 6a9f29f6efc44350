"""Files that are being written: they lie apart in the staging folder, and get their names when whole.

So a worker that dies leaves nothing where the release is. The process that leads makes the folder, no other:
a worker that comes too late finds none, and puts nothing anywhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medsanitize.pipeline.engines.worker import Worker, staging_removed
from medsanitize.release.atomic_io import storage_errors

PARTIAL_FOLDER = ".part"


def make_partial_folder(staging: Path) -> None:
    """Make the folder for files that are being written."""
    with storage_errors():
        (staging / PARTIAL_FOLDER).mkdir(mode=0o700, exist_ok=True)


def remove_partial_folder(staging: Path) -> None:
    """Take the folder away, with what workers that died left in it."""
    left = staging / f"{PARTIAL_FOLDER}-left"
    with storage_errors(), suppress(FileNotFoundError):
        shutil.rmtree(left, ignore_errors=True)
        (staging / PARTIAL_FOLDER).replace(left)  # from here on a late worker cannot add to it
        shutil.rmtree(left)


def remove_partial_files(staging: Path, number: int) -> None:
    """Take away what workers left that died of one object."""
    with storage_errors():
        for left in (staging / PARTIAL_FOLDER).glob(f"{number}.*"):
            left.unlink(missing_ok=True)


class PartialFiles:
    """The files of one object, on their way: `place` gives them all their names.

    Parameters
    ----------
    number : int
        The object's row. Two workers may be at one object when one of them is taken for lost, so names of
        drafts are a worker's own.
    """

    def __init__(self, worker: Worker, staging: Path, number: int) -> None:
        self._worker = worker
        self._stem = f"{staging}/{PARTIAL_FOLDER}/{number}.{worker.token}"
        self._targets: list[tuple[str, str]] = []

    def begin(self, target: str) -> int:
        """Open a file that is to be ``target``; returns its descriptor."""
        name = f"{self._stem}.{len(self._targets)}"
        self._targets.append((name, target))
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with _present():
            return os.open(name, flags, 0o644)

    def place(self) -> None:
        """Give every file its name, in folders that are made where they are missing."""
        with storage_errors(), _present():
            for name, target in self._targets:
                self._worker.ensure_folder(target.rpartition("/")[0])
                os.replace(name, target)

    def drop(self) -> None:
        """Take away what has no name yet."""
        for name, _ in self._targets:
            with suppress(OSError):
                os.unlink(name)


@contextmanager
def partial_files(worker: Worker, number: int) -> Iterator[PartialFiles | None]:
    """The drafts of an object, which go if the block fails; None where nothing is written."""
    if worker.setup.staging is None:
        yield None
        return
    drafts = PartialFiles(worker, worker.setup.staging, number)
    try:
        yield drafts
    except BaseException:
        drafts.drop()
        raise


@contextmanager
def _present() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise staging_removed() from None
