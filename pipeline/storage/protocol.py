"""What a place that sources are read from must be able to do: list what it holds, and open one of it."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

LARGE = 8 * 2**20
"""Bytes above which a source is mapped instead of held in memory."""

Content = bytes | mmap.mmap

Version = tuple[int, int, int]
"""What changes when a source is changed: mtime ns, ctime ns and inode of a local file; of an object in a
store a digest of its ETag or version, its time of change in ns, and 0."""


@dataclass(frozen=True, slots=True, repr=False)
class SourceEntry:
    """One thing found in the inputs.

    ``path`` is where it lies: a local path, or a URL. ``sort`` is ``file``, ``link``, ``special`` (never
    opened), ``unlisted`` (a folder that cannot be listed, so what it holds is unknown, or of a slide of
    several files what cannot be told from others because its description cannot be read), ``absent`` (asked
    for by name, and not there) or ``short`` (a list of a PACS that holds less than it says). ``times`` is its
    version, or ``UNSEEN``. ``parts`` are the further files of a slide of several files; ``near_slide`` says
    that it may be of a slide beside it: in a store by its name, and where such a description cannot be read.
    """

    path: bytes
    sort: str
    size: int = 0
    times: Version = (0, 0, 0)
    parts: tuple[SourceEntry, ...] = ()
    near_slide: bool = False

    @property
    def files(self) -> tuple[SourceEntry, ...]:
        """The thing itself and its parts."""
        return (self, *self.parts)

    def __repr__(self) -> str:
        return "Found(...)"


@dataclass(frozen=True, slots=True, repr=False)
class OpenedSource:
    """One source, open: its whole content, its size in bytes, and its version as the walk states it."""

    content: Content
    size: int
    version: Version

    def __repr__(self) -> str:
        return "Opened(...)"


UNSEEN: Version = (-1, -1, -1)
"""Of what a PACS lists: size and version are known once it has been opened."""


class SourceProblem(Exception):
    """A source cannot be read; ``rule`` says why. Carries no name and no value."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


class Reader(Protocol):
    """A place that sources are read from. One process has one reader a place."""

    def walk(self, root: bytes) -> Iterator[SourceEntry]:
        """Yield everything below ``root``, in the byte order of names, folders not included.

        Raises
        ------
        EnvironmentFailure
            The place cannot be reached, after every retry.
        """

    def opened(self, path: bytes) -> AbstractContextManager[OpenedSource]:
        """Give one source's content while the context lasts.

        Raises
        ------
        SourceProblem
            ``unreadable`` or ``changed-since-inventory``: this source's own fault.
        EnvironmentFailure
            The place cannot be reached, after every retry.
        """
