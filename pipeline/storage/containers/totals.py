"""Counts over an outermost container and all containers in it: a bomb may be nested in harmless layers.

The counts are a file beside the unpacked files, to which every process appends. Whether a sum exceeds its
limit does not depend on the order in which containers are unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from medsanitize.pipeline.storage.containers.address import depth_of, outermost
from medsanitize.pipeline.storage.containers.unpacking import ContainerProblem, Member, total_bytes
from medsanitize.policies.other_files import ContainerLimits
from medsanitize.release.atomic_io import storage_errors

TOTAL_EXCEEDED: Final = "container-total-exceeded"
"""Rule of a container in a container that exceeds the limits of the outermost one; no run ends with it."""
_OVER: Final = "over"


@dataclass(slots=True)
class _Total:
    """What a process has read of one file of counts."""

    inode: int
    read: int = 0
    seen: set[str] = field(default_factory=set)
    outer: int = 0
    bytes: int = 0
    members: int = 0
    over: bool = False

    def add(self, row: Sequence[str]) -> None:
        """Count one line: a container unpacked again is counted once."""
        if row[0] == _OVER:
            self.over = True
        elif row[0] not in self.seen:
            self.seen.add(row[0])
            depth, packed, size, members = map(int, row[1:])
            self.outer = self.outer if depth else packed
            self.bytes += size
            self.members += members


# One per outermost container that is being unpacked: reading all lines for each container would be slow.
_totals: dict[Path, _Total] = {}


def require_within_total(folder: Path, container: bytes) -> None:
    """Refuse a container in one whose limits are exceeded already.

    Raises
    ------
    ContainerProblem
        ``container-total-exceeded``.
    """
    if depth_of(container) and _total(_file(folder, container)).over:
        raise ContainerProblem(TOTAL_EXCEEDED)


def add_to_total(
    folder: Path, container: bytes, packed: int, members: Sequence[Member], limits: ContainerLimits
) -> None:
    """Count an unpacked container of ``packed`` bytes.

    Raises
    ------
    ContainerProblem
        ``container-total-exceeded``: with it, the outermost container exceeds the limits.
    """
    file, size = _file(folder, container), sum(one.size for one in members)
    _append(
        file, (sha256(container).hexdigest(), *map(str, (depth_of(container), packed, size, len(members))))
    )
    total = _total(file)
    allowed = total_bytes(limits, total.outer or packed)
    if depth_of(container) and (total.bytes > allowed or total.members > limits.members):
        _append(file, (_OVER,))
        raise ContainerProblem(TOTAL_EXCEEDED)


def _total(file: Path) -> _Total:
    """Return the counts in a file, of which only what is new is read."""
    try:
        with storage_errors(), file.open("rb") as lines:
            inode = os.fstat(lines.fileno()).st_ino
            found = _totals.get(file)
            if found is None or found.inode != inode:
                found = _totals[file] = _Total(inode)
            lines.seek(found.read)
            for line in lines:
                found.add(line.decode().split())
                found.read += len(line)
            return found
    except FileNotFoundError:
        return _Total(0)


def _file(folder: Path, container: bytes) -> Path:
    return folder / f"{sha256(outermost(container)).hexdigest()[:32]}.total"


def _append(file: Path, row: Sequence[str]) -> None:
    with storage_errors():
        # One write of a short line at the end of a file is never divided.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{' '.join(row)}\n".encode())
        finally:
            os.close(descriptor)
