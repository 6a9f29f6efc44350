"""What every machine of a run must see as the one that leads it: the inputs, and the staging folder.

Ray workers are asked for it when they start. Shards are asked by what the inventory left: the inputs as it
saw them, sealed in the state, and a mark in the staging folder.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import SharedInputs
from medsanitize.pipeline.state.stage_results import SHARED_INPUTS
from medsanitize.pipeline.storage.local import Root, input_unreachable, is_unchanged, local_root, pin_inputs
from medsanitize.pipeline.storage.sources import address_of
from medsanitize.policies.model import Policy
from medsanitize.release.atomic_io import storage_errors

SEEN = ".seen-"
"""What names of files begin with by which workers elsewhere show, for a moment, that they see this folder."""

_WITHIN = 30.0


def inputs_of(policy: Policy) -> tuple[Root, ...]:
    """The local inputs of a policy as this machine sees them, by the addresses that they are read at.

    Raises
    ------
    EnvironmentFailure
        One cannot be reached.
    """
    return tuple(local_root(address_of(one)) for one in policy.inputs if isinstance(one, Path))


def require_reachable(policy: Policy) -> None:
    """Make sure that whatever the local inputs are mounted from answers; that they are there is not asked.

    Raises
    ------
    EnvironmentFailure
        Its server does not answer.
    UsageError
        It may not be read.
    """
    for one in policy.inputs:
        if isinstance(one, Path):
            try:
                os.stat(one)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as failure:
                if failure.errno in (errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG):
                    raise UsageError(
                        "inputs: a folder may not be read", "Grant read access to it, or correct its path"
                    ) from None
                raise input_unreachable() from None


def require_inputs(inputs: Sequence[Root]) -> None:
    """Make sure that this machine sees the inputs, with the same inodes; what it reads is held to them.

    Raises
    ------
    EnvironmentFailure
    """
    if not all(map(is_unchanged, inputs)):
        raise EnvironmentFailure(
            "A node does not see the inputs as the others do",
            "Mount them on every node, at the same path and with the same inodes, then run the same"
            " command again; where they were replaced, take the inventory again",
        )
    pin_inputs(inputs)


def new_probe_name() -> str:
    """A name of a file in the staging folder by which one machine shows itself to another."""
    return SEEN + secrets.token_hex(16)


def write_probe(staging: Path, mark: str) -> None:
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


def require_probe(staging: Path, mark: str) -> None:
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


def publish_input_snapshot(state: State, inputs: Sequence[Root], staging: Path) -> None:
    """Leave what shards are asked by, the inputs as they were taken; shards may be at work from now on."""
    if state.path is None:
        return
    mark = new_probe_name()
    write_probe(staging, mark)
    SHARED_INPUTS.store(state, SharedInputs(tuple(inputs), mark))


def remove_input_snapshot(state: State, staging: Path) -> None:
    """Take away what shards are asked by: nothing is left for them to do."""
    shared = SHARED_INPUTS.load(state)
    if shared is None:
        return
    with state.transaction():
        SHARED_INPUTS.remove(state)
    with storage_errors():
        (staging / shared.mark).unlink(missing_ok=True)


def require_same_storage(state: State, staging: Path) -> tuple[Root, ...]:
    """Make sure that this machine sees what the inventory saw, before a shard reads or writes anything.

    Returns the inputs as the inventory took them.

    Raises
    ------
    EnvironmentFailure
        It does not.
    UsageError
        The inventory is not there for shards any more.
    """
    shared = SHARED_INPUTS.load(state)
    if shared is None:
        raise UsageError(
            "There is nothing for shards to do: a whole run took over",
            "Let it end, or take the inventory again: medsanitize run POLICY --inventory-only",
        )
    require_inputs(shared.roots)
    require_probe(staging, shared.mark)
    return shared.roots
