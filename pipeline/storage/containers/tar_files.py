"""tar archives, by the standard library."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from typing import Final

from medsanitize.pipeline.storage.containers.buffer_file import BufferFile
from medsanitize.pipeline.storage.containers.unpacking import (
    BLOCK,
    ContainerProblem,
    MemberProblem,
    Unpacking,
)
from medsanitize.pipeline.storage.protocol import Content

_BLOCK: Final = 512


def unpack_tar(content: Content, into: Unpacking) -> None:
    """Unpack a tar archive.

    Raises
    ------
    ContainerProblem
        ``container-damaged``: the archive does not end as POSIX says.
    """
    with tarfile.open(
        fileobj=BufferFile(content), mode="r:", encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for entry in archive:
            name = os.fsencode(entry.name)
            if entry.isdir():
                continue
            if entry.isreg():
                into.store(name, _blocks(archive, entry))
            elif entry.islnk():
                # A second name of a file stored before: its content is the file's.
                into.store(name, into.blocks_of(os.fsencode(entry.linkname)))
            else:
                into.refuse(name, "member-link" if entry.issym() else "member-special")
            # tarfile keeps every header; an archive of a million files would fill the memory.
            archive.members = []  # type: ignore[attr-defined]
        _require_end(content, archive.offset)


def _blocks(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> Iterator[bytes]:
    file = archive.extractfile(entry)
    if file is None:
        raise MemberProblem("member-not-supported")
    while block := file.read(BLOCK):
        yield block


def _require_end(content: Content, end: int) -> None:
    """Require zeros from where tarfile stopped: it stops silently at a header that it cannot read."""
    if len(content) < end + _BLOCK:
        raise ContainerProblem("container-damaged")
    for start in range(end, len(content), BLOCK):
        if any(content[start : start + BLOCK]):
            raise ContainerProblem("container-damaged")
