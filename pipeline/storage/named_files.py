"""Temporary names for files read from a store, for libraries and programs that open files by path.

The names are links to unnamed files: a killed run leaves only names on disk, no content.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.containers.reader import PREFIX as UNPACKED_PREFIX
from medsanitize.pipeline.storage.protocol import Content
from medsanitize.pipeline.storage.spool import spool_folder, unnamed_file
from medsanitize.release.atomic_io import storage_errors

PREFIX: Final = ".slide-"
_PROCESSES: Final = Path("/proc")
_STEM: Final = b"slide"


class CannotName(EnvironmentFailure):
    """The system cannot give unnamed files a name."""


@contextmanager
def named_files(paths: Sequence[bytes], contents: Sequence[Content]) -> Iterator[tuple[Path, ...]]:
    """Provide a path for every file of an opened source within a context; local files keep their own.

    Raises
    ------
    CannotName
        The system is not Linux and cannot link to unnamed files.
    EnvironmentFailure
        The disk is full.
    """
    if paths[0].startswith(b"/"):
        yield tuple(Path(os.fsdecode(path)) for path in paths)
        return
    # By process ID: in a program that this process starts, ``/proc/self`` would be that program.
    descriptors = _PROCESSES / str(os.getpid()) / "fd"
    if not descriptors.is_dir():
        raise CannotName(
            "Slides in a store or an archive can only be audited on Linux",
            "Copy them to a folder and give its path",
        )
    with ExitStack() as stack, storage_errors():
        folder = stack.enter_context(TemporaryDirectory(prefix=PREFIX, dir=spool_folder()))
        links = [Path(folder) / os.fsdecode(name) for name in _names(paths)]
        for link, content in zip(links, contents, strict=True):
            file = stack.enter_context(unnamed_file())
            file.write(content)
            file.flush()
            link.parent.mkdir(parents=True, exist_ok=True)
            # The content stays in an unnamed file, which the kernel removes however the process ends.
            link.symlink_to(descriptors / str(file.fileno()))
        yield tuple(links)


def remove_links(folder: Path) -> None:
    """Remove the links and unpacked files that a killed command left in a folder."""
    with storage_errors():
        for path in (*folder.glob(f"{PREFIX}*"), *folder.glob(f"{UNPACKED_PREFIX}*")):
            shutil.rmtree(path)


def _names(paths: Sequence[bytes]) -> Iterator[bytes]:
    """Yield names under which the slide's files find each other."""
    folder, _, main = paths[0].rpartition(b"/")
    stem, suffix = os.path.splitext(main)
    # The main file's own name can identify a patient; it is kept only where other files refer to it.
    yield _STEM + suffix
    for path in paths[1:]:
        name = path.removeprefix(folder + b"/")
        yield _STEM + name.removeprefix(stem) if name.startswith((stem + b"/", stem + b".")) else name
