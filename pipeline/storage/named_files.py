"""Temporary names for slides read from a store, for libraries that open files by path.

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
from medsanitize.pipeline.storage.protocol import Content
from medsanitize.pipeline.storage.spool import spool_folder, unnamed_file
from medsanitize.release.atomic_io import storage_errors

PREFIX: Final = ".slide-"
_DESCRIPTOR_FOLDER: Final = Path("/proc/self/fd")
_STEM: Final = b"slide"


@contextmanager
def named_files(paths: Sequence[bytes], contents: Sequence[Content]) -> Iterator[tuple[Path, ...]]:
    """Provide a path for every file of an opened slide within a context; local files keep their own.

    Raises
    ------
    EnvironmentFailure
        The disk is full, or the system is not Linux and cannot link to unnamed files.
    """
    if paths[0].startswith(b"/"):
        yield tuple(Path(os.fsdecode(path)) for path in paths)
        return
    if not _DESCRIPTOR_FOLDER.is_dir():
        raise EnvironmentFailure(
            "Slides in a store can only be audited on Linux", "Copy them to a folder and give its path"
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
            link.symlink_to(_DESCRIPTOR_FOLDER / str(file.fileno()))
        yield tuple(links)


def remove_links(folder: Path) -> None:
    """Remove the links that a killed run left in a folder."""
    with storage_errors():
        for path in folder.glob(f"{PREFIX}*"):
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
