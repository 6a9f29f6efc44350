"""Everything that can be refused before a single source is opened."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from medsanitize.errors import FoldersInUse, UsageError
from medsanitize.pipeline.engines.shared_storage import SEEN
from medsanitize.pipeline.runtime.workspace import release_folder, staging_folder
from medsanitize.pipeline.storage.open import target_of
from medsanitize.policies.model import Policy
from medsanitize.release import layout
from medsanitize.release.atomic_io import storage_errors

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def check_paths(policy: Policy) -> None:
    """Refuse inputs that do not exist and roots that lie in one another.

    Raises
    ------
    UsageError
        With what to change.
    """
    inputs = [path.resolve() for path in policy.inputs if isinstance(path, Path)]
    for path in inputs:
        if not path.exists():
            raise UsageError("inputs: a folder does not exist", "Correct the path in the policy")
        if not os.access(path, os.R_OK):
            raise UsageError("inputs: a folder may not be read", "Grant read access to it")
    state = policy.state.resolve()
    output = policy.output.resolve() if isinstance(policy.output, Path) else state
    if isinstance(policy.output, Path) and _overlap(output, state):
        raise UsageError("output and state lie in one another", "Give each a folder of its own")
    for path in inputs:
        if _overlap(path, output) or _overlap(path, state):
            raise UsageError(
                "An input and output or state lie in one another",
                "Give inputs, output and state folders of their own",
            )
    for number, path in enumerate(inputs):
        if any(_overlap(path, other) for other in inputs[:number]):
            raise UsageError("Two inputs lie in one another", "Name each folder once")


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def prepare_folders(policy: Policy) -> None:
    """Make output and state; the state folder is for its owner alone.

    Raises
    ------
    UsageError
        One of them cannot be made or written.
    """
    folders = ((policy.state, "state", 0o700), (release_folder(policy), "output", 0o755))
    for path, name, mode in folders:
        try:
            path.mkdir(mode=mode, parents=True, exist_ok=True)
            if name == "state":
                path.chmod(0o700)
        except OSError:
            raise UsageError(
                f"{name}: the folder cannot be made", "Correct the path or its permissions"
            ) from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise UsageError(
                f"{name}: the folder may not be written", "Grant write access or name another"
            ) from None


def is_finished(policy: Policy) -> bool:
    """Whether output holds a finished release.

    Raises
    ------
    EnvironmentFailure
        It is a store, which cannot be reached.
    """
    if isinstance(policy.output, Path):
        return (policy.output / layout.ROOT).exists()
    return target_of(policy.output).is_finished()


def check_output(policy: Policy, *, ours: bool) -> None:
    """Refuse an output with anything in it that is not of this run.

    Of an output in a store, what lies in the state is a copy: where the store has nothing, it goes.

    Parameters
    ----------
    ours : bool
        Whether the state knows of an unfinished run into this output.
    """
    if not isinstance(policy.output, Path):
        target_of(policy.output).require_empty()
        _clear(release_folder(policy))
        return
    allowed = {layout.STAGING, *layout.TOP_LEVEL} if ours else set()
    if {entry.name for entry in release_folder(policy).iterdir()} - allowed:
        raise UsageError(
            "output: the folder holds something that is not of this run",
            "Name another folder, or remove what an unfinished run left there (.staging)",
        )


@contextmanager
def locked(policy: Policy, *, shared: bool = False, name: str = "") -> Iterator[None]:
    """Hold state and output against other runs; shards share them and hold a name each.

    In the state it is files that are locked, not the folder: between machines, network file systems know
    the locks of files alone. Where there are no locks at all, nobody is held off.

    Raises
    ------
    FoldersInUse
        Another run holds them.
    """
    with ExitStack() as stack:
        flag = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        folder = os.open(release_folder(policy), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _hold(stack, folder, flag)
        _hold(stack, _lock_file(policy.state / "run.lock"), flag)
        if name:
            _hold(stack, _lock_file(policy.state / f"{name}.lock"), fcntl.LOCK_EX)
        yield


def _lock_file(path: Path) -> int:
    with storage_errors():
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _hold(stack: ExitStack, descriptor: int, flag: int) -> None:
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, flag | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FoldersInUse(
            "Another run is at work in this state or output folder", "Wait until it has ended, then run again"
        ) from None
    except OSError as failure:
        if failure.errno not in _NO_LOCKS:
            raise


def ensure_staging(policy: Policy) -> Path:
    """The staging folder, which nobody else may look into; what is in it stays."""
    staging = staging_folder(policy)
    with storage_errors():
        staging.mkdir(mode=0o700, exist_ok=True)
        for left in staging.glob(f"{SEEN}*"):
            left.unlink(missing_ok=True)
    return staging


def fresh_staging(policy: Policy) -> Path:
    """An empty staging folder."""
    remove_staging(policy)
    return ensure_staging(policy)


def remove_staging(policy: Policy) -> None:
    """Take the staging folder away with everything in it."""
    _remove(staging_folder(policy))


def remove_put_away(policy: Policy) -> None:
    """Take away the local copy of a release that is in its store."""
    if not isinstance(policy.output, Path):
        _remove(release_folder(policy))


def _clear(folder: Path) -> None:
    """Take away what is in a folder; it stays itself, for it is locked."""
    with storage_errors():
        for path in tuple(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                _remove(path)
            else:
                path.unlink()


def _remove(folder: Path) -> None:
    import shutil

    with storage_errors():
        if folder.exists():
            shutil.rmtree(folder)
