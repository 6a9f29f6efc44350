"""Sources on local disk: sorted walk, links not followed, only regular files opened.

An input folder may be a mount that is lost during a run. A read error is attributed to a source only while
the inputs are unchanged.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.protocol import LARGE, OpenedSource, SourceEntry, SourceProblem
from medsanitize.pipeline.storage.slide_files import MAX_DESCRIPTION_BYTES, Slides, group_slide_files
from medsanitize.release.atomic_io import UNREACHABLE, storage_errors

# Errors of a machine that is short of resources; not the fault of a single file.
_RESOURCE_ERRORS: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
# Errors that mean that no regular file of that name exists.
_ABSENCE_ERRORS: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO))
# Eight entries suffice to recognize a folder, and a listing of millions would be slow.
_MAX_ENTRIES: Final = 8
# O_NONBLOCK: should a file be a FIFO, or have become one, opening it must not wait.
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


# -- identity of the inputs ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Root:
    """Identity of a local input: its path and inode, with the inodes of some of its entries.

    ``empty`` is set for a folder without entries.
    """

    path: bytes
    inode: int
    entries: tuple[tuple[bytes, int], ...] = ()
    empty: bool = False

    def __repr__(self) -> str:
        return "Root(...)"


# The pinned inputs of this process; while empty, nothing is checked.
_pinned: tuple[Root, ...] = ()


def local_root(path: bytes) -> Root:
    """Record the current identity of a local input.

    Raises
    ------
    EnvironmentFailure
        The input is unreachable.
    """
    names = []
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(path) as found:
                # Every ext4 file system has this folder, always with the same inode.
                names = [one.name for one in islice(found, _MAX_ENTRIES) if one.name != b"lost+found"]
    except OSError:
        raise input_unreachable() from None
    inodes = [(name, _inode(path + b"/" + name)) for name in names]
    entries = tuple((name, inode) for name, inode in inodes if inode is not None)
    return Root(path, status.st_ino, entries, empty=stat.S_ISDIR(status.st_mode) and not names)


def require_not_empty(roots: Sequence[Root]) -> None:
    """Reject empty input folders: a mount point without its mount is empty.

    Raises
    ------
    EnvironmentFailure
        An input is an empty folder.
    """
    if any(root.empty for root in roots):
        raise EnvironmentFailure(
            "An input folder is empty",
            "Check that it is mounted, or remove it from the policy, then run the same command again",
        )


def is_unchanged(root: Root) -> bool:
    """Report whether an input is still the one that was recorded.

    The root's inode alone is weak evidence because many file systems number theirs alike, so one entry must
    match as well. One is enough, since entries may have been replaced.
    """
    try:
        same = os.stat(root.path).st_ino == root.inode
    except OSError:
        return False
    if same and root.entries:
        return any(_inode(root.path + b"/" + name) == inode for name, inode in root.entries)
    return same


def pin_inputs(roots: Sequence[Root]) -> None:
    """Require from now on that the inputs this process reads are the recorded ones."""
    global _pinned
    _pinned = tuple(roots)


@contextmanager
def pinned_inputs(roots: Sequence[Root]) -> Iterator[None]:
    """Require within a context that the inputs this process reads are the recorded ones."""
    pin_inputs(roots)
    try:
        yield
    finally:
        pin_inputs(())


def require_pinned() -> None:
    """Check that the inputs are unchanged, before a failure is attributed to a source.

    Raises
    ------
    EnvironmentFailure
        An input is unreachable or has changed.
    """
    _require_same(_pinned)


def _require_same(roots: Sequence[Root]) -> None:
    if not all(map(is_unchanged, roots)):
        raise input_unreachable()


def input_unreachable() -> EnvironmentFailure:
    """Return the error for an input that is unreachable or has changed."""
    return EnvironmentFailure(
        "An input is unreachable, or has changed since the run began",
        "Check that it is mounted and readable, then run the same command again",
    )


def _inode(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def _raise_if_unavailable(failure: OSError) -> None:
    """Raise EnvironmentFailure for a failure of the machine or the mount instead of a single file."""
    if failure.errno in UNREACHABLE | _RESOURCE_ERRORS:
        with storage_errors():
            raise failure


# -- reading ------------------------------------------------------------------------------


class LocalReader:
    """Reader for local disks."""

    def walk(self, root: bytes) -> Iterator[SourceEntry]:
        """Yield every entry below a folder, or a single file; a pinned input must be unchanged."""
        # realpath once: the input itself may be a link, but nothing below it is followed.
        path = os.path.realpath(root)
        taken = next((one for one in _pinned if one.path == root), None) or local_root(path)
        require_not_empty((taken,))
        _require_same((taken,))
        # Checked again: a mount that was lost during the walk makes later folders look empty.
        yield from _walk(path, replace(taken, path=path))
        _require_same((taken,))

    @contextmanager
    def opened(self, path: bytes) -> Iterator[OpenedSource]:
        """Provide a file's content, memory-mapped if it is large."""
        descriptor = _open(path)
        try:
            # fstat of the open file, not stat of its name, which may be another file by now.
            status = _status(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SourceProblem("changed-since-inventory")
            size = status.st_size
            yield OpenedSource(_content(descriptor, size), size, _times(status))
        finally:
            os.close(descriptor)


def _walk(path: bytes, root: Root, taken: frozenset[bytes] = frozenset()) -> Iterator[SourceEntry]:
    """Walk one path; ``taken`` are paths relative to it that belong to a slide already found."""
    times = (0, 0, 0)
    try:
        status = os.lstat(path)
        times = _times(status)
        names = os.listdir(path) if stat.S_ISDIR(status.st_mode) else None
    except OSError as failure:
        _raise_if_unavailable(failure)
        if path == root.path or not is_unchanged(root):
            raise input_unreachable() from None
        yield SourceEntry(path, "unlisted", 0, times)
        return
    if names is None:
        yield _found(path, status)
        return
    # An input folder that is empty now was not empty when it was recorded.
    if path == root.path and not names:
        raise input_unreachable()
    yield from _walk_folder(path, sorted(names), root, taken)


def _walk_folder(
    path: bytes, names: Sequence[bytes], root: Root, taken: frozenset[bytes]
) -> Iterator[SourceEntry]:
    slides, parts = _slides(path, names)
    # Slide descriptions may be unreadable because the mount is lost.
    if slides.unread and not is_unchanged(root):
        raise input_unreachable()
    offset = len(path) + 1
    below: dict[bytes, set[bytes]] = {}
    for one in (*taken, *(part.path[offset:] for of_one in parts.values() for part in of_one)):
        head, _, rest = one.partition(b"/")
        below.setdefault(head, set()).add(rest)
    for name in names:
        inside = frozenset(below.get(name, ()))
        if b"" in inside:
            continue
        if name in slides.unread:
            yield SourceEntry(path + b"/" + name, "unlisted")
            continue
        found = _walk(path + b"/" + name, root, inside)
        if name in parts:
            found = (replace(one, parts=parts[name]) for one in found)
        elif slides.unread:  # fail closed: any picture may be a label of the unreadable slide
            found = (
                replace(one, near_slide=one.near_slide or one.path.rpartition(b"/")[0] == path)
                for one in found
            )
        yield from found


def _slides(folder: bytes, names: Sequence[bytes]) -> tuple[Slides, dict[bytes, tuple[SourceEntry, ...]]]:
    """Find the slides of a folder, and the further files of each."""
    slides, found, failed = group_slide_files(folder, names, _LocalFolders()), {}, set()
    for main, others in slides.parts.items():
        try:
            found[main] = _parts(folder, others)
        except SourceProblem:
            failed.add(main)
    return slides.less(failed), found


def _parts(folder: bytes, names: Sequence[bytes]) -> tuple[SourceEntry, ...]:
    """Return the regular files among a slide's companions; other entries get outcomes of their own."""
    parts = []
    for name in names:
        path = folder + b"/" + name
        try:
            found = _found(path, os.lstat(path))
        except OSError as failure:
            _raise_if_unavailable(failure)
            raise SourceProblem("unreadable") from None  # it was listed, so it is not simply absent
        if found.sort == "file":
            parts.append(found)
    return tuple(parts)


class _LocalFolders:
    """Reads slide descriptions from local disk."""

    def read(self, path: bytes) -> bytes | None:
        """Read the beginning of a regular file, without following links."""
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as failure:
            _require_absent(failure)
            return None
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return os.read(descriptor, MAX_DESCRIPTION_BYTES + 1) if is_file else None
        except OSError as failure:
            _raise_if_unavailable(failure)
            raise SourceProblem("unreadable") from None
        finally:
            os.close(descriptor)

    def names(self, folder: bytes) -> list[bytes]:
        """List the names in a folder."""
        try:
            return os.listdir(folder)
        except OSError as failure:
            _require_absent(failure)
            return []


def _require_absent(failure: OSError) -> None:
    """Return if the name does not exist; raise if it exists but cannot be read now."""
    if failure.errno not in _ABSENCE_ERRORS:
        _raise_if_unavailable(failure)
        raise SourceProblem("unreadable")


def _found(path: bytes, status: os.stat_result) -> SourceEntry:
    mode = status.st_mode
    sort = "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else "special"
    return SourceEntry(path, sort, status.st_size, _times(status))


def _times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _open(path: bytes) -> int:
    try:
        return os.open(path, _FLAGS)
    except OSError as failure:
        _raise_if_unavailable(failure)
        raise SourceProblem("unreadable") from None


def _status(descriptor: int) -> os.stat_result:
    try:
        return os.fstat(descriptor)
    except OSError as failure:
        _raise_if_unavailable(failure)
        raise SourceProblem("unreadable") from None


def _content(descriptor: int, size: int) -> bytes | mmap.mmap:
    try:
        if size > LARGE:
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        parts = []
        # One byte more than stated, so that a file that has grown is noticed.
        left = size + 1
        while left > 0 and (part := os.read(descriptor, left)):
            parts.append(part)
            left -= len(part)
    except OSError as failure:
        _raise_if_unavailable(failure)
        raise SourceProblem("unreadable") from None
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    if len(content) != size:
        raise SourceProblem("changed-since-inventory")
    return content
