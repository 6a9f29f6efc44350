"""Reader for files in containers, which are unpacked once, below a folder that only the owner may read.

The folder is a cache: what is missing in it is unpacked again from the source. A container that changed in
between gives its files another version, so that they are no longer those of the inventory.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from multiprocessing.util import Finalize
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from medsanitize.pipeline.storage.containers.address import container_and_name, depth_of, shown
from medsanitize.pipeline.storage.containers.members import entries_of_members
from medsanitize.pipeline.storage.containers.totals import add_to_total, require_within_total
from medsanitize.pipeline.storage.containers.unpack import unpack
from medsanitize.pipeline.storage.containers.unpacking import ContainerProblem, Member, stored_name
from medsanitize.pipeline.storage.local import LocalReader
from medsanitize.pipeline.storage.protocol import (
    Content,
    OpenedSource,
    Reader,
    SourceEntry,
    SourceProblem,
    Version,
)
from medsanitize.pipeline.storage.spool import spool_folder
from medsanitize.policies.other_files import ContainerLimits
from medsanitize.release.atomic_io import storage_errors

PREFIX: Final = ".members-"
_INDEX: Final = "index"
_MARK: Final = "mark"

_folder: Path | None = None
_limits = ContainerLimits()


def set_container_folder(folder: Path | None, limits: ContainerLimits) -> None:
    """Set where containers are unpacked (None: a temporary folder of this process), and their limits."""
    global _folder, _limits
    _folder, _limits = folder, limits


def remove_unpacked(*folders: Path) -> None:
    """Remove folders with unpacked files."""
    with storage_errors():
        for folder in folders:
            if folder.exists():
                shutil.rmtree(folder)


def open_container(found: SourceEntry, content: Content) -> None:
    """Unpack a container, unless its files are there already.

    Parameters
    ----------
    found : SourceEntry
        The container as the inventory found it.
    content : bytes or mmap
        Its content.

    Raises
    ------
    SourceProblem
        The rule by which the container is quarantined.
    EnvironmentFailure
        The disk is full or fails.
    """
    if depth_of(found.path) >= _limits.depth:
        raise SourceProblem("container-too-deep")
    with _alone(_place(found.path)):
        _unpack_into_place(found.path, content, _mark(found.size, found.times))


class ContainerReader:
    """Reader for files in containers; ``reader_of`` returns the reader of a container's own address."""

    def __init__(self, reader_of: Callable[[bytes], Reader]) -> None:
        self._reader_of = reader_of

    def walk(self, root: bytes) -> Iterator[SourceEntry]:
        """Yield the files of one container in the byte order of names, grouped to slides."""
        place = self._unpacked(root)
        with storage_errors():
            rows = json.loads((place / _INDEX).read_text("ascii"))
        members = [Member(name.encode("latin-1"), size, rule) for name, size, rule in rows]
        yield from entries_of_members(root, members, place, _version(place))

    @contextmanager
    def opened(self, path: bytes) -> Iterator[OpenedSource]:
        """Provide the content of one file."""
        container, name = container_and_name(path)
        place = self._unpacked(container)
        with LocalReader().opened(os.fsencode(place / stored_name(name))) as file:
            yield OpenedSource(file.content, file.size, _version(place))

    def _unpacked(self, container: bytes) -> Path:
        """Return the folder of a container's files, which are unpacked again if they are missing."""
        place = _place(container)
        if not (place / _MARK).exists():
            # Other workers that miss the same container wait instead of unpacking it as well.
            with _alone(place):
                if not (place / _MARK).exists():
                    with self._reader_of(container).opened(container) as one:
                        _unpack_into_place(container, one.content, _mark(one.size, one.version))
        return place


def _unpack_into_place(container: bytes, content: Content, mark: str) -> None:
    place = _place(container)
    if _has_mark(place, mark):
        return
    draft = _root() / f".{secrets.token_hex(8)}"
    with storage_errors():
        draft.mkdir(mode=0o700)
    try:
        require_within_total(_root(), container)
        members = unpack(content, shown(container).rpartition(b"/")[2], draft, _limits)
        add_to_total(_root(), container, len(content), members, _limits)
        rows = [(one.name.decode("latin-1"), one.size, one.rule) for one in members]
        with storage_errors():
            _write(draft / _INDEX, json.dumps(rows))
            _write(draft / _MARK, mark)
            _rename(draft, place, mark)
    except ContainerProblem as problem:
        raise SourceProblem(problem.rule) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, "ascii")


def _has_mark(place: Path, mark: str) -> bool:
    with suppress(FileNotFoundError), storage_errors():
        return (place / _MARK).read_text("ascii") == mark
    return False


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Let one process at a time unpack a container."""
    with storage_errors():
        descriptor = os.open(f"{place}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        # Some network file systems have no locks: then it is unpacked more than once.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _rename(draft: Path, place: Path, mark: str) -> None:
    """Give a complete folder its name; files of an earlier version of the container are replaced."""
    # Another process may have unpacked the same version in the meantime, and read it already.
    if place.exists() and not _has_mark(place, mark):
        shutil.rmtree(place)
    try:
        draft.rename(place)
    except OSError as failure:
        if failure.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _place(container: bytes) -> Path:
    return _root() / sha256(container).hexdigest()[:32]


def _root() -> Path:
    """Return the folder of all containers; on a machine without the state folder, a temporary one."""
    if _folder is not None:
        with suppress(OSError):
            _folder.mkdir(mode=0o700, exist_ok=True)
            return _folder
    return _temporary()


@cache
def _temporary() -> Path:
    folder = Path(mkdtemp(prefix=PREFIX, dir=spool_folder()))
    # Unlike `atexit`, this also runs when a worker process ends.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return folder


def _mark(size: int, version: Version) -> str:
    return ":".join(map(str, (size, *version)))


def _version(place: Path) -> Version:
    """Return the version of a container's files: that of the container."""
    with storage_errors():
        mark = (place / _MARK).read_bytes()
    return int.from_bytes(sha256(mark).digest()[:8], "big"), 0, 0
