"""Receives the files of one container: checks their names, counts against the limits, and stores them.

Names are only labels: a file is stored under a digest of its name, so that no name is ever used as a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from medsanitize.policies.other_files import ContainerLimits
from medsanitize.release.atomic_io import storage_errors

# Below this unpacked size, the ratio is not limited: a small container of zeros is no attack.
RATIO_FROM: Final = 64 * 2**20
BLOCK: Final = 2**20


class ContainerProblem(Exception):
    """A container is quarantined as a whole; ``rule`` is the reason."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


class MemberProblem(Exception):
    """One file of a container is quarantined; ``rule`` is the reason."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


@dataclass(frozen=True, slots=True, repr=False)
class Member:
    """One file of a container; ``rule`` quarantines it unread, or is empty."""

    name: bytes
    size: int = 0
    rule: str = ""

    def __repr__(self) -> str:
        return "Member(...)"


def total_bytes(limits: ContainerLimits, packed: int) -> int:
    """Return how many bytes a container of ``packed`` bytes may contain."""
    return min(limits.bytes, max(RATIO_FROM, limits.ratio * packed))


class Budget:
    """What may still be unpacked from a container of ``packed`` bytes."""

    def __init__(self, limits: ContainerLimits, packed: int) -> None:
        self._members = limits.members
        self._bytes = total_bytes(limits, packed)

    def take_member(self) -> None:
        """Count one file.

        Raises
        ------
        ContainerProblem
            There are more files than the policy allows.
        """
        self._members -= 1
        if self._members < 0:
            raise ContainerProblem("container-too-many-members")

    def take(self, size: int) -> None:
        """Count unpacked bytes.

        Raises
        ------
        ContainerProblem
            There are more bytes than the policy allows.
        """
        self._bytes -= size
        if self._bytes < 0:
            raise ContainerProblem("container-too-large")


class MemberFile:
    """A file of a container while it is written."""

    def __init__(self, path: Path, budget: Budget) -> None:
        self.size = 0
        self._budget = budget
        with storage_errors():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)

    def write(self, block: bytes) -> int:
        """Append a block."""
        self._budget.take(len(block))
        self.size += len(block)
        with storage_errors():
            left = memoryview(block)
            while left:
                left = left[os.write(self._descriptor, left) :]
        return len(block)

    def close(self) -> None:
        """Close the file."""
        with storage_errors():
            os.close(self._descriptor)


class Unpacking:
    """The files of one container, stored below ``folder``."""

    def __init__(self, folder: Path, budget: Budget) -> None:
        self.budget = budget
        self._folder = folder
        self._members: list[Member] = []
        self._stored: set[bytes] = set()
        self._twice: set[bytes] = set()

    def refuse(self, name: bytes, rule: str) -> None:
        """Record a file that is quarantined unread."""
        self.budget.take_member()
        self._members.append(Member(name, rule=rule))

    def store(self, name: bytes, blocks: Iterable[bytes]) -> None:
        """Store a file; ``MemberProblem`` of its blocks quarantines it."""
        with self.created(name) as file:
            if file is not None:
                for block in blocks:
                    file.write(block)

    @contextmanager
    def created(self, name: bytes) -> Iterator[MemberFile | None]:
        """Provide a file to write into within a context; None if its name cannot be accepted."""
        plain = plain_name(name)
        if plain is None:
            self.refuse(name, "member-name-unsafe")
            yield None
            return
        if plain in self._stored:
            self._twice.add(plain)
            self.refuse(plain, "member-name-twice")
            yield None
            return
        self.budget.take_member()
        self._stored.add(plain)
        file = MemberFile(self._folder / stored_name(plain), self.budget)
        rule = ""
        try:
            yield file
        except MemberProblem as problem:
            rule = problem.rule
        finally:
            file.close()
        self._members.append(Member(plain, 0 if rule else file.size, rule))

    def blocks_of(self, name: bytes) -> Iterator[bytes]:
        """Yield the content of a file stored before.

        Raises
        ------
        MemberProblem
            There is no such file.
        """
        plain = plain_name(name)
        if plain is None or plain not in self._stored:
            raise MemberProblem("member-link")
        with storage_errors(), (self._folder / stored_name(plain)).open("rb") as file:
            while block := file.read(BLOCK):
                yield block

    def finished(self) -> list[Member]:
        """Return all files in the byte order of names; of files with one name, which is right is unknown."""
        members = [
            Member(one.name, rule="member-name-twice") if one.name in self._twice and not one.rule else one
            for one in self._members
        ]
        return sorted(members, key=lambda one: (one.name, one.rule, one.size))


def plain_name(name: bytes) -> bytes | None:
    """Return a relative name without empty and ``.`` parts; None for a name that leads elsewhere."""
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    # A drive letter or a backslash makes a name absolute elsewhere, and no name contains NUL.
    if not parts or name.startswith((b"/", b"\\")) or name[1:2] == b":" or 0 in name:
        return None
    return None if b".." in name.replace(b"\\", b"/").split(b"/") else b"/".join(parts)


def stored_name(name: bytes) -> str:
    """Return the path, relative to the folder of its container, under which a file is stored."""
    digest = sha256(name).hexdigest()[:40]
    return f"{digest[:2]}/{digest[2:]}"
