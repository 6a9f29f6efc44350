"""Reading the sources: sorted walk, links left alone, nothing but regular files ever opened."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medsanitize.pipeline.sealing import Seal

LARGE = 8 * 2**20
"""Bytes above which a source is mapped instead of read."""


@dataclass(frozen=True, slots=True, repr=False)
class Found:
    """One thing found in the inputs.

    ``sort`` is ``file``, ``link``, ``special`` (never opened) or ``unlisted`` (a folder that cannot be
    listed, so what it holds is unknown). ``times`` are mtime and ctime in ns and the inode.
    """

    path: bytes
    sort: str
    size: int = 0
    times: tuple[int, int, int] = (0, 0, 0)

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


def _walk(path: bytes) -> Iterator[Found]:
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
    for name in names:
        yield from _walk(path + b"/" + name)


def _found(path: bytes, status: os.stat_result) -> Found:
    mode = status.st_mode
    sort = "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else "special"
    return Found(path, sort, status.st_size, (status.st_mtime_ns, status.st_ctime_ns, status.st_ino))


def stamp(seal: Seal, size: int, times: tuple[int, int, int]) -> bytes:
    """Keyed digest of what changes when a file is changed."""
    return seal.mark(f"{size}:{times[0]}:{times[1]}:{times[2]}")


@contextmanager
def opened(path: bytes, seal: Seal, expected: bytes) -> Iterator[bytes | mmap.mmap]:
    """Give a source's bytes, mapped when it is large; it must still be what the walk found.

    Raises
    ------
    SourceProblem
        ``unreadable`` or ``changed-since-inventory``.
    """
    try:
        # O_NONBLOCK: should the file have become a FIFO since the walk, opening it must not wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise SourceProblem("unreadable") from None
    try:
        status = os.fstat(descriptor)
        now = stamp(seal, status.st_size, (status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
        if not stat.S_ISREG(status.st_mode) or now != expected:
            raise SourceProblem("changed-since-inventory")
        yield _content(descriptor, status.st_size)
    finally:
        os.close(descriptor)


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
