"""Sources on local disk: sorted walk, links left alone, nothing but regular files ever opened."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from medsanitize.pipeline.slide_files import companions
from medsanitize.pipeline.stores.protocol import LARGE, Found, Opened, SourceProblem


class LocalReader:
    """The disks of this machine."""

    def walk(self, root: bytes) -> Iterator[Found]:
        """Yield everything below a folder, or a file alone."""
        return _walk(os.path.realpath(root))

    @contextmanager
    def opened(self, path: bytes) -> Iterator[Opened]:
        """Give a file's content, mapped when it is large."""
        descriptor = _open(path)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SourceProblem("changed-since-inventory")
            size = status.st_size
            yield Opened(_content(descriptor, size), size, _times(status))
        finally:
            os.close(descriptor)


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
        yield Found(path, "unlisted", 0, _times(status))
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
    return Found(path, sort, status.st_size, _times(status))


def _times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino


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
