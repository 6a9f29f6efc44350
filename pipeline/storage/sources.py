"""Reading of sources wherever they are stored; what is opened must be what the inventory found."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.storage.local import require_pinned
from medsanitize.pipeline.storage.open_store import reader_of
from medsanitize.pipeline.storage.pacs.address import root_of
from medsanitize.pipeline.storage.protocol import (
    UNKNOWN_VERSION,
    OpenedSource,
    SourceEntry,
    SourceProblem,
    Version,
)
from medsanitize.policies.inputs import DicomWeb, Dimse

__all__ = [
    "SourceEntry",
    "SourceProblem",
    "address_of",
    "open_source",
    "open_source_files",
    "stamp",
    "stamp_of",
    "walk",
]

Input = str | Path | DicomWeb | Dimse


def walk(inputs: Sequence[Input]) -> Iterator[SourceEntry]:
    """Yield every entry below the inputs, in the byte order of names, without folders."""
    for root in inputs:
        address = address_of(root)
        yield from reader_of(address).walk(address)


def address_of(root: Input) -> bytes:
    """Return the address at which an input is read."""
    if isinstance(root, str):
        return root.encode()
    return os.path.abspath(os.fsencode(root)) if isinstance(root, Path) else root_of(root)


def stamp(seal: Seal, size: int, times: Version) -> bytes:
    """Compute a keyed digest of size and version, which changes when the source changes."""
    return seal.mark(f"{size}:{times[0]}:{times[1]}:{times[2]}")


def stamp_of(seal: Seal, found: SourceEntry) -> bytes:
    """Compute the stamp of an entry and all its parts."""
    return _stamp_of_all(seal, [(one.size, one.times) for one in found.files])


def _stamp_of_all(seal: Seal, files: Sequence[tuple[int, Version]]) -> bytes:
    if len(files) == 1:
        return stamp(seal, *files[0])
    return seal.mark(";".join(f"{size}:{times[0]}:{times[1]}:{times[2]}" for size, times in files))


@contextmanager
def open_source_files(
    paths: Sequence[bytes], seal: Seal, expected: bytes
) -> Iterator[tuple[bytes | mmap.mmap, ...]]:
    """Provide the content of all files of an object; together they must match the inventory.

    Parameters
    ----------
    paths : sequence of bytes
        Addresses of the files, the main one first.
    seal : Seal
        Encryption of the state, which computes the stamp.
    expected : bytes
        The stamp that the inventory recorded.

    Raises
    ------
    SourceProblem
        ``unreadable`` or ``changed-since-inventory``.
    EnvironmentFailure
        The location is unreachable, or an input has changed.
    """
    with ExitStack() as stack:
        try:
            files: list[OpenedSource] = [stack.enter_context(reader_of(path).opened(path)) for path in paths]
            if _stamp_of_all(seal, [(one.size, one.version) for one in files]) != expected:
                raise SourceProblem("changed-since-inventory")
        except SourceProblem:
            # A lost mount makes every source unreadable; that ends the run and is not blamed on the source.
            require_pinned()
            raise
        yield tuple(one.content for one in files)


@contextmanager
def open_new_source(
    found: SourceEntry, seal: Seal
) -> Iterator[tuple[tuple[bytes | mmap.mmap, ...], int, bytes]]:
    """Provide the content of an entry new to the inventory, its size in bytes, and its stamp from now on.

    Raises
    ------
    SourceProblem
        ``unreadable`` or ``changed-since-inventory``, or the rule that a PACS reader gives.
    EnvironmentFailure
        The location is unreachable.
    """
    # A PACS states no version before retrieval; what is retrieved first defines it.
    if found.times == UNKNOWN_VERSION:
        with reader_of(found.path).opened(found.path) as one:
            yield (one.content,), one.size, stamp(seal, one.size, one.version)
        return
    mark = stamp_of(seal, found)
    with open_source_files([one.path for one in found.files], seal, mark) as contents:
        yield contents, sum(one.size for one in found.files), mark


@contextmanager
def open_source(path: bytes, seal: Seal, expected: bytes) -> Iterator[bytes | mmap.mmap]:
    """Provide a source's content, memory-mapped if it is large; it must match the inventory.

    Raises
    ------
    SourceProblem
        ``unreadable`` or ``changed-since-inventory``.
    EnvironmentFailure
        The location is unreachable.
    """
    with open_source_files((path,), seal, expected) as contents:
        yield contents[0]
