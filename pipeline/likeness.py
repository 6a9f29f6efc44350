"""What every machine of a run must see as the one that leads it: the inputs, and the staging folder.

Ray workers are asked for it when they start. Shards are asked by what the inventory left: the inputs as it
saw them, sealed in the state, and a mark in the staging folder.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.preflight import SEEN
from medsanitize.pipeline.state import State
from medsanitize.policies.model import Policy
from medsanitize.release.store import storage

_SIGHT = "sight"
_ENTRIES = 8
_WITHIN = 30.0


@dataclass(frozen=True, slots=True, repr=False)
class Root:
    """A local input: its path and inode, and some names in it with theirs."""

    path: bytes
    inode: int
    entries: tuple[tuple[bytes, int], ...] = ()

    def __repr__(self) -> str:
        return "Root(...)"


def inputs_of(policy: Policy) -> tuple[Root, ...]:
    """The local inputs of a policy as this machine sees them."""
    return tuple(_root(os.fsencode(one)) for one in policy.inputs if isinstance(one, Path))


def _root(path: bytes) -> Root:
    entries = []
    if os.path.isdir(path):
        with os.scandir(path) as found:
            names = [entry.name for entry in islice(found, _ENTRIES)]
        inodes = [(name, _inode(path + b"/" + name)) for name in names]
        entries = [(name, inode) for name, inode in inodes if inode is not None]
    return Root(path, os.stat(path).st_ino, tuple(entries))


def _inode(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


def require_inputs(inputs: Sequence[Root]) -> None:
    """Make sure that this machine sees the inputs, with the same inodes.

    The inode of a root says little where every file system begins with the same, so one of its entries must
    be the same, too; more is not asked, since an entry may have been replaced.

    Raises
    ------
    EnvironmentFailure
    """
    for root in inputs:
        try:
            same = os.stat(root.path).st_ino == root.inode
        except OSError:
            same = False
        if same and root.entries:
            same = any(_inode(root.path + b"/" + name) == inode for name, inode in root.entries)
        if not same:
            raise EnvironmentFailure(
                "A node does not see the inputs as the others do",
                "Mount them on every node, at the same path and with the same inodes, then run the same"
                " command again; where they were replaced, take the inventory again",
            )


def new_mark() -> str:
    """A name of a file in the staging folder by which one machine shows itself to another."""
    return SEEN + secrets.token_hex(16)


def leave_mark(staging: Path, mark: str) -> None:
    """Leave a mark.

    Raises
    ------
    EnvironmentFailure
        This machine cannot write to the staging folder.
    """
    try:
        os.close(os.open(staging / mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        raise _not_seen() from None


def require_mark(staging: Path, mark: str) -> None:
    """Make sure that a mark is here; network file systems may show it a little later.

    Raises
    ------
    EnvironmentFailure
        It is not: what is written here is not where the mark is.
    """
    latest = time.monotonic() + _WITHIN
    while not (staging / mark).exists():
        if time.monotonic() > latest:
            raise _not_seen()
        time.sleep(0.1)


def _not_seen() -> EnvironmentFailure:
    return EnvironmentFailure(
        "A node does not write to the output folder that the others see",
        "Mount the folder on every node, at the same path, then run the same command again",
    )


# -- shards -------------------------------------------------------------------------------


def share_out(state: State, policy: Policy, staging: Path) -> None:
    """Leave what shards are asked by; they may be at work from now on."""
    if state.path is None:
        return
    mark = new_mark()
    leave_mark(staging, mark)
    roots = [
        [os.fsdecode(path), inode, [(os.fsdecode(name), number) for name, number in entries]]
        for path, inode, entries in map(astuple, inputs_of(policy))
    ]
    state.put(_SIGHT, json.dumps([roots, mark]))


def end_sharing(state: State, staging: Path) -> None:
    """Take away what shards are asked by: nothing is left for them to do."""
    sight = state.get(_SIGHT)
    if sight is None:
        return
    with state.transaction() as db:
        db.execute("DELETE FROM meta WHERE name = ?", (_SIGHT,))
    with storage():
        (staging / json.loads(sight)[1]).unlink(missing_ok=True)


def require_likeness(state: State, staging: Path) -> None:
    """Make sure that this machine sees what the inventory saw, before a shard reads or writes anything.

    Raises
    ------
    EnvironmentFailure
        It does not.
    UsageError
        The inventory is not there for shards any more.
    """
    sight = state.get(_SIGHT)
    if sight is None:
        raise UsageError(
            "There is nothing for shards to do: a whole run took over",
            "Let it end, or take the inventory again: medsanitize run POLICY --inventory-only",
        )
    roots, mark = json.loads(sight)
    require_inputs(
        [
            Root(os.fsencode(path), inode, tuple((os.fsencode(name), number) for name, number in entries))
            for path, inode, entries in roots
        ]
    )
    require_mark(staging, mark)
