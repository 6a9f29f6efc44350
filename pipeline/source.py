"""Reading the sources: sorted walk, links left alone, nothing but regular files ever opened."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from medsanitize.pipeline.sealing import Seal
from medsanitize.pipeline.slide_files import companions

LARGE = 8 * 2**20
"""Bytes above which a source is mapped instead of read."""


@dataclass(frozen=True, slots=True, repr=False)
class Found:
    """One thing found in the inputs.

    ``sort`` is ``file``, ``link``, ``special`` (never opened) or ``unlisted`` (a folder that cannot be
    listed, so what it holds is unknown). ``times`` are mtime and ctime in ns and the inode. ``parts`` are
    the further files of a slide of several files.
    """

    path: bytes
    sort: str
    size: int = 0
    times: tuple[int, int, int] = (0, 0, 0)
    parts: tuple[Found, ...] = ()

    @property
    def files(self) -> tuple[Found, ...]:
        """The thing itself and its parts."""
        return (self, *self.parts)

    def __repr__(self) -> str:
        return "Found(...)"


class SourceProblem(Exception):
    """A source cannot be read; ``rule`` says why. Carries no name and no value."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


def walk(inputs: tuple[Path, ...]) -> Iterator[Found]:
    """Yield everything below the inputs, in the byte order of names, folders not included."""
    for root in inputs:
        yield from _walk(os.path.realpath(os.fsencode(root)))


def _walk(path: bytes, taken: frozenset[bytes] = frozenset()) -> Iterator[Found]:
    """``taken`` are paths, relative to ``path``, that belong to a slide met before."""
    try:
        status = os.lstat(path)
    except OSError:
        yield Found(path, "unlisted")
        return
    if not stat.S_ISDIR(status.st_mode):
        yield _found(path, status)
        return
    try:
        names = os.listdir(path)
    except OSError:
        yield Found(path, "unlisted", 0, (status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
        return
    names.sort()
    slides = {main: _parts(path, named) for main, named in companions(path, names).items()}
    offset = len(path) + 1
    below: dict[bytes, set[bytes]] = {}
    for one in (*taken, *(part.path[offset:] for parts in slides.values() for part in parts)):
        head, _, rest = one.partition(b"/")
        below.setdefault(head, set()).add(rest)
    for name in names:
        inside = frozenset(below.get(name, ()))
        if b"" in inside:
            continue
        found = _walk(path + b"/" + name, inside)
        yield from (replace(one, parts=slides[name]) for one in found) if name in slides else found


def _parts(folder: bytes, names: Sequence[bytes]) -> tuple[Found, ...]:
    """The regular files among a slide's companions; what is none has its own outcome."""
    parts = []
    for name in names:
        path = folder + b"/" + name
        try:
            found = _found(path, os.lstat(path))
        except OSError:
            continue
        if found.sort == "file":
            parts.append(found)
    return tuple(parts)


def _found(path: bytes, status: os.stat_result) -> Found:
    mode = status.st_mode
    sort = "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else "special"
    return Found(path, sort, status.st_size, (status.st_mtime_ns, status.st_ctime_ns, status.st_ino))


def stamp(seal: Seal, size: int, times: tuple[int, int, int]) -> bytes:
    """Keyed digest of what changes when a file is changed."""
    return seal.mark(f"{size}:{times[0]}:{times[1]}:{times[2]}")


def stamp_of(seal: Seal, found: Found) -> bytes:
    """The stamp of a thing and all its parts."""
    return _stamp_of_all(seal, [(one.size, one.times) for one in found.files])


def _stamp_of_all(seal: Seal, files: Sequence[tuple[int, tuple[int, int, int]]]) -> bytes:
    if len(files) == 1:
        return stamp(seal, *files[0])
    return seal.mark(";".join(f"{size}:{times[0]}:{times[1]}:{times[2]}" for size, times in files))


@contextmanager
def opened_all(
    paths: Sequence[bytes], seal: Seal, expected: bytes
) -> Iterator[tuple[bytes | mmap.mmap, ...]]:
    """Give the bytes of all files of an object; together they must be what the walk found.

    Raises
    ------
    SourceProblem
        ``unreadable`` or ``changed-since-inventory``.
    """
    with ExitStack() as stack:
        files, marks = [], []
        for path in paths:
            descriptor = _open(path)
            stack.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SourceProblem("changed-since-inventory")
            files.append((descriptor, status.st_size))
            marks.append((status.st_size, (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)))
        if _stamp_of_all(seal, marks) != expected:
            raise SourceProblem("changed-since-inventory")
        yield tuple(_content(descriptor, size) for descriptor, size in files)


@contextmanager
def opened(path: bytes, seal: Seal, expected: bytes) -> Iterator[bytes | mmap.mmap]:
    """Give a source's bytes, mapped when it is large; it must still be what the walk found.

    Raises
    ------
    SourceProblem
        ``unreadable`` or ``changed-since-inventory``.
    """
    with opened_all((path,), seal, expected) as contents:
        yield contents[0]


def _open(path: bytes) -> int:
    try:
        # O_NONBLOCK: should the file have become a FIFO since the walk, opening it must not wait.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise SourceProblem("unreadable") from None


def _content(descriptor: int, size: int) -> bytes | mmap.mmap:
    try:
        if size > LARGE:
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        parts = []
        left = size + 1
        while left > 0 and (part := os.read(descriptor, left)):
            parts.append(part)
            left -= len(part)
    except OSError:
        raise SourceProblem("unreadable") from None
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    if len(content) != size:
        raise SourceProblem("changed-since-inventory")
    return content
