"""Partial files: written in a folder of their own within staging, and renamed when complete.

A worker that crashes therefore leaves nothing in the staged release. Only the main process creates the
folder: a worker that comes too late does not find it and writes nothing.
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
    """Create the folder for partial files."""
    with storage_errors():
        # mode 0700: nothing in it has been audited.
        (staging / PARTIAL_FOLDER).mkdir(mode=0o700, exist_ok=True)


def remove_partial_folder(staging: Path) -> None:
    """Delete the folder, with what crashed workers left in it."""
    left = staging / f"{PARTIAL_FOLDER}-left"
    with storage_errors(), suppress(FileNotFoundError):
        shutil.rmtree(left, ignore_errors=True)
        (staging / PARTIAL_FOLDER).replace(left)  # renamed first: a late worker can no longer add files
        shutil.rmtree(left)


def remove_partial_files(staging: Path, number: int) -> None:
    """Delete the partial files of one object, after its workers crashed."""
    with storage_errors():
        for left in (staging / PARTIAL_FOLDER).glob(f"{number}.*"):
            left.unlink(missing_ok=True)


class PartialFiles:
    """The partial files of one object; ``place`` renames them all.

    Parameters
    ----------
    worker : Worker
        The worker that writes them.
    staging : Path
        The staging folder.
    number : int
        The object's row.
    """

    def __init__(self, worker: Worker, staging: Path, number: int) -> None:
        self._worker = worker
        # Two workers may process one object if one is assumed lost; the token keeps their files apart.
        self._stem = f"{staging}/{PARTIAL_FOLDER}/{number}.{worker.token}"
        self._targets: list[tuple[str, str]] = []

    def begin(self, target: str) -> int:
        """Open a partial file for ``target`` and return its descriptor."""
        name = f"{self._stem}.{len(self._targets)}"
        self._targets.append((name, target))
        # O_NOFOLLOW: another process must not redirect the output by a link.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with _present():
            return os.open(name, flags, 0o644)

    def place(self) -> None:
        """Rename every file to its target, creating missing folders."""
        with storage_errors(), _present():
            for name, target in self._targets:
                self._worker.ensure_folder(target.rpartition("/")[0])
                # os.replace is atomic within one file system, so a name always refers to a complete file.
                os.replace(name, target)

    def drop(self) -> None:
        """Delete the partial files that were not renamed."""
        for name, _ in self._targets:
            with suppress(OSError):
                os.unlink(name)


@contextmanager
def partial_files(worker: Worker, number: int) -> Iterator[PartialFiles | None]:
    """Provide the partial files of an object, deleted if the block fails; None if nothing is written."""
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
