"""The protocol of source readers: list the files of an input, and open one of them."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

# Sources above this size (bytes) are memory-mapped instead of read into memory.
LARGE = 8 * 2**20

Content = bytes | mmap.mmap

# Version of a source; it changes when the source changes. Local file: mtime (ns), ctime (ns) and inode.
# Object in a store: digest of its ETag or generation, time of last modification (ns), and 0.
Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True, repr=False)
class SourceEntry:
    """One entry found in the inputs.

    Attributes
    ----------
    path : bytes
        Local path or URL.
    sort : str
        Kind of the entry: ``file``; ``link`` or ``special`` (never opened); ``unlisted`` (a folder that
        cannot be listed, or a multi-file slide whose description cannot be read, so its content is unknown);
        ``absent`` (requested by name, but missing); ``short`` (a PACS returned fewer objects than it
        announced).
    size : int
        Size in bytes.
    times : Version
        Version of the file, or ``UNKNOWN_VERSION``.
    parts : tuple of SourceEntry
        The further files of a multi-file slide.
    near_slide : bool
        Whether the file may belong to a slide in the same folder: by its name (stores only), or because a
        slide description in the folder cannot be read.
    """

    path: bytes
    sort: str
    size: int = 0
    times: Version = (0, 0, 0)
    parts: tuple[SourceEntry, ...] = ()
    near_slide: bool = False

    @property
    def files(self) -> tuple[SourceEntry, ...]:
        """The main file and its parts."""
        return (self, *self.parts)

    def __repr__(self) -> str:
        return "SourceEntry(...)"


@dataclass(frozen=True, slots=True, repr=False)
class OpenedSource:
    """An opened source: its complete content, its size in bytes and its version."""

    content: Content
    size: int
    version: Version

    def __repr__(self) -> str:
        return "OpenedSource(...)"


# Version of a PACS object before it is opened: a query returns neither size nor version.
UNKNOWN_VERSION: Version = (-1, -1, -1)


class SourceProblem(Exception):
    """A source cannot be read.

    ``rule`` is the reason; the exception carries no name and no value.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


class Reader(Protocol):
    """Reads the sources of one kind of location. A process has one reader per location."""

    def walk(self, root: bytes) -> Iterator[SourceEntry]:
        """Yield every entry below ``root``, in the byte order of names, without folders.

        Raises
        ------
        EnvironmentFailure
            The location is unreachable after all retries.
        """

    def opened(self, path: bytes) -> AbstractContextManager[OpenedSource]:
        """Provide the content of one source within a context.

        Raises
        ------
        SourceProblem
            ``unreadable`` or ``changed-since-inventory``: only this source is affected.
        EnvironmentFailure
            The location is unreachable after all retries.
        """
