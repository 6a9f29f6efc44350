"""Checks that every machine of a run sees the same inputs and the same staging folder.

Ray workers are checked at their start. Shards are checked against what the inventory left: the recorded
inputs, encrypted in the state, and a probe file in the staging folder.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import SharedInputs
from medsanitize.pipeline.state.stage_results import SHARED_INPUTS
from medsanitize.pipeline.storage.local import Root, input_unreachable, is_unchanged, local_root, pin_inputs
from medsanitize.pipeline.storage.sources import address_of
from medsanitize.release.atomic_io import storage_errors

# Prefix of probe files, with which workers on other machines prove that they see this folder.
PROBE_PREFIX = ".seen-"

# Network file systems cache folders: NFS for 30 seconds by default (acdirmin).
_PROBE_SECONDS = 30.0


def inputs_of(inputs: Iterable[object]) -> tuple[Root, ...]:
    """Record the local inputs of a policy as this machine sees them.

    Raises
    ------
    EnvironmentFailure
        An input is unreachable.
    """
    return tuple(local_root(address_of(one)) for one in inputs if isinstance(one, Path))


def require_reachable(inputs: Iterable[object]) -> None:
    """Check that the servers of mounted inputs answer; whether the inputs exist is not checked.

    Raises
    ------
    EnvironmentFailure
        A server does not answer.
    UsageError
        Read access is denied.
    """
    for one in inputs:
        if isinstance(one, Path):
            try:
                os.stat(one)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as failure:
                # Permission and path errors are the user's; anything else is a server that does not answer.
                if failure.errno in (errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG):
                    raise UsageError(
                        "inputs: a folder is not readable", "Grant read access to it, or correct its path"
                    ) from None
                raise input_unreachable() from None


def require_inputs(inputs: Sequence[Root]) -> None:
    """Check that this machine sees the inputs, with the same inodes, and require this from now on.

    Raises
    ------
    EnvironmentFailure
        An input is missing or different.
    """
    if not all(map(is_unchanged, inputs)):
        raise EnvironmentFailure(
            "A node sees other inputs than the rest",
            "Mount them on every node, at the same path and with the same inodes, then run the same"
            " command again; if they were replaced, repeat the inventory",
        )
    pin_inputs(inputs)


def new_probe_name() -> str:
    """Create the name of a probe file."""
    return PROBE_PREFIX + secrets.token_hex(16)


def write_probe(staging: Path, mark: str) -> None:
    """Write a probe file.

    Raises
    ------
    EnvironmentFailure
        This machine cannot write to the staging folder.
    """
    try:
        os.close(os.open(staging / mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        raise _different_output() from None


def require_probe(staging: Path, mark: str) -> None:
    """Check that a probe file exists here; network file systems may show it with a delay.

    Raises
    ------
    EnvironmentFailure
        It does not exist: the other machine writes elsewhere.
    """
    latest = time.monotonic() + _PROBE_SECONDS
    while not (staging / mark).exists():
        if time.monotonic() > latest:
            raise _different_output()
        time.sleep(0.1)


def _different_output() -> EnvironmentFailure:
    return EnvironmentFailure(
        "A node writes to another output folder than the rest",
        "Mount the folder on every node, at the same path, then run the same command again",
    )


# -- shards -------------------------------------------------------------------------------


def publish_input_snapshot(state: State, inputs: Sequence[Root], staging: Path) -> None:
    """Store the recorded inputs and a probe file for shards, which may start from now on."""
    if state.path is None:
        return
    mark = new_probe_name()
    write_probe(staging, mark)
    SHARED_INPUTS.store(state, SharedInputs(tuple(inputs), mark))


def remove_input_snapshot(state: State, staging: Path) -> None:
    """Remove what shards are checked against: there is no work left for them."""
    shared = SHARED_INPUTS.load(state)
    if shared is None:
        return
    # The state first: a shard that starts now must find no snapshot.
    with state.transaction():
        SHARED_INPUTS.remove(state)
    with storage_errors():
        (staging / shared.mark).unlink(missing_ok=True)


def require_same_storage(state: State, staging: Path) -> tuple[Root, ...]:
    """Check that this machine sees what the inventory saw, before a shard reads or writes anything.

    Returns
    -------
    tuple of Root
        The inputs as the inventory recorded them.

    Raises
    ------
    EnvironmentFailure
        This machine sees other inputs or another staging folder.
    UsageError
        There is no inventory for shards any more.
    """
    shared = SHARED_INPUTS.load(state)
    if shared is None:
        raise UsageError(
            "The sharded run was superseded by a full run",
            "Wait for it to finish, or build the inventory again: medsanitize run POLICY --inventory-only",
        )
    require_inputs(shared.roots)
    require_probe(staging, shared.mark)
    return shared.roots
